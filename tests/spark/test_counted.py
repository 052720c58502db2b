"""What is added up where rows are read, and then once more, is what adding up all rows gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext
from pyspark.sql import SparkSession

import tilt as tl
from queries import KEYED, Query, ticks
from test_cuts import Schema
from test_packing import Context, dealt
from test_run import by_time_and_key, framed, local, same
from tilt import spark as ts
from tilt.sources import Deferred, Events
from tilt.spark import counted
from tilt.spark.counted import Cells, Counted
from tilt.spark.packing import PLACE, packed_schema
from tilt.spark.plan import Bound

CELL = tl.tumbling("10s")


def at_some(x: tl.Stream) -> tl.Stream:
    count = x["price"].window(CELL).len()
    return count.at(count.filter(count > 1))


COUNTED: dict[str, Query] = {
    "counts": lambda x: x["price"].window(CELL).len(),
    "of some": lambda x: x.filter(x["price"] > 100)["price"].window(CELL).len(),
    "sums": lambda x: x["size"].cast("i32").window(CELL).sum(),
    "extremes": lambda x: x["price"].window(CELL).agg(least=tl.min(), most=tl.max(), n=tl.len()),
    "of texts": lambda x: x["word"].window(CELL).max(),
    "of rows": lambda x: x.window(CELL).agg(n=tl.len(), most=tl.col("size").max(), small=(tl.col("size") < 9).sum()),
    "moved": lambda x: x["size"].window(tl.tumbling("7s", offset="3s")).min(),
    "computed": lambda x: (x["price"] * 2 - x["size"]).window(CELL).max() / 3,
    "at others": lambda x: x["price"].window(CELL).len().at(x["size"].window(CELL).min()),
    "at some": at_some,
}
"""Queries by key whose rows are added up before they are moved."""

MOVED: dict[str, Query] = {
    "sums of floats": lambda x: x["price"].window(CELL).sum(),
    "sums of 64 bits": lambda x: x["size"].window(CELL).sum(),
    "means": lambda x: x["price"].window(CELL).mean(),
    "overlapping": lambda x: x["price"].window(tl.hopping("10s", every="5s")).len(),
    "windows of means": lambda x: x["price"]["-5s":].mean().window(CELL).max(),
    "windows of rows before": lambda x: x["price"].prev().window(CELL).max(),
    "rows and cells": lambda x: x["price"] - x["price"].window(CELL).max(),
    "at rows": lambda x: x["price"].window(CELL).len().at(x["size"]),
    "filled": lambda x: x["price"].window(CELL).len().fill_null(0),
    "two grids": lambda x: x["price"].window(CELL).len() + x["price"].window(tl.tumbling("5s")).len(),
    "changes": lambda x: x["size"].window(CELL).max().diff(),
    "held": lambda x: x["price"].window(CELL).len().hold("25s"),
    "of cells": lambda x: x["price"].window(CELL).len().window("1m").sum(),
    "lists": lambda x: x["price"].window(CELL).agg(all=tl.collect(), n=tl.len()),
}
"""Queries by key whose rows are moved."""


def rough(rng: np.random.Generator, rows: int) -> pa.Table:
    """Give rows with texts, NaN and zeros of both signs."""
    table = ticks(rng, rows)
    prices = np.asarray(table.column("price").fill_null(0.0)).copy()
    prices[rng.random(rows) < 0.1] = np.nan
    prices[rng.random(rows) < 0.2] *= -0.0
    table = table.set_column(1, "price", pa.array(prices, mask=rng.random(rows) < 0.3))
    return table.append_column("word", pa.array(rng.choice(["", "é", "text"], rows), mask=rng.random(rows) < 0.3))


def exactly(table: pa.Table) -> list[tuple[object, ...]]:
    """Give rows whose floats are compared by their bits; all NaN are one."""
    return [
        tuple(value.hex() if isinstance(value, float) else value for value in row.values()) for row in table.to_pylist()
    ]


def bound_to(query: Query, schema: pa.Schema, **how: object) -> Bound:
    events = Events(**({"time": "ts", "key": "sym"} | how))  # type: ignore[arg-type]
    source = Deferred(tl.Table(schema.empty_table()), events)
    return Bound(query(tl.Stream._input("stream", source)), {"stream": Schema(schema, events)})


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(COUNTED)),
    st.integers(0, 1 << 32),
    st.integers(1, 150),
    st.integers(1, 6),
    st.integers(1, 99),
)
def test_any_partitions_give_the_local_result(name: str, seed: int, rows: int, places: int, at_once: int) -> None:
    rng = np.random.default_rng(seed)
    table = rough(rng, rows)
    found = by_time_and_key(run(bound_to(COUNTED[name], table.schema), table, rng, places, at_once), "sym")
    expected = local(COUNTED[name], {"stream": table}, key="sym")
    assert found.column_names == expected.column_names
    assert exactly(found.cast(expected.schema)) == exactly(expected)


@pytest.mark.parametrize(
    ("dtype", "unit", "cell"),
    [
        (pa.int64(), None, 10),
        (pa.int64(), "s", "10s"),
        (pa.timestamp("us"), None, "10s"),
        (pa.timestamp("us", "Europe/Berlin"), None, "10s"),
        (pa.timestamp("s", "UTC"), None, "10s"),
    ],
)
def test_times_may_be_of_many_types(dtype: pa.DataType, unit: str | None, cell: str | int) -> None:
    rng = np.random.default_rng(1)
    table = rough(rng, 120)
    seconds = np.sort(rng.integers(0, 300, 120))
    times = pa.array(seconds) if pa.types.is_integer(dtype) else pa.array(seconds, pa.timestamp("s")).cast(dtype)
    table = table.set_column(0, "ts", times)
    query: Query = lambda x: x["price"].window(tl.tumbling(cell)).agg(n=tl.len(), most=tl.max())  # noqa: E731
    stream = tl.stream(table, time="ts", unit=unit, overlap="bag").key_by("sym")
    expected = query(stream).collect(layout="point").to_arrow()
    bound = bound_to(query, table.schema, unit=unit)
    found = by_time_and_key(run(bound, table, rng, 3, 17), "sym")
    assert exactly(found.cast(expected.schema)) == exactly(expected)


def run(bound: Bound, table: pa.Table, rng: np.random.Generator, places: int, at_once: int) -> pa.Table:
    """Do what Spark does: rows in some partitions and in no order, blocks to places."""
    cells = Cells.of(bound)
    assert cells is not None
    first, last = Counted(bound, places, (), cells).tasks
    mixed = table.take(pa.array(rng.permutation(len(table)))).select(bound.columns("stream"))
    schema = packed_schema((cells.schema,))
    blocks: list[pa.RecordBatch] = []
    for number, batches in enumerate(dealt(rng, mixed, int(rng.integers(1, 4)))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TaskContext, "get", lambda number=number: Context(number))
            patch.setattr(counted, "_AT_ONCE", at_once)
            blocks += first.run(iter(batches))
    whole = pa.Table.from_batches(blocks, schema)
    found: list[pa.RecordBatch] = []
    for place in range(places):
        mine = whole.filter(pa.array(whole.column(PLACE).to_numpy() == place)).combine_chunks()
        found += last.run(iter(mine.to_batches(max_chunksize=int(rng.integers(1, len(mine) + 2)))))
    return pa.Table.from_batches(found, bound.schema)


def test_planning_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    run = tl.Query.run

    def noted(self: tl.Query, *given: Any, **how: Any) -> tl.Table:  # noqa: ANN401
        taken.append(how.get("backend"))
        return run(self, *given, **how)

    monkeypatch.setattr(tl.Query, "run", noted)
    assert not bound_to(COUNTED["extremes"], rough(np.random.default_rng(1), 9).schema).fills
    assert set(taken) == {"interpreter"}


@pytest.mark.parametrize("name", MOVED)
def test_other_queries_move_their_rows(name: str) -> None:
    assert Cells.of(bound_to(MOVED[name], rough(np.random.default_rng(1), 9).schema)) is None


@pytest.mark.parametrize("name", ["tilt cell", "tilt rows", "tilt counted"])
def test_columns_with_names_of_our_own_are_moved(name: str) -> None:
    table = rough(np.random.default_rng(1), 9)
    query: Query = lambda x: x[name].window(CELL).len()  # noqa: E731
    assert Cells.of(bound_to(query, table.rename_columns(["ts", name, "size", "sym", "word"]).schema)) is None
    keyed = table.rename_columns(["ts", "price", "size", name, "word"]).schema
    assert Cells.of(bound_to(COUNTED["counts"], keyed, key=name)) is None


@pytest.mark.parametrize("names", [["every", "sym"], ["price", "every"]])
def test_columns_may_be_called_as_clocks_are(names: list[str]) -> None:
    value, key = names
    query: Query = lambda x: tl.when(x[value] > 1).then(1).otherwise(2).window(CELL).max()  # noqa: E731
    schema = rough(np.random.default_rng(1), 9).rename_columns(["ts", value, "size", key, "word"]).schema
    assert not bound_to(query, schema, key=key).fills
    assert bound_to(lambda x: query(x).fill_null(0), schema, key=key).fills


FAR = (1 << 62) + 1000


def test_rows_that_are_too_far_away_are_named(spark: SparkSession) -> None:
    times = pa.array([1, FAR, 5]).cast(pa.timestamp("us", "UTC"))
    frame = spark.createDataFrame(pa.table({"ts": times, "price": [1.0, 2.0, 3.0], "sym": ["a", "a", "b"]}))
    with pytest.raises(tl.SchemaError, match=rf"time column `ts`.*beyond.*\[ts = {FAR}, sym = a"), ts.errors():
        ts.run(COUNTED["counts"], frame, time="ts", key="sym").collect()


def test_partitions_without_rows_count_nothing(spark: SparkSession) -> None:
    table = rough(np.random.default_rng(3), 40)
    expected = local(COUNTED["extremes"], {"stream": table}, key="sym")
    found = ts.run(COUNTED["extremes"], framed(spark, table, 60), time="ts", key="sym", partitions=9).toArrow()
    assert exactly(by_time_and_key(found, "sym").cast(expected.schema)) == exactly(expected)
    none = spark.createDataFrame(table.slice(0, 0), framed(spark, table).schema)
    assert ts.run(COUNTED["extremes"], none, time="ts", key="sym").collect() == []


@pytest.mark.parametrize("how", [{"overlap": "disjoint"}, {"valid": "until_next"}, {"valid": "5s"}])
def test_rows_that_promise_something_are_moved(how: dict[str, str]) -> None:
    schema = rough(np.random.default_rng(1), 9).schema
    assert Cells.of(bound_to(COUNTED["counts"], schema)) is not None
    assert Cells.of(bound_to(COUNTED["counts"], schema, **how)) is None


@pytest.mark.parametrize("name", ["extremes", "of some", "moved"])
def test_cells_of_a_frame_are_the_local_result(spark: SparkSession, name: str) -> None:
    table = rough(np.random.default_rng(len(name)), 400)
    frame = framed(spark, table)
    expected = local(COUNTED[name], {"stream": table}, key="sym")
    for how in ({}, {"partitions": 2}, {"partitions": 5, "memory": "1KB", "skew": None}):
        found = by_time_and_key(ts.run(COUNTED[name], frame, time="ts", key="sym", **how).toArrow(), "sym")
        assert exactly(found.cast(expected.schema)) == exactly(expected)
    assert "by cell where rows are read" in ts.explain(COUNTED[name], frame, time="ts", key="sym")
    assert "by cell" not in ts.explain(KEYED["tumbling"], frame, time="ts", key="sym")


def test_functions_of_python_are_called_where_rows_are_read_and_after(spark: SparkSession) -> None:
    halved = tl.udf(lambda v: v / 2, args=[float], returns=float, name="counted_halved")
    query: Query = lambda x: halved(halved(x["price"]).window(CELL).max())  # noqa: E731
    table = ticks(np.random.default_rng(1), 200)
    found = ts.run(query, framed(spark, table), time="ts", key="sym", partitions=2)
    same(by_time_and_key(found.toArrow(), "sym"), local(query, {"stream": table}, key="sym"))
    frame = framed(spark, table)
    assert "by cell" in ts.explain(query, frame, time="ts", key="sym")


def test_rows_without_a_time_are_an_error_where_cells_are_added_up(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(1), 50)
    times = table.column("ts").to_pylist()
    broken = table.set_column(0, "ts", pa.array([*times[:-1], None], table.schema.field("ts").type))
    with pytest.raises(tl.SchemaError, match=r"time column `ts`.*null"), ts.errors():
        ts.run(COUNTED["counts"], spark.createDataFrame(broken), time="ts", key="sym").collect()
