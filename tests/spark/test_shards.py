"""Sessions of shards give what a run on all rows gives, however rows are packed, and wherever their state has been."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

import tilt as tl
from queries import KEYED, LISTS, ONE, STAGED, THREE, TWO, Query, quotes, tables_of_three, ticks
from test_cuts import Schema
from test_packing import Context
from test_run import by_time_and_key, local
from tilt.live import Session
from tilt.live.stages import stages
from tilt.sources import Deferred, Events
from tilt.spark.plan import Bound
from tilt.spark.shards import (
    COUNT,
    FORMAT,
    PACKED,
    SHARD,
    TAKEN,
    PackTask,
    RestTask,
    ShardTask,
    UnpackTask,
    blob,
    rows_of,
    shard_task,
    with_late,
)
from tilt.spark.staged import Staged

LATENESS = 3_000_000
WITH_LISTS = KEYED | LISTS
UNKEYED = sorted(set(WITH_LISTS) - {"running"})
BY_KEY = sorted(set(KEYED) - {"filled"})


def planned(query: Query, tables: dict[str, pa.Table], key: str | None) -> ShardTask:
    """Give the task of a query."""
    events = Events(time="ts", overlap="bag", key=key)
    sources = {name: Deferred(tl.Table(table.slice(0, 0)), events) for name, table in tables.items()}
    stream = query(*(tl.Stream._input(name, source) for name, source in sources.items()))
    bound = Bound(stream, {name: Schema(table.schema, events) for name, table in tables.items()})
    return shard_task(bound, dict.fromkeys(tables, LATENESS), "drop", ())


def planned_in_stages(query: Query, table: pa.Table) -> ShardTask:
    """Give the task of a query that is computed in stages."""
    events = Events(time="ts", overlap="bag")
    stream = query(tl.Stream._input("stream", Deferred(tl.Table(table.slice(0, 0)), events)))
    whole = Staged(stream, {"stream": Schema(table.schema, events)}, planned=stages(stream, {}))
    return pickle.loads(pickle.dumps(shard_task(whole, {"stream": LATENESS}, "drop", ())))  # type: ignore[no-any-return]


def run_in_batches(
    task: ShardTask, tables: dict[str, pa.Table], cuts: list[int], shards: int, key: str | None
) -> tuple[pa.Table, int]:
    """Do what Spark does: give batches of rows to the shards, and tell them the watermark of those before."""
    states: dict[int, tuple[bytes, int]] = {}
    results: list[pa.RecordBatch] = []
    late = 0
    high = dict.fromkeys(tables, -(1 << 40))
    edges = [-(1 << 60), *sorted(cuts), 1 << 60]
    watermark = 0
    for after, until in pairwise(edges):
        packed: dict[int, list[tuple[int, int, bytes]]] = {}
        for at, (name, table) in enumerate(tables.items()):
            times = np.asarray(table.column("ts").cast("int64"))
            arrival = times + np.random.default_rng(at).integers(0, LATENESS, len(times))
            kept = np.flatnonzero((arrival > after) & (arrival <= until))
            rows = table.take(pa.array(kept[np.argsort(arrival[kept], kind="stable")]))
            names = rows.column(key).to_pylist() if key else [""] * len(rows)
            where = pa.array([len(name or "") and sum((name or "").encode()) % shards for name in names], pa.int32())
            given = rows.select(task.query.inputs[at].schema.names).append_column(SHARD, where)
            for batch in PackTask(at).run(iter(given.to_batches(max_chunksize=7))):
                assert batch.schema == PACKED
                for row in batch.to_pylist():
                    packed.setdefault(row[SHARD], []).append((row["input"], row["number"], row["blob"]))
            high[name] = max([high[name], *(int(t) for t in times[kept])])
        for shard in sorted({*packed, *states}):
            states[shard], taken = task.push(states.get(shard), packed.get(shard, []), watermark)
            if taken is not None:
                late += taken["late"]
                row = pa.record_batch([pa.array([taken[name]], TAKEN.field(name).type) for name in TAKEN.names], TAKEN)
                results += UnpackTask(task.query.schema, late_rows=False).run(iter([row]))
        watermark = max(watermark, min(high.values()) // 1000 - LATENESS // 1000)
    last = max(last for _, last in states.values())
    rest = pa.record_batch(
        [pa.array([blob for blob, _ in states.values()], pa.binary()), pa.array([last] * len(states))],
        ["checkpoint", "last"],
    )
    results += RestTask(task, task.query.schema).run(iter([rest]))
    return pa.Table.from_batches(results, task.query.schema), late


cuts_of = st.lists(st.integers(0, 125_000).map(lambda ms: 1000 * ms), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(UNKEYED), st.integers(0, 1 << 32), st.integers(1, 60), cuts_of)
def test_one_shard_gives_the_whole(name: str, seed: int, rows: int, cuts: list[int]) -> None:
    table = ticks(np.random.default_rng(seed), rows)
    # Rows with one time would come in another order.
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    tables = {"stream": table.take(pa.array(first))}
    found, late = run_in_batches(planned(WITH_LISTS[name], tables, None), tables, cuts, 1, None)
    expected = local(WITH_LISTS[name], tables)
    assert found.cast(expected.schema).equals(expected)
    assert late == 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(STAGED)), st.integers(0, 1 << 32), st.integers(1, 60), cuts_of)
def test_one_session_runs_all_stages(name: str, seed: int, rows: int, cuts: list[int]) -> None:
    table = ticks(np.random.default_rng(seed), rows)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    tables = {"stream": table.take(pa.array(first))}
    found, late = run_in_batches(planned_in_stages(STAGED[name], table), tables, cuts, 1, None)
    expected = local(STAGED[name], tables)
    assert found.cast(expected.schema).equals(expected)
    assert late == 0


def test_columns_that_no_stage_reads_do_not_travel() -> None:
    table = ticks(np.random.default_rng(1), 9)
    read = {name: planned_in_stages(query, table).query.inputs[0].schema.names for name, query in STAGED.items()}
    assert read["means"] == ["ts", "price", "sym"]
    assert read["shares"] == ["ts", "size", "sym", "price"]
    # By it a table is looked up.
    assert "sym" in read["looked up"] and "sector" not in read["looked up"]


def test_stages_that_call_functions_travel_without_them() -> None:
    table = ticks(np.random.default_rng(1), 9)
    named = tl.udf(lambda value: value / 2, args=[float], returns=float, name="shard_halved")
    task = planned_in_stages(lambda x: named(x.key_by("sym")["price"].diff().unkey()["price"]), table)
    assert task.stages is not None and b"lambda" not in task.stages
    assert "extern fn shard_halved" in task.query.text
    state, _ = task.push(None, [], 0)
    other = planned_in_stages(STAGED["steps"], table)
    with pytest.raises(tl.CheckpointError, match="its query is another one"):
        other.push(state, [], 0)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BY_KEY), st.integers(0, 1 << 32), st.integers(1, 60), cuts_of, st.integers(1, 4))
def test_shards_of_keys_give_the_whole(name: str, seed: int, rows: int, cuts: list[int], shards: int) -> None:
    table = ticks(np.random.default_rng(seed), rows)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    tables = {"stream": table.take(pa.array(first))}
    found, late = run_in_batches(planned(KEYED[name], tables, "sym"), tables, cuts, shards, "sym")
    expected = local(KEYED[name], tables, key="sym")
    assert by_time_and_key(found, "sym").cast(expected.schema).equals(expected)
    assert late == 0


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(TWO | THREE)), st.integers(0, 1 << 32), cuts_of, st.sampled_from([None, "sym"]))
def test_several_inputs_give_the_whole(name: str, seed: int, cuts: list[int], key: str | None) -> None:
    rng = np.random.default_rng(seed)
    tables = {}
    sides = {"trades": ticks(rng, 40), "quotes": quotes(rng, 40)} if name in TWO else tables_of_three(rng, 40)
    for side, table in sides.items():
        _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
        tables[side] = table.take(pa.array(first))
    query = (TWO | THREE)[name]
    found, late = run_in_batches(planned(query, tables, key), tables, cuts, 3 if key else 1, key)
    expected = local(query, tables, key=key)
    found = by_time_and_key(found, "sym") if key else found
    assert found.cast(expected.schema).equals(expected)
    assert late == 0


def test_late_rows_are_counted_and_can_be_read() -> None:
    table = ticks(np.random.default_rng(1), 4).select(["ts", "price"])
    task = planned(lambda x: x["price"]["-1s":].sum(), {"stream": table}, None)
    times = pa.array([20_000_000, 30_000_000, 1_000_000], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "price": [1.0, 2.0, 3.0]})
    where = rows.append_column(SHARD, pa.array([0, 0, 0], pa.int32()))
    (packed,) = PackTask(0).run(iter(where.to_batches()))
    blobs = [(row["input"], row["number"], row["blob"]) for row in packed.to_pylist()]
    _, taken = task.push(None, blobs, 0)
    assert taken is not None and taken["late"] == 1
    (late,) = pa.ipc.open_stream(taken["late_rows"]).read_all().column("late").to_pylist()
    assert late["input"] == "stream" and late["fate"] == "dropped" and late["by"] == 26_000_000
    assert json.loads(late["row"])["price"] == 3.0


def test_a_shard_uses_the_cores_that_spark_has_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cores(Context):
        def cpus(self) -> int:
            return 3

    asked: list[int] = []
    begin, restore = tl.Query.session, Session.restore

    def begun(self: tl.Query, **how: Any) -> Session:  # noqa: ANN401
        asked.append(how["threads"])
        return begin(self, **how)

    def restored(*state: Any, **how: Any) -> Session:  # noqa: ANN401
        asked.append(how["threads"])
        return restore(*state, **how)

    monkeypatch.setattr(tl.Query, "session", begun)
    monkeypatch.setattr(Session, "restore", restored)
    table = ticks(np.random.default_rng(1), 60, nulls=0.0)
    task = planned(ONE["zscore"], {"stream": table}, None)
    read = table.select(task.query.inputs[0].schema.names)
    found = []
    for context, threads in ((None, 1), (Cores(0), 3)):
        monkeypatch.setattr(TaskContext, "get", lambda context=context: context)
        state = None
        for first in (0, 30):
            state, _ = task.push(state, [(0, first, blob(read.slice(first, 30).to_batches()))], 0)
        assert state is not None
        found.append(task.close(*state))
        assert asked == [threads] * 3
        asked.clear()
    # What comes out does not depend on them.
    assert found[0] == found[1]


def test_a_column_of_the_query_may_be_called_as_that_of_late_rows() -> None:
    table = ticks(np.random.default_rng(1), 20, nulls=0.0)
    task = planned(lambda x: x.select("price").with_columns(late=x["size"]), {"stream": table}, None)
    read = table.select(task.query.inputs[0].schema.names)
    state, first = task.push(None, [(0, 0, blob(read.slice(1).to_batches()))], 0)
    # The first row comes when time has gone on.
    _, taken = task.push(state, [(0, 1, blob(read.slice(0, 1).to_batches()))], 10**9)
    assert first is not None and taken is not None
    assert taken["late"] == 1 and taken["late_rows"] is not None
    both = [batch for one in (first, taken) for batch in rows_of(one, task.query.schema, late_rows=False)]
    sizes = pa.Table.from_batches(both, task.query.schema).column("late").to_pylist()
    assert sizes == table.column("size").to_pylist()[1:]
    with pytest.raises(tl.QueryError, match="`late` of its own"):
        with_late(task.query.schema)


def test_a_state_of_another_query_is_refused() -> None:
    table = ticks(np.random.default_rng(1), 4)
    one, other = (planned(ONE[name], {"stream": table}, None) for name in ("zscore", "ahead"))
    state, _ = one.push(None, [], 0)
    with pytest.raises(tl.TiltError, match="its query is another one"):
        other.push(state, [], 0)


@pytest.mark.parametrize("mark", [b"", b"tilt shard 1", b"tilt shard 3"])
def test_a_state_whose_keys_were_spread_in_another_way_is_refused_and_can_be_ended(mark: bytes) -> None:
    # Keys that are integers went to other shards, where nothing is held of them.
    table = ticks(np.random.default_rng(5), 40, nulls=0.0)
    task = planned(KEYED["zscore"], {"stream": table}, "sym")
    rows = table.select(task.query.inputs[0].schema.names).append_column(SHARD, pa.array([0] * 40, pa.int32()))
    packed = [row for batch in PackTask(0).run(iter(rows.to_batches())) for row in batch.to_pylist()]
    (state, last), _ = task.push(None, [(0, row["number"], row["blob"]) for row in packed], 0)
    mine = b"tilt shard " + FORMAT
    assert state.startswith(mine)
    other = mark + state.removeprefix(mine)
    message = r"spread keys over shards in another way.*; take what .* with ts\.rest, and start with a new"
    with pytest.raises(tl.CheckpointError, match=message) as caught:
        task.push((other, last), [], 5)
    assert caught.value.hint is not None and "ts.rest" in caught.value.hint
    assert task.close(other, last) == task.close(state, last) != []


def test_more_late_rows_than_a_session_keeps_are_all_given() -> None:
    table = ticks(np.random.default_rng(1), 4).select(["ts", "price"])
    task = planned(lambda x: x["price"]["-1s":].sum(), {"stream": table}, None)
    count = 150_000
    times = pa.array([900_000_000, *range(count)], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "price": np.arange(count + 1.0)})
    where = rows.append_column(SHARD, pa.array(np.zeros(count + 1, np.int32)))
    packed = [row for batch in PackTask(0).run(iter(where.to_batches())) for row in batch.to_pylist()]
    _, taken = task.push(None, [(row["input"], row["number"], row["blob"]) for row in packed], 0)
    assert taken is not None and taken["late"] == count
    assert pa.ipc.open_stream(taken["late_rows"]).read_all().num_rows == count


def test_a_state_of_another_number_of_shards_is_refused() -> None:
    table = ticks(np.random.default_rng(1), 9)
    task = planned(KEYED["zscore"], {"stream": table}, "sym")
    one, other = replace(task, numbers=(12, 6, 2, 0)), replace(task, numbers=(4, 2, 1))
    rows = table.select(task.query.inputs[0].schema.names).append_column(SHARD, pa.array([12] * 9, pa.int32()))
    batches = [*PackTask(0, is_counted=True).run(iter(rows.to_batches(max_chunksize=3)))]
    asked = [row for batch in batches for row in batch.to_pylist() if row[SHARD] == COUNT]
    assert [row["blob"] for row in asked] == [b""]
    state, taken = one.push(None, [(0, row["number"], row["blob"]) for row in asked], 0, COUNT)
    assert taken is None
    assert one.push(state, [], 5, COUNT) == (state, None)
    with pytest.raises(tl.CheckpointError, match=r"has 4 shards, but the query 3, .*; give shards=4, or start"):
        other.push(state, [], 0, COUNT)


def test_errors_of_shards_name_the_row_and_the_shard() -> None:
    table = ticks(np.random.default_rng(2), 20, nulls=0.0)
    task = replace(planned(ONE["zscore"], {"stream": table}, "sym"), late="raise", numbers=(12, 6, 2, 0))
    times = [20_000_000, 30_000_000, 1_000_000]
    rows = pa.table(
        {"ts": pa.array(times, pa.timestamp("us", "UTC")), "price": [1.0] * 3, "size": [1] * 3, "sym": ["a"] * 3}
    )
    where = rows.append_column(SHARD, pa.array([2] * 3, pa.int32()))
    packed = [row for batch in PackTask(0).run(iter(where.to_batches())) for row in batch.to_pylist()]
    with pytest.raises(
        tl.LateDataError, match=r"row 2: .*\[ts = 1970-01-01 00:00:01\+00:00, sym = a; shard 2 of 4\]"
    ) as caught:
        task.push(None, [(0, row["number"], row["blob"]) for row in packed], 0, 2)
    assert caught.value.row == 2
