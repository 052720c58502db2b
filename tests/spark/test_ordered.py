"""Partitions that are ranges of time stay where they are, and halos are fetched by a filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import ONE, ticks
from test_run import framed, local, same
from tilt import spark as ts
from tilt.spark import ordered
from tilt.spark.ordered import NearTask, Ordered, OrderedTask, covering_gaps, merged_gaps
from tilt.spark.run import _plan_of, _planned


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, pa.Table]:
    """Give files that are partitions of their own, and their rows."""
    table = ticks(np.random.default_rng(1), 600)
    times = np.asarray(table.column("ts").cast("int64"))
    edges = [0, *np.searchsorted(times, [20_000_000, 50_000_000, 90_000_000]).tolist(), len(table)]
    for number, first in enumerate(edges[:-1]):
        rows = table.slice(first, edges[number + 1] - first)
        pq.write_table(rows, tmp_path / f"part-{number}.parquet", row_group_size=20)
    return spark.read.option("mergeSchema", "false").parquet(str(tmp_path)), table


@pytest.fixture
def apart(spark: SparkSession) -> Iterator[None]:
    """Keep Spark from packing several files into a partition."""
    name = "spark.sql.files.openCostInBytes"
    before = str(spark.conf.get(name))
    spark.conf.set(name, str(1 << 27))
    yield
    spark.conf.set(name, before)


@pytest.mark.parametrize("name", ["zscore", "ahead", "filled"])
def test_partitions_that_follow_each_other_stay_where_they_are(spark: SparkSession, name: str) -> None:
    table = ticks(np.random.default_rng(len(name)), 300)
    frame = spark.createDataFrame(table).repartitionByRange(4, "ts").sortWithinPartitions("ts").cache()
    stable = frame.toArrow()
    found = ts.run(ONE[name], frame, time="ts", ordered=True)
    same(found.toArrow(), local(ONE[name], {"stream": stable}))
    assert "Exchange" not in ts.explain(ONE[name], frame, time="ts", ordered=True).split("InMemoryTableScan")[0]
    frame.unpersist()


def test_partitions_that_overlap_are_not_ordered(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(1), 100)
    with pytest.raises(tl.QueryError, match="overlap in time"):
        ts.run(ONE["zscore"], framed(spark, table), time="ts", ordered=True)


def test_rows_of_a_partition_may_be_in_no_order(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(8), 200)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    table = table.take(pa.array(first))
    frame = spark.createDataFrame(table).repartitionByRange(4, "ts").sortWithinPartitions("price").cache()
    found = ts.run(ONE["zscore"], frame, time="ts", ordered=True).toArrow()
    same(found, local(ONE["zscore"], {"stream": table}))
    frame.unpersist()


@pytest.mark.parametrize("bad", [[15], [3, 150, 151], range(40, 90)])
def test_times_that_are_missing_are_an_error_that_says_where(spark: SparkSession, bad: Sequence[int]) -> None:
    table = ticks(np.random.default_rng(8), 200, nulls=0.0)
    numbered = spark.createDataFrame(table.append_column("n", pa.array(range(200)))).coalesce(1)
    # In their order, as those of a file are: 50 rows a partition.
    frame = numbered.repartitionByRange(4, "n").sortWithinPartitions("n").cache()
    of = frame.withColumn("at", F.spark_partition_id()).where(F.col("n").isin(*bad)).groupBy("at").count().collect()
    first, *others = sorted((row["at"], row["count"]) for row in of)
    broken = frame.withColumn("ts", F.when(~F.col("n").isin(*bad), F.col("ts")))
    more = f", and in {len(others)} others" if others else ""
    said = rf"`ts` is null in {len(bad)} rows, {first[1]} of them in partition {first[0]}{more}; drop"
    with pytest.raises(tl.SchemaError, match=said) as caught:
        ts.run(ONE["zscore"], broken, time="ts", ordered=True)
    assert caught.value.column == "ts"
    frame.unpersist()


def test_times_that_are_missing_later_are_an_error_of_the_task(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ticks(np.random.default_rng(8), 50)
    planned = _planned(ONE["zscore"], spark.createDataFrame(table).coalesce(1), {"time": "ts", "ordered": True})
    tasks: list[OrderedTask] = []
    monkeypatch.setattr(ordered, "mapped", lambda _, task, *__: tasks.append(task))
    planned.frame()
    (task,) = tasks
    assert task.stretches is not None
    task = replace(task, stretches={-1: task.stretches[0]})
    rows = table.select([field.name for field in task.query.inputs[0].schema])
    assert sum(batch.num_rows for batch in task.run(iter(rows.to_batches()))) == 50
    times = pa.array([None, *rows.column("ts").to_pylist()[1:]], rows.schema.field("ts").type)
    with pytest.raises(tl.SchemaError, match="`ts` is null in 1 rows, 1 of them in partition"):
        list(task.run(iter(rows.set_column(0, "ts", times).to_batches())))


def in_time(found: DataFrame) -> pa.Table:
    """Give rows in order of time: Spark has the partitions of files in no order."""
    rows = found.toArrow()
    return rows.take(pa.array(np.argsort(np.asarray(rows.column("ts").cast("int64")), kind="stable")))


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("name", ["zscore", "ahead", "hopping"])
def test_halos_of_files_are_fetched_by_a_filter_that_these_skip_by(
    monkeypatch: pytest.MonkeyPatch, files: tuple[DataFrame, pa.Table], name: str
) -> None:
    frame, table = files
    halo = Ordered._halo
    fetched: list[DataFrame] = []

    def noted(self: Ordered, *given: object) -> DataFrame:
        fetched.append(halo(self, *given))  # type: ignore[arg-type]
        return fetched[-1]

    monkeypatch.setattr(Ordered, "_halo", noted)
    same(in_time(ts.run(ONE[name], frame, time="ts", ordered=True)), local(ONE[name], {"stream": table}))
    (rows,) = fetched
    pushed = next(line for line in _plan_of(rows).splitlines() if "PushedFilters" in line)
    pushed = pushed[pushed.index("PushedFilters") :]
    assert "GreaterThan(ts," in pushed and "LessThan(ts," in pushed
    # Three gaps of some ten seconds.
    assert 0 < rows.count() < 0.5 * len(table)


@pytest.mark.usefixtures("apart")
def test_of_many_halos_a_task_finds_the_rows(
    monkeypatch: pytest.MonkeyPatch, files: tuple[DataFrame, pa.Table]
) -> None:
    frame, table = files
    monkeypatch.setattr(ordered, "_FILTERED", 2)
    for name in ("ahead", "zscore"):
        same(in_time(ts.run(ONE[name], frame, time="ts", ordered=True)), local(ONE[name], {"stream": table}))


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), min_size=1, max_size=30).map(
        lambda found: [(lo, lo + size) for lo, size in found]
    ),
    st.integers(1, 5),
)
def test_gaps_are_those_that_were_given(gaps: list[tuple[int, int]], most: int) -> None:
    def inside(some: list[tuple[int, int]]) -> set[int]:
        return {at for lo, hi in some for at in range(lo + 1, hi)}

    merged = merged_gaps(gaps)
    assert inside(merged) == inside(gaps)
    if not merged:
        return
    covering = covering_gaps(merged, most)
    assert len(covering) <= most
    assert inside(covering) >= inside(gaps)
    rows = pa.record_batch({"t": np.arange(-60, 70)})
    (found,) = NearTask("t", tuple(merged)).run(iter([rows]))
    assert found.column("t").to_pylist() == sorted(inside(gaps))
