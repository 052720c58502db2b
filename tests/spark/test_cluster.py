"""Executors in processes of their own, sessions without a JVM here, executors without tilt, and an older Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from environments import OLDEST, long, spark_environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATHS = [HERE, ROOT / "tests" / "kafka", ROOT / "python", ROOT / "examples"]


OLD = {
    "run": [
        "slices_of_a_frame_are_the_local_result",
        "two_to_two_hundred_slices_are_the_local_result[zscore-20]",
        "two_to_two_hundred_slices_are_the_local_result[asof-200]",
        "keys_of_a_frame_are_the_local_result",
        "few_and_many_keys[10000]",
        "two_inputs_with_and_without_a_key",
        "three_inputs_with_and_without_a_key[merged]",
        "lists_are_arrays[collected]",
        "rows_in_no_order_are_sorted",
        "empty_frames_give_empty_results",
        "types_go_both_ways",
        "dates_and_plain_numbers_are_times",
        "intervals_reach_into_slices",
        "results_are_inputs_of_further_stages",
        "tables_are_joined_before_rows_are_moved",
        "plans_are_explained",
        "few_slices_share_a_task",
    ],
    "parquet": [
        "slices_of_files_are_the_local_result",
        "two_scans_and_keys",
        "what_cannot_be_scanned_is_refused",
        "keys_of_files_are_the_local_result[diff]",
        "times_that_are_missing_are_refused_by_row_group",
    ],
    "ordered": [
        "partitions_that_follow_each_other_stay_where_they_are",
        "partitions_that_overlap_are_not_ordered",
        "halos_of_files_are_fetched_by_a_filter_that_these_skip_by[ahead]",
        "of_many_halos_a_task_finds_the_rows",
        "times_that_are_missing_are_an_error_that_says_where",
    ],
    "carried": ["what_is_carried_over_slices_of_a_frame_gives_the_local_result"],
    "counted": ["cells_of_a_frame_are_the_local_result"],
    "skew": ["split_keys_give_the_local_result", "both_inputs_of_split_keys_are_cut"],
    "types": ["records_go_both_ways", "records_of_a_query_are_structs", "times_keep_their_zone"],
    "jobs": [
        "frames_are_planned_without_a_job",
        "files_are_planned_without_a_job",
        "partitions_in_order_are_looked_at_when_a_query_is_planned",
    ],
    "settings": ["frames_are_run", "settings_that_cannot_be_changed_are_named"],
    "failures": [
        "times_that_are_missing_are_an_error_and_not_dropped",
        "functions_that_raise_are_errors_of_tilt",
        "another_version_in_executors_says_how_to_ship",
        "jobs_that_fail_write_nothing",
        "errors_of_several_inputs_name_the_row_of_the_input",
    ],
    "streaming": [
        "a_stream_without_a_key_is_the_local_result",
        "keys_are_spread_over_shards_and_quiet_ones_go_on",
        "two_streams_are_joined",
        "stages_go_on_from_a_checkpoint",
        "late_rows_are_counted_and_readable",
        "late_rows_of_batches_are_counted_and_readable",
        "errors_of_streams_are_what_they_were",
        "batches_go_through_a_session_of_the_driver",
    ],
}
"""What is run on the oldest Spark: of each file the tests whose ways of cutting, shipping or writing differ there."""


def variables(python: str = sys.executable) -> dict[str, str]:
    """Give the environment of scripts of this directory."""
    paths = os.pathsep.join(map(str, PATHS))
    return os.environ | {"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "PYSPARK_PYTHON": python}


def script(*command: str, python: str = sys.executable, seconds: int = 500) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: one process has one Spark."""
    whole = [python, *command]
    return subprocess.run(
        whole, env=variables(python), capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT
    )


@pytest.mark.parametrize("kind", ["local-cluster", "connect"])
def test_results_are_the_same_with_other_sessions(kind: str) -> None:
    done = script(str(HERE / "cluster.py"), kind)
    assert done.stdout.strip().endswith("done"), done.stderr[-4000:]


@long
@pytest.mark.parametrize("executors", [1, 3])
def test_results_are_the_same_with_any_number_of_executors(executors: int) -> None:
    done = script(str(HERE / "cluster.py"), "local-cluster", str(executors))
    assert done.stdout.strip().endswith("done"), done.stderr[-4000:]


@long
@pytest.mark.parametrize("kind", ["standalone", "outdated", "connect"])
def test_tilt_is_shipped_to_executors(kind: str) -> None:
    done = script(str(HERE / "shipping.py"), kind)
    assert done.stdout.strip().endswith("done"), done.stderr[-4000:]


@long
@pytest.mark.parametrize("file", OLD)
def test_the_oldest_spark_passes_tests_of_all_parts(file: str) -> None:
    chosen = [f"{HERE / f'test_{file}.py'}::test_{name}" for name in OLD[file]]
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore"]
    python = str(spark_environment(OLDEST) / "bin" / "python")
    done = script("-m", "pytest", *options, *chosen, python=python, seconds=1800)
    assert done.returncode == 0, done.stdout[-4000:]
