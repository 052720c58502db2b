"""Rows that are moved as bytes are the rows they were, in the order in which they stood, wherever they go."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

import tilt as tl
from queries import KEYED, LISTS, ONE, THREE, TWO, Query, keyed_ticks, quotes, tables_of_three, ticks
from test_cuts import Schema
from test_run import by_time_and_key, local, same
from tilt.sources import Deferred, Events
from tilt.spark import packing
from tilt.spark.cuts import Slices
from tilt.spark.packing import HEADER, NUMBER, PLACE, TAG, movable, packed_schema, unpacked
from tilt.spark.placing import HASH, PLAN, PackTask, Plan
from tilt.spark.plan import Bound
from tilt.spark.skew import TIME, SampleTask, SkewTask
from tilt.spark.sliced import SlicedTask
from tilt.spark.survey import PLANNED, CutInput, CutTask, SurveyTask, cut_input, row_of
from tilt.spark.task import PartitionTask

TYPES = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32(),
    pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us"),
]  # fmt: skip


@dataclass(frozen=True)
class Context:
    """What a task knows of itself."""

    number: int

    def partitionId(self) -> int:  # noqa: N802
        return self.number

    def cpus(self) -> int:
        return 1


def column(rng: np.random.Generator, dtype: pa.DataType, rows: int) -> pa.Array:
    """Give values, some of which are missing in some columns."""
    mask = rng.random(rows) < rng.choice([0.0, 0.3, 1.0])
    if pa.types.is_string(dtype):
        texts = [str(rng.choice(["", "é", "text", "x" * 300])) for _ in range(rows)]
        return pa.array(texts, dtype, mask=mask)
    numbers = rng.integers(0, 2 if pa.types.is_boolean(dtype) else 100, rows)
    width = pa.int32() if pa.types.is_date(dtype) else pa.int64()
    return pa.array(numbers.astype(width.to_pandas_dtype()), mask=mask).cast(dtype)


def dealt(rng: np.random.Generator, table: pa.Table, parts: int) -> list[list[pa.RecordBatch]]:
    """Give rows as some partitions hold them, in batches of all sizes."""
    edges = np.sort(rng.integers(0, len(table) + 1, parts - 1)).tolist()
    found = []
    for first, last in zip([0, *edges], [*edges, len(table)], strict=True):
        part = table.slice(first, last - first)
        found.append(part.combine_chunks().to_batches(max_chunksize=int(rng.integers(1, len(table) + 2))))
    return found


seeds = st.integers(0, 1 << 32)


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(0, 1500), st.integers(1, 5), st.lists(st.sampled_from(TYPES), max_size=5))
def test_rows_are_what_they_were(seed: int, rows: int, places: int, types: list[pa.DataType]) -> None:
    rng = np.random.default_rng(seed)
    columns = {"ts": pa.array(np.sort(rng.integers(0, 50, rows)))}
    columns |= {f"x{at}": column(rng, dtype, rows) for at, dtype in enumerate(types)}
    table = pa.table(columns)
    hashes = pa.array(rng.integers(-(1 << 63), 1 << 63, rows))
    task = PackTask(0, Events(time="ts", key="ts"), (table.schema,), places)
    packed = list(task.run(iter(dealt(rng, table.append_column(HASH, hashes), 1)[0])))
    assert all(batch.schema == packed_schema([table.schema]) for batch in packed)
    whole = pa.Table.from_batches(packed, packed_schema([table.schema]))
    # Blocks come in any order, and in batches of any size.
    mixed = whole.take(pa.array(rng.permutation(len(whole)))).combine_chunks()
    batches = mixed.to_batches(max_chunksize=int(rng.integers(1, len(whole) + 2)))
    for place in range(places):
        kept = [batch.filter(pa.compute.equal(batch.column(PLACE), place)) for batch in batches]
        found = unpacked([batch for batch in kept if batch.num_rows], table.schema)
        expected = table.filter(pa.array(np.asarray(hashes) % places == place))
        assert found.equals(expected)
        found.validate(full=True)


def test_what_has_no_width_is_not_moved() -> None:
    assert all(map(movable, TYPES))
    assert not any(map(movable, [pa.list_(pa.int8()), pa.struct([]), pa.decimal128(10), pa.binary()]))


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 400), st.integers(1, 6))
def test_slices_get_the_rows_that_they_need(seed: int, rows: int, slices: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, 100, rows))
    table = pa.table({"a": starts, "b": starts + rng.integers(0, 9, rows), "n": np.arange(rows)})
    edges = np.sort(rng.choice(100, slices - 1, replace=False))
    after, before = edges - rng.integers(0, 30), edges + rng.integers(0, 30)
    limits = tuple(zip([-1000, *after.tolist()], [*before.tolist(), 1000], strict=True))
    plan = Plan(Slices(tuple(edges.tolist())), (limits,))
    task = PackTask(0, Events(valid=("a", "b")), (table.schema,), slices, plan)
    batches = list(task.run(iter(dealt(rng, table, 1)[0])))
    for place, (low, high) in enumerate(limits):
        kept = [batch.filter(pa.compute.equal(batch.column(PLACE), place)) for batch in batches]
        found = unpacked([batch for batch in kept if batch.num_rows], table.schema)
        matters = (table.column("b").to_numpy() > low) & (table.column("a").to_numpy() < high)
        # A row may be handed to slices between its first and its last, too.
        assert set(np.flatnonzero(matters)) <= set(found.column("n").to_pylist())
        assert len(found) < len(table) or matters.sum() > 0 or slices == 1 or rows < slices


def test_copies_that_are_as_many_as_rows_are_not_taken_for_them() -> None:
    # Two rows of a key that is whole, one of a key that is cut, which three slices need.
    table = pa.table({"ts": [5, 5, 5], "key": [1, 2, 1]})
    plan = Plan(Slices((4, 6)), (((-9, 9), (2, 9), (3, 9)),), keys=(2,))
    task = PackTask(0, Events(time="ts", key="key"), (table.schema,), 3, plan)
    (found,) = task.run(iter(table.append_column(HASH, table.column("key")).to_batches()))
    places = list(zip(found.column(PLACE).to_pylist(), found.column(TAG).to_pylist(), strict=True))
    assert places == [(1, 0), (0, 1), (1, 1), (2, 1)]


def simulated(
    query: Query, tables: dict[str, pa.Table], rng: np.random.Generator, places: int, *, key: str | None = None
) -> pa.Table:
    """Run a query as a cluster does: rows in some partitions, blocks in any order, a task for some places."""
    events = Events(time="ts", overlap="bag", key=key)
    sources = {name: Deferred(tl.Table(table.schema.empty_table()), events) for name, table in tables.items()}
    stream = query(*(tl.Stream._input(name, source) for name, source in sources.items()))
    bound = Bound(stream, {name: Schema(table.schema, events) for name, table in tables.items()})
    task = bound.task(())
    halos = {} if key and bound.fills else {name: bound.halo(name, None) for name in tables}
    cuts = tuple(cut_input(bound, name, halo) for name, halo in halos.items())
    parts = {}
    for name, table in tables.items():
        read = table.select(bound.columns(name))
        if key is not None:
            # The same in all tables.
            hashes = [zlib.crc32(str(value).encode()) - 20_000 for value in table.column(key).to_pylist()]
            read = read.append_column(HASH, pa.array(hashes, pa.int64()))
        parts[name] = dealt(rng, read, int(rng.integers(1, 4)))
    ends = np.concatenate([np.asarray(table.column("ts").cast("int64")) for table in tables.values()])
    times = (int(ends.min()) - 1, int(ends.max()))
    (told,) = _planned(cuts, parts, places, key=key)
    schemas = tuple(one.schema for one in task.inputs)
    blocks = [row_of(what, packed_schema(schemas)) for what in _facts(told, places, None if key is None else times)]
    number = 0
    for at, one in enumerate(task.inputs):
        pack = PackTask(at, one.events, schemas, places)
        for batches in parts[one.name]:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TaskContext, "get", partial(Context, number))
                blocks += pack.run(_with_plan(batches, told.column("plan")[0].as_py()))
            number += 1
    whole = pa.Table.from_batches(blocks, packed_schema(schemas))
    whole = whole.take(pa.array(rng.permutation(len(whole)))).combine_chunks()
    found: list[pa.RecordBatch] = []
    task = replace(task, memory=int(rng.choice([1000, 1 << 28])))
    run = SlicedTask(task, cuts=cuts) if cuts else PartitionTask(task)
    tasks = int(rng.integers(1, places + 1))
    where = whole.column(PLACE).to_numpy()
    for task_number in range(tasks):
        order = np.argsort(where, kind="stable")
        mine = whole.take(pa.array(order[where[order] * tasks // places == task_number])).combine_chunks()
        found += run.run(iter(mine.to_batches(max_chunksize=int(rng.integers(1, len(mine) + 2)))))
    return pa.Table.from_batches(found, bound.schema)


def _planned(
    cuts: tuple[CutInput, ...], parts: dict[str, list[list[pa.RecordBatch]]], places: int, *, key: str | None
) -> Iterator[pa.RecordBatch]:
    told: list[pa.RecordBatch] = []
    for at, batches in enumerate(parts.values()):
        for part in batches:
            if key is None:
                told += SurveyTask(at, ("ts", "ts"), places).run(iter(part))
            else:
                columns = [batch.select([HASH, "ts"]).rename_columns([HASH, TIME]) for batch in part]
                told += SampleTask(at, places).run(iter(columns))
    if key is None:
        yield from CutTask(places, cuts).run(iter(told))
    elif cuts:
        yield from SkewTask(places, 0.5, 5, cuts).run(iter(told))
    else:
        yield row_of({}, PLANNED)


def _facts(told: pa.RecordBatch, places: int, keyed: tuple[int, int] | None) -> Iterator[dict[str, int]]:
    """Give what places are about; those of keys know when the run begins and ends."""
    edges = {edge: told.column(edge)[0].as_py() or [] for edge in ("lo", "hi")}
    for place in range(places):
        about = {edge: known[place] for edge, known in edges.items() if known[place:] and known[place] is not None}
        if keyed is not None:
            about |= dict(zip(("start", "end"), keyed, strict=True))
        elif place < (told.column("slices")[0].as_py() or 0):
            about |= {"slice": place} | {edge: told.column(edge)[0].as_py() for edge in ("start", "end")}
        for what, value in about.items():
            yield {PLACE: place, TAG: HEADER[what], NUMBER: value}


def _with_plan(batches: list[pa.RecordBatch], plan: bytes | None) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        told = [plan if number == 0 and at == 0 else None for at in range(batch.num_rows)]
        yield batch.append_column(PLAN, pa.array(told, pa.binary()))


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(ONE)), seeds, st.integers(1, 120), st.integers(1, 12) | st.integers(13, 200))
def test_any_number_of_slices_gives_the_local_result(name: str, seed: int, rows: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    table = ticks(rng, rows)
    same(simulated(ONE[name], {"stream": table}, rng, places), local(ONE[name], {"stream": table}))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(set(ONE) - {"filled"})), seeds, st.integers(1, 200), st.integers(1, 9))
def test_any_number_of_places_for_keys_gives_the_local_result(name: str, seed: int, rows: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    table = ticks(rng, rows)
    found = simulated(ONE[name], {"stream": table}, rng, places, key="sym")
    same(by_time_and_key(found, "sym"), local(ONE[name], {"stream": table}, key="sym"))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(set(ONE) - {"filled"})),
    seeds,
    st.integers(1, 400),
    st.integers(1, 200),
    st.integers(1, 12) | st.integers(13, 200),
)
def test_any_number_of_keys_gives_the_local_result(name: str, seed: int, rows: int, keys: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    table = keyed_ticks(rng, rows, keys)
    found = simulated(ONE[name], {"stream": table}, rng, places, key="sym")
    same(by_time_and_key(found, "sym"), by_time_and_key(local(ONE[name], {"stream": table}, key="sym"), "sym"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TWO)), seeds, st.integers(1, 80), st.integers(1, 9), st.sampled_from([None, "sym"]))
def test_two_inputs_give_the_local_result(name: str, seed: int, rows: int, places: int, key: str | None) -> None:
    rng = np.random.default_rng(seed)
    tables = {"trades": ticks(rng, rows), "quotes": quotes(rng, int(rng.integers(1, 80)))}
    found = simulated(TWO[name], tables, rng, places, key=key)
    same(found if key is None else by_time_and_key(found, key), local(TWO[name], tables, key=key))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(THREE)), seeds, st.integers(1, 60), st.integers(1, 9), st.sampled_from([None, "sym"]))
def test_three_inputs_give_the_local_result(name: str, seed: int, rows: int, places: int, key: str | None) -> None:
    rng = np.random.default_rng(seed)
    tables = tables_of_three(rng, rows)
    found = simulated(THREE[name], tables, rng, places, key=key)
    same(found if key is None else by_time_and_key(found, key), local(THREE[name], tables, key=key))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(LISTS)), seeds, st.integers(1, 120), st.integers(1, 9), st.sampled_from([None, "sym"]))
def test_results_may_have_lists(name: str, seed: int, rows: int, places: int, key: str | None) -> None:
    rng = np.random.default_rng(seed)
    tables = {"stream": ticks(rng, rows)}
    found = simulated(LISTS[name], tables, rng, places, key=key)
    same(found if key is None else by_time_and_key(found, key), local(LISTS[name], tables, key=key))


def test_more_text_than_a_column_holds_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"ts": [1, 2, 3], "word": ["a" * 40, "b" * 40, None]})
    task = PackTask(0, Events(time="ts"), (table.schema,), 1, Plan(Slices(()), (((-9, 9),),)))
    blocks = [*task.run(iter(table.to_batches()))]
    monkeypatch.setattr(packing, "_MOST_TEXT", 80)
    assert unpacked(blocks, table.schema).equals(table)
    monkeypatch.setattr(packing, "_MOST_TEXT", 79)
    with pytest.raises(tl.SchemaError, match=r"`word` has 80 bytes of text in one slice .*; give more of them"):
        unpacked(blocks, table.schema)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(KEYED)), seeds, st.integers(1, 200), st.integers(1, 300))
def test_keys_of_a_place_are_run_in_parts(name: str, seed: int, rows: int, memory: int) -> None:
    rng = np.random.default_rng(seed)
    table = ticks(rng, rows)
    events = Events(time="ts", overlap="bag", key="sym")
    source = Deferred(tl.Table(table.schema.empty_table()), events)
    bound = Bound(KEYED[name](tl.Stream._input("stream", source)), {"stream": Schema(table.schema, events)})
    task = replace(bound.task(()), memory=memory)
    read = table.select(task.inputs[0].schema.names)
    blocks = [*PackTask(0, events, (read.schema,), 1).run(iter(dealt(rng, read, 1)[0]))]
    times = np.asarray(table.column("ts").cast("int64"))
    span = {"start": int(times.min()) - 1, "end": int(times.max())}
    head = [row_of({PLACE: 0, TAG: HEADER[at], NUMBER: value}, blocks[0].schema) for at, value in span.items()]
    found = pa.Table.from_batches(PartitionTask(task).run(iter([*head, *blocks])), bound.schema)
    same(by_time_and_key(found, "sym"), local(KEYED[name], {"stream": table}, key="sym"))


def test_few_rows_of_many_places_are_packed_together() -> None:
    table = pa.table({"ts": np.arange(100_000), "key": np.arange(100_000) % 9973})
    batches = table.to_batches(max_chunksize=1000)
    blocks = [*PackTask(0, Events(time="ts", key="key"), (table.schema,), 300).run(iter(batches))]
    # Each batch alone had three rows for a place.
    assert sum(batch.num_rows for batch in blocks) < 1000
    few = [*PackTask(0, Events(time="ts", key="key"), (table.schema,), 3).run(iter(batches))]
    assert len(few) == 100
