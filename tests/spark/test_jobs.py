"""Nothing is run before Spark runs a result, but by ``ordered=True``: which jobs there are until then, and after."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import KEYED, ONE, STAGED, TWO, Query, quotes, ticks
from test_ordered import apart, files
from test_streaming import arriving
from tilt import spark as ts

__all__ = ["apart", "files"]
T = TypeVar("T")
_groups = itertools.count()


def jobs(spark: SparkSession, act: Callable[[], T]) -> tuple[T, int]:
    """Give what a function gives, and how many jobs Spark has run for it."""
    group = f"tilt test {next(_groups)}"
    context = spark.sparkContext
    context.setJobGroup(group, group)
    try:
        found = act()
    finally:
        context.setLocalProperty("spark.jobGroup.id", "")
    return found, len(context.statusTracker().getJobIdsForGroup(group))


counted = lambda x: x["price"].window(tl.tumbling("10s")).agg(n=tl.len(), most=tl.max())  # noqa: E731
WAYS: dict[str, tuple[Query, dict[str, Any]]] = {
    "keyed": (ONE["zscore"], {"key": "sym"}),
    "keyed, no look for skew": (ONE["zscore"], {"key": "sym", "skew": None}),
    "keyed, whose span is found": (ONE["held"], {"key": "sym"}),
    "keyed, counted": (counted, {"key": "sym"}),
    "slices": (ONE["zscore"], {"slices": 4}),
    "slices of keys": (ONE["zscore"], {"key": "sym", "slices": 4}),
    "carried": (KEYED["diff"], {"slices": 4}),
    "in stages": (STAGED["means"], {}),
    "in stages, with a table": (STAGED["looked up later"], {}),
}
"""Ways of cutting a data frame that leave everything to Spark."""


@pytest.mark.parametrize("name", WAYS)
def test_frames_are_planned_without_a_job(spark: SparkSession, name: str) -> None:
    query, how = WAYS[name]
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 100))
    result, before = jobs(spark, lambda: ts.run(query, frame, time="ts", **how))
    assert before == 0
    _, explained = jobs(spark, lambda: ts.explain(query, frame, time="ts", **how))
    assert explained == 0
    _, after = jobs(spark, result.collect)
    assert after > 0


@pytest.mark.parametrize("how", [{"key": "sym"}, {"slices": 3}])
def test_frames_of_two_inputs_are_planned_without_a_job(spark: SparkSession, how: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    frames = {"trades": spark.createDataFrame(ticks(rng, 60)), "quotes": spark.createDataFrame(quotes(rng, 60))}
    assert jobs(spark, lambda: ts.run(TWO["asof"], frames, time="ts", **how))[1] == 0


@pytest.mark.parametrize("how", [{}, {"key": "sym"}, {"slices": 2}, {"key": "sym", "slices": 2}])
def test_rows_are_not_looked_at_when_a_query_is_planned(spark: SparkSession, how: dict[str, Any]) -> None:
    raising = F.raise_error(F.lit("ran")).cast("double")
    broken = spark.range(10).select(F.timestamp_micros("id").alias("ts"), F.lit("a").alias("sym"), raising.alias("x"))
    result = ts.run(lambda s: s["x"]["-1s":].sum(), broken, time="ts", **how)
    assert "x" in result.columns


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "sym", "partitions": 2}, {"key": "sym"}])
def test_files_are_planned_without_a_job(spark: SparkSession, tmp_path: Path, how: dict[str, Any]) -> None:
    pq.write_table(ticks(np.random.default_rng(1), 100), tmp_path / "ticks.parquet", row_group_size=10)

    def planned() -> DataFrame:
        return ts.run(ONE["zscore"], ts.scan_parquet(spark, tmp_path, time="ts"), **how)

    result, before = jobs(spark, planned)
    assert before == 0
    # Slices are one stage of tasks, also with a key where that is cheaper; where rows are hashed by it, they are moved.
    assert jobs(spark, result.collect)[1] == (2 if "partitions" in how else 1)


@pytest.mark.usefixtures("apart")
def test_partitions_in_order_are_looked_at_when_a_query_is_planned(
    spark: SparkSession, files: tuple[DataFrame, pa.Table]
) -> None:
    frame, _ = files
    result, before = jobs(spark, lambda: ts.run(ONE["zscore"], frame, time="ts", ordered=True))
    # Times of partitions are an aggregate, whose shuffle is a job of its own; then the halos, and no shuffle after.
    assert before == 3
    assert jobs(spark, result.collect)[1] == 1
    _, explained = jobs(spark, lambda: ts.explain(ONE["zscore"], frame, time="ts", ordered=True))
    assert explained == 3


def test_streams_are_planned_without_a_job(spark: SparkSession, tmp_path: Path) -> None:
    frame = arriving(spark, tmp_path / "in", ticks(np.random.default_rng(1), 50), 2)
    for key in (None, "sym"):
        planned = partial(ts.run_stream, ONE["zscore"], frame, time="ts", key=key, lateness="1s")
        assert jobs(spark, planned)[1] == 0
