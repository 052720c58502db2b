"""What reaches back to the beginning is carried from slice to slice, and gives what a run over everything gives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import KEYED, Query
from test_cuts import Schema
from test_run import framed, local, ordered
from tilt import spark as ts
from tilt.sources import Deferred, Events
from tilt.spark.carried import CarriedTask, Carrier, CarryTask, GatherTask, Reads
from tilt.spark.cuts import Ends, Slices
from tilt.spark.packing import HEADER, NUMBER, PLACE, TAG, packed_schema
from tilt.spark.placing import PLAN, PackTask, Plan
from tilt.spark.plan import Bound
from tilt.spark.survey import cut_input, row_of
from tilt.spark.task import AT_ONCE, QueryTask


def twice(x: tl.Stream) -> tl.Stream:
    size = x["size"]
    return x.with_columns(a=size.cum_sum(), b=size.cum_sum() * 2, c=size.cum_count() + size.cum_count())


CARRIED: dict[str, Query] = {
    "twice": twice,
    "diff": KEYED["diff"],
    "running": KEYED["running"],
    "last three": KEYED["last three"],
    "held": lambda x: x["price"].hold(),
    "held texts": lambda x: x["sym"].hold(),
    "held records": lambda x: x.select("price", "size").hold(),
    "held before": lambda x: x["price"] - x["price"].hold()["-5s"],
    "on a grid": lambda x: x["price"].hold().every("1s"),
    "largest": lambda x: x["price"].cum_max(),
    "below the largest": lambda x: x["price"] - x["price"].cum_max(),
    "smallest": lambda x: x["size"].cum_min(),
    "counted": lambda x: x["price"].cum_count(),
    "fourth last": lambda x: x["price"].prev(4),
    "changes": lambda x: x["price"].changes(),
    "computed": lambda x: (x["price"] * 2 + x["size"]).diff(),
    "filtered": lambda x: x.filter(x["size"] > 0)["size"].cum_sum(),
    "smoothed": lambda x: x["size"].cum_sum()["-5s":].mean(),
    "many": lambda x: x.with_columns(
        total=x["size"].cum_sum(),
        count=x["size"].cum_count(),
        other=x.filter(x["sym"] == "a")["size"].cum_sum().hold("3s"),
        change=x["price"].diff(),
        largest=x["size"].cum_max(),
        mean=x["price"]["-5s":].mean(),
    ),
}
"""Queries of one input that look back without a bound."""

REFUSED: dict[str, Query] = {
    "sums of floats": lambda x: x["price"].cum_sum(),
    "sessions": KEYED["sessions"],
    "last value of a last value": lambda x: x["price"].diff().hold(),
    "last mean": lambda x: x["price"]["-5s":].mean().diff(),
    "weighted means": lambda x: x["price"].ewm(alpha=0.5),
    "last cell": lambda x: x["price"].every("1s").hold(),
}
"""Queries of which no part of the past can be left out, or not by what is known of single rows."""


def rough(rng: np.random.Generator, rows: int) -> pa.Table:
    """Give rows at few instants with few values: NaN, zeros of both signs, missing ones."""
    prices = np.round(rng.normal(0, 2, rows)) * rng.choice([1.0, -1.0], rows)
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, 400, rows)) * 100_000, pa.timestamp("us", "UTC")),
            "sym": pa.array(np.array(["a", "b", None])[rng.integers(0, 3, rows)], pa.string()),
            "price": pa.array(np.where(rng.random(rows) < 0.2, np.nan, prices), mask=rng.random(rows) < 0.4),
            "size": pa.array(rng.integers(-9, 9, rows), mask=rng.random(rows) < 0.3),
        }
    )


def exactly(table: pa.Table) -> list[tuple[object, ...]]:
    """Give rows whose floats are compared by their bits; all NaN are one."""
    return [
        tuple(value.hex() if isinstance(value, float) else value for value in row.values()) for row in table.to_pylist()
    ]


def bound_to(query: Query, schema: pa.Schema) -> Bound:
    source = Deferred(tl.Table(schema.empty_table()), Events(time="ts", overlap="bag"))
    return Bound(query(tl.Stream._input("stream", source)), {"stream": Schema(schema, source.events)})


def run_sliced(query: Query, table: pa.Table, cuts: tuple[int, ...], pieces: int, memory: int = AT_ONCE) -> pa.Table:
    """Do what Spark does: tell, carry and run, each on rows or blocks of its own."""
    bound = bound_to(query, table.schema)
    reads = Reads.of(bound)
    assert reads is not None
    task = replace(bound.task(()), memory=memory)
    (only,) = task.inputs
    slices = Slices(cuts)
    cut = cut_input(bound, "stream", bound.halo_of("stream", reads.lineage, None))
    times = np.asarray(table.column("ts").cast("int64"))
    limits = tuple(cut.limits(*need) for need in slices.needs(cut.halo, Ends(times.tolist())))
    plan = Plan(slices, (limits,))
    carrier = Carrier(task, reads.reads, 0)
    schemas = (only.schema,)
    columns = table.select(only.schema.names)
    pickled = pa.array([pickle.dumps(plan)] + [None] * (len(table) - 1), pa.binary())
    gather = GatherTask(carrier)
    batches = columns.append_column(PLAN, pickled).to_batches(max_chunksize=-(-len(table) // pieces))
    blocks = [*CarryTask((carrier,), schemas).run(gather.run(iter(batches)))]
    blocks += PackTask(0, only.events, schemas, len(slices), plan).run(iter(columns.to_batches()))
    span = {"start": int(times.min()) - 1, "end": int(times.max())}
    runner = CarriedTask(task, reads.text, (carrier,), (cut,))
    found: list[pa.RecordBatch] = []
    for place in range(len(slices)):
        lo, hi = slices.part(place)
        about = {"slice": place, "lo": lo, "hi": hi} | span
        whole = packed_schema(schemas)
        head = [row_of({PLACE: place, TAG: HEADER[what], NUMBER: value}, whole) for what, value in about.items()]
        own = [batch.filter(pa.compute.equal(batch.column(PLACE), place)) for batch in blocks]
        found += runner.run(iter(pa.Table.from_batches([*head, *own]).combine_chunks().to_batches()))
    return pa.Table.from_batches(found, task.schema)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(CARRIED)),
    st.integers(0, 1 << 32),
    st.integers(1, 60),
    st.lists(st.integers(-5, 405).map(lambda at: at * 100_000), max_size=8).map(lambda cuts: tuple(sorted({*cuts}))),
    st.tuples(st.integers(1, 4), st.sampled_from([AT_ONCE, 1000, 100, 20])),
)
def test_slices_with_what_is_carried_are_the_whole(
    name: str, seed: int, rows: int, cuts: tuple[int, ...], how: tuple[int, int]
) -> None:
    table = rough(np.random.default_rng(seed), rows)
    found = run_sliced(CARRIED[name], table, cuts, *how)
    expected = local(CARRIED[name], {"stream": table})
    assert exactly(found.cast(expected.schema)) == exactly(expected)


@pytest.mark.parametrize("name", ["many", "twice", "held", "below the largest"])
def test_a_slice_with_many_rows_is_run_in_parts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    table = rough(np.random.default_rng(len(name)), 600)
    expected = local(CARRIED[name], {"stream": table})
    compute = QueryTask.compute
    taken: list[int] = []

    def noted(self: QueryTask, rows: dict[str, pa.Table], **how: object) -> Iterator[pa.RecordBatch]:
        taken.append(len(rows["stream"]))
        return compute(self, rows, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(QueryTask, "compute", noted)
    for memory, least, most in ((AT_ONCE, 2, 2), (2000, 5, 40)):
        taken.clear()
        found = run_sliced(CARRIED[name], table, (20_000_000,), 2, memory)
        assert exactly(found.cast(expected.schema)) == exactly(expected)
        assert least <= len(taken) <= most
    # What is carried are few rows: the parts together have not many more than the slices.
    assert max(taken) < 200


def test_columns_may_have_any_names() -> None:
    table = rough(np.random.default_rng(1), 60).rename_columns(["ts", "sym", "pri`ce", "si\\1 ze.n"])
    query: Query = lambda x: x["si\\1 ze.n"].cum_sum() + x["pri`ce"].prev() + x["pri`ce"].cum_max()  # noqa: E731
    found = run_sliced(query, table, (9_000_000, 20_000_000), 3)
    expected = local(query, {"stream": table})
    assert exactly(found.cast(expected.schema)) == exactly(expected)
    assert len(expected) > 0


@pytest.mark.parametrize("name", ["running", "held", "many"])
def test_what_is_carried_over_slices_of_a_frame_gives_the_local_result(spark: SparkSession, name: str) -> None:
    table = rough(np.random.default_rng(len(name)), 200)
    expected = exactly(local(CARRIED[name], {"stream": table}))
    for slices, memory in ((1, None), (5, None), (40, None), (3, "1KB")):
        found = ts.run(CARRIED[name], ordered(spark, table), time="ts", slices=slices, memory=memory).toArrow()
        assert exactly(found) == expected


def test_rows_in_no_order_are_carried_in_order(spark: SparkSession) -> None:
    table = rough(np.random.default_rng(3), 300)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    table = table.take(pa.array(first))
    found = ts.run(CARRIED["many"], framed(spark, table), time="ts", slices=6).toArrow()
    assert exactly(found) == exactly(local(CARRIED["many"], {"stream": table}))


def test_the_last_quote_is_found_however_old_it_is(spark: SparkSession) -> None:
    rng = np.random.default_rng(4)
    tables = {"trades": rough(rng, 200), "quotes": rough(rng, 20)}

    def query(trades: tl.Stream, quotes: tl.Stream) -> tl.Stream:
        both = quotes["price"] + quotes["size"]
        return trades.with_columns(
            last=quotes["price"].hold(), both=both.hold(), seen=quotes["size"].cum_sum().hold("5s")
        )

    frames = {name: ordered(spark, table) for name, table in tables.items()}
    for slices, memory in ((7, None), (3, "1KB")):
        found = ts.run(query, frames, time="ts", slices=slices, memory=memory).toArrow()
        assert exactly(found) == exactly(local(query, tables))


def test_what_is_carried_is_explained(spark: SparkSession) -> None:
    frame = ordered(spark, rough(np.random.default_rng(1), 20))
    text = ts.explain(CARRIED["many"], frame, time="ts", slices=4)
    assert "carried from slice to slice: totals of ~size, ~" in text
    assert "warm-up" not in text
    # A warm-up that is asked for is taken at its word.
    assert "warm-up of 5000000 ticks" in ts.explain(CARRIED["diff"], frame, time="ts", slices=4, warmup="5s")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_carried_is_refused(spark: SparkSession, name: str) -> None:
    frame = ordered(spark, rough(np.random.default_rng(1), 20))
    with pytest.raises(tl.QueryError, match=r"looks back to all.*warmup.*carried from slice to slice"):
        ts.run(REFUSED[name], frame, time="ts", slices=3)


def test_totals_that_may_overflow_are_refused(spark: SparkSession) -> None:
    frame = spark.range(10).select(F.col("id").alias("t"), F.lit(1 << 60).alias("n"))
    with pytest.raises(tl.QueryError, match="may need more than 64 bits"), ts.errors():
        ts.run(lambda x: x["n"].cum_sum(), frame, time="t", slices=3).collect()
    small = frame.withColumn("n", F.col("n") / 1024).withColumn("n", F.col("n").cast("bigint"))
    found = ts.run(lambda x: x["n"].cum_sum(), small, time="t", slices=3).toArrow()
    assert found.column("n").to_pylist() == [(1 << 50) * (at + 1) for at in range(10)]


def test_last_values_of_a_stage_are_those_of_its_order(spark: SparkSession) -> None:
    # Several keys have results at one instant: the last of them is that of the last key.
    table = rough(np.random.default_rng(5), 150)
    query: Query = lambda x: x.key_by("sym")["size"].window("5s").sum().unkey()["size"].diff()  # noqa: E731
    found = ts.run(query, ordered(spark, table), time="ts", slices=5).toArrow()
    assert exactly(found) == exactly(local(query, {"stream": table}))
