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


def variables(python: str = sys.executable) -> dict[str, str]:
    """Give the environment of scripts of this directory."""
    paths = os.pathsep.join(map(str, PATHS))
    return os.environ | {"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "PYSPARK_PYTHON": python}


def script(*command: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: one process has one Spark."""
    whole = [python, *command]
    return subprocess.run(
        whole, env=variables(python), capture_output=True, text=True, timeout=500, check=False, cwd=ROOT
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
def test_results_are_the_same_on_the_oldest_spark() -> None:
    tests = {
        "run": ["slices_of_a_frame_are_the_local_result[zscore]", "keys_of_a_frame_are_the_local_result[diff]"],
        "counted": ["cells_of_a_frame_are_the_local_result[moved]"],
        "types": ["records_go_both_ways[how0]"],
        "parquet": ["slices_of_files_are_the_local_result[filled]"],
        "skew": ["split_keys_give_the_local_result[hopping]"],
        "streaming": ["keys_are_spread_over_shards_and_quiet_ones_go_on", "two_streams_are_joined"],
    }
    chosen = [f"{HERE / f'test_{file}.py'}::test_{name}" for file, names in tests.items() for name in names]
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore"]
    done = script("-m", "pytest", *options, *chosen, python=str(spark_environment(OLDEST) / "bin" / "python"))
    assert done.returncode == 0, done.stdout[-4000:]
