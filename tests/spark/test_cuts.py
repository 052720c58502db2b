"""Slices with their halo give what a run over everything gives, whatever the cuts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import tilt as tl
from queries import ONE, TWO, Query, quotes, ticks
from tilt.errors import QueryError
from tilt.sources import Deferred, Events
from tilt.spark.cuts import FOREVER, Ends, Halo, Reach, Slices, bounded
from tilt.spark.packing import HEADER, NUMBER, PLACE, TAG, packed_schema
from tilt.spark.placing import PackTask, Plan
from tilt.spark.plan import Bound
from tilt.spark.sliced import SlicedTask
from tilt.spark.survey import cut_input, row_of
from tilt.spark.task import AT_ONCE

LAYOUT: Literal["interval"] = "interval"
CUT = ["zscore", "ahead", "filled", "hopping"]


def run_sliced(query: Query, tables: dict[str, pa.Table], cuts: tuple[int, ...], valid: str = "point") -> pa.Table:
    """Run a query slice by slice, each on the rows that its halo names and no other."""
    how: dict[str, Any] = {"overlap": "bag"} if valid == "point" else {"valid": valid}
    streams = {name: tl.stream(table, time="ts", name=name, **how) for name, table in tables.items()}
    stream = query(*streams.values())
    program = tl.Program.parse(stream._query().explain("optimized"))
    times = {name: np.asarray(table.column("ts").cast("int64")) for name, table in tables.items()}
    length = None if valid == "until_next" else 1
    slices = Slices(cuts)
    needs = {}
    for name, ends in times.items():
        lineage = program.lineage().get(name, ("0s", "0s"))
        halo = bounded(lineage, "us", length=length, warmup=None, name=name, output="out")
        # Where events are is known of some rows.
        parts = np.array_split(ends, max(len(ends) // 8, 1))
        known = [int(edge) for part in parts for edge in (part.min(), part.max())]
        needs[name] = slices.needs(halo, Ends(known))
    span = (min(t.min() for t in times.values()) - 1, max(t.max() for t in times.values()))
    found = []
    for number in range(len(slices)):
        kept = {}
        for name, table in tables.items():
            after, before = needs[name][number]
            kept[name] = table.filter(pa.array((times[name] > after) & (times[name] - 1 < before)))
        part = [tl.stream(rows, time="ts", name=name, **how) for name, rows in kept.items()]
        found.append(query(*part).collect(part=slices.part(number), span=span, layout=LAYOUT).to_arrow())
    return pa.concat_tables(found)


def declared(table: pa.Table, name: str) -> tl.Stream:
    return tl.stream(table, time="ts", name=name, overlap="bag")


cuts_of = st.lists(st.integers(-10, 130_000), max_size=6).map(lambda found: tuple(sorted({1000 * at for at in found})))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(ONE)), st.integers(0, 1 << 32), st.integers(1, 60), cuts_of)
def test_slices_of_one_input_are_the_whole(name: str, seed: int, rows: int, cuts: tuple[int, ...]) -> None:
    table = ticks(np.random.default_rng(seed), rows)
    whole = ONE[name](declared(table, "x")).collect(layout=LAYOUT).to_arrow()
    assert run_sliced(ONE[name], {"x": table}, cuts).equals(whole)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TWO)), st.integers(0, 1 << 32), st.integers(1, 40), st.integers(1, 40), cuts_of)
def test_slices_of_two_inputs_are_the_whole(name: str, seed: int, left: int, right: int, cuts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    tables = {"trades": ticks(rng, left), "quotes": quotes(rng, right)}
    whole = TWO[name](*(declared(table, key) for key, table in tables.items())).collect(layout=LAYOUT).to_arrow()
    assert run_sliced(TWO[name], tables, cuts).equals(whole)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 40), cuts_of)
def test_slices_see_the_row_that_lasts_into_them(seed: int, rows: int, cuts: tuple[int, ...]) -> None:
    table = ticks(np.random.default_rng(seed), rows, nulls=0.0)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    table = table.take(pa.array(first))
    query: Query = lambda x: x["price"].window("5s").twa()  # noqa: E731
    whole = query(tl.stream(table, time="ts", name="x", valid="until_next")).collect(layout=LAYOUT).to_arrow()
    assert run_sliced(query, {"x": table}, cuts, valid="until_next").equals(whole)


def test_reaches_that_count_events_walk_over_gaps() -> None:
    halo = Halo(Reach(5, events=2), Reach(0))
    assert halo.after(102, Ends([0, 50, 100, 101])) <= 50
    assert halo.after(102, Ends([])) < -1000


def test_unbounded_queries_are_refused_unless_warmed_up() -> None:
    with pytest.raises(QueryError, match=r"looks back to all of ~x.*warmup"):
        bounded(("unbounded", "0s"), "s", length=1, warmup=None, name="x", output="y")
    with pytest.raises(QueryError, match="looks ahead"):
        bounded(("1s", "unbounded"), "s", length=1, warmup=60, name="x", output="y")
    assert bounded(("unbounded", "0s"), "s", length=1, warmup=60, name="x", output="y").lookback == Reach(60)


def test_slices_have_about_as_many_rows_each() -> None:
    rng = np.random.default_rng(7)
    times = np.sort(np.concatenate([rng.normal(1e6, 1e3, 90_000), rng.uniform(0, 1e9, 10_000)]).astype(np.int64))
    blocks = [(int(part[0]), int(part[-1]), len(part)) for part in np.array_split(times, 100)]
    slices = Slices.by_counts(blocks, 16)
    rows = np.diff([0, *np.searchsorted(times, slices.cuts, side="right"), len(times)])
    assert len(slices) == 16
    assert rows.max() < 1.5 * rows.mean()


@pytest.mark.parametrize(("name", "key"), [*((name, None) for name in CUT), ("zscore", "sym"), ("hopping", "sym")])
def test_a_slice_with_many_rows_is_cut_further(name: str, key: str | None) -> None:
    table = ticks(np.random.default_rng(3), 300)
    tasks = (sliced_task(ONE[name], table.schema, key, memory=16 * rows) for rows in (10_000, 40))
    whole, parts = (pa.Table.from_batches(task.run(iter(with_header(task, table)))) for task in tasks)
    assert parts.equals(whole)
    assert len(parts) > 10


def sliced_task(query: Query, schema: pa.Schema, key: str | None = None, *, memory: int = AT_ONCE) -> SlicedTask:
    """Give what executors run for a query of one input."""
    source = Deferred(tl.Table(schema.empty_table()), Events(time="ts", overlap="bag", key=key))
    bound = Bound(query(tl.Stream._input("stream", source)), {"stream": Schema(schema, source.events)})
    cut = cut_input(bound, "stream", bound.halo("stream", None))
    return SlicedTask(replace(bound.task(()), memory=memory), cuts=(cut,))


def with_header(task: SlicedTask, table: pa.Table) -> list[pa.RecordBatch]:
    """Give rows as a task gets them, with what says when the run begins and ends."""
    (given,) = task.query.inputs
    plan = Plan(Slices(()), (((-FOREVER, FOREVER),),))
    pack = PackTask(0, replace(given.events, key=None), (given.schema,), 1, plan)
    times = np.asarray(table.column("ts").cast("int64"))
    facts = {"slice": 0, "start": int(times.min()) - 1, "end": int(times.max())}
    schema = packed_schema([given.schema])
    head = [row_of({PLACE: 0, TAG: HEADER[what], NUMBER: value}, schema) for what, value in facts.items()]
    return [*head, *pack.run(iter(table.select(given.schema.names).to_batches()))]


@dataclass(frozen=True)
class Schema:
    """An input that is nothing but its columns."""

    columns: pa.Schema
    events: Events
    ties: tuple[str, ...] = ()

    @property
    def session(self) -> SparkSession:
        message = "a query is planned without a session"
        raise AssertionError(message)

    def schema(self) -> pa.Schema:
        return self.columns


@pytest.mark.parametrize("name", ["zscore", "hopping", "tumbling", "calendar", "filled", "held"])
def test_queries_that_fill_cells_of_keys_without_rows_are_known(name: str) -> None:
    schema = ticks(np.random.default_rng(1), 1).schema
    source = Deferred(tl.Table(schema.empty_table()), Events(time="ts", overlap="bag", key="sym"))
    bound = Bound(ONE[name](tl.Stream._input("stream", source)), {"stream": Schema(schema, source.events)})
    assert bound.fills == (name == "filled")
