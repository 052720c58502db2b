"""Any files, row groups, slices and tasks give the local result: what tasks do that read files, without Spark."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import TaskContext

from queries import KEYED, LISTS, ONE, THREE, TWO, Query, keyed_ticks, quotes, tables_of_three, ticks
from test_packing import Context
from test_run import by_time_and_key, local, same
from tilt import spark as ts
from tilt.spark.packing import HEADER, NUMBER, PLACE, TAG, packed_schema
from tilt.spark.parquet import Direct, span_of
from tilt.spark.placing import PackTask
from tilt.spark.run import _planned
from tilt.spark.scanned import Scanned, ScanTask, plain
from tilt.spark.survey import row_of
from tilt.spark.task import PartitionTask

SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    # One task a slice: how many cores there are is not asked.
    "spark.dynamicAllocation.enabled": "true",
}
seeds = st.integers(0, 1 << 32)


def scanned(directory: Path, rng: np.random.Generator, table: pa.Table) -> ts.ParquetSource:
    """Write rows into some files with row groups of all sizes, and scan them."""
    directory.mkdir()
    edges = np.sort(rng.integers(0, len(table) + 1, int(rng.integers(0, 4)))).tolist()
    for number, (first, last) in enumerate(zip([0, *edges], [*edges, len(table)], strict=True)):
        size = int(rng.integers(1, len(table) + 1))
        pq.write_table(table.slice(first, last - first), directory / f"{number}.parquet", row_group_size=size)
    session: Any = SimpleNamespace(conf=SETTINGS)
    return ts.scan_parquet(session, str(directory), time="ts", overlap="bag")


def by_slices(planned: Direct, rng: np.random.Generator) -> pa.Table:
    """Run the slices of a query on files in some tasks, in batches of all sizes."""
    task = planned.task()
    slices = len(task.slices)
    edges = np.sort(rng.integers(0, slices + 1, int(rng.integers(0, 5)))).tolist()
    together = int(rng.choice([1, 2, 100]))
    found: list[pa.RecordBatch] = []
    for first, last in zip([0, *edges], [*edges, slices], strict=True):
        numbers = pa.table({"id": range(first, last)}).to_batches(max_chunksize=int(rng.integers(1, 9)))
        found += replace(task, together=together).run(iter(numbers))
    return pa.Table.from_batches(found, planned.bound.schema)


def by_key(planned: Scanned, rng: np.random.Generator) -> pa.Table:
    """Run a query with a key on files: blocks come in any order, and in batches of all sizes."""
    query = planned.bound.task(())
    schemas = tuple(plain(one.name, one.schema) for one in query.inputs)
    start, end = span_of(planned.bound)
    blocks = [
        row_of({PLACE: place, TAG: HEADER[what], NUMBER: at}, packed_schema(schemas))
        for place in range(planned.partitions)
        for what, at in (("start", start), ("end", end))
    ]
    for at, one in enumerate(query.inputs):
        pack = PackTask(at, one.events, schemas, planned.partitions)
        shares = planned._shares(one.name)
        for number in range(len(shares)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TaskContext, "get", lambda number=number: Context(number))
                blocks += ScanTask(one, pack, shares).run(iter([pa.record_batch({"id": [number]})]))
    whole = pa.Table.from_batches(blocks, packed_schema(schemas))
    whole = whole.take(pa.array(rng.permutation(len(whole)))).combine_chunks()
    inputs = tuple(replace(one, schema=schema) for one, schema in zip(query.inputs, schemas, strict=True))
    task = PartitionTask(replace(query, inputs=inputs))
    found: list[pa.RecordBatch] = []
    for place in range(planned.partitions):
        mine = whole.filter(pa.array(whole.column(PLACE).to_numpy() == place)).combine_chunks()
        found += task.run(iter(mine.to_batches(max_chunksize=int(rng.integers(1, len(mine) + 2)))))
    return pa.Table.from_batches(found, planned.bound.schema)


def run(query: Query, tables: dict[str, pa.Table], rng: np.random.Generator, how: dict[str, Any]) -> pa.Table:
    """Run a query on files, in the way that is chosen for them."""
    with tempfile.TemporaryDirectory() as directory:
        scans = {name: scanned(Path(directory) / name, rng, table) for name, table in tables.items()}
        data: Any = scans if len(scans) > 1 else next(iter(scans.values()))
        planned = _planned(query, data, how)
        assert isinstance(planned, (Direct, Scanned))
        return by_slices(planned, rng) if isinstance(planned, Direct) else by_key(planned, rng)


def matches(query: Query, tables: dict[str, pa.Table], rng: np.random.Generator, how: dict[str, Any]) -> None:
    """Check that a run on files gives the local result."""
    found, key = run(query, tables, rng, how), how.get("key")
    same(found if key is None else by_time_and_key(found, key), local(query, tables, key=key))


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(sorted(ONE | LISTS)),
    seeds,
    st.integers(1, 120),
    st.integers(1, 40) | st.integers(41, 200),
    st.sampled_from([200, 1 << 28]),
)
def test_any_slices_of_files_give_the_local_result(name: str, seed: int, rows: int, slices: int, memory: int) -> None:
    rng = np.random.default_rng(seed)
    matches((ONE | LISTS)[name], {"stream": ticks(rng, rows)}, rng, {"slices": slices, "memory": memory})


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(set(ONE) - {"filled"})), seeds, st.integers(1, 150), st.integers(1, 12))
def test_any_slices_of_files_with_a_key_give_the_local_result(name: str, seed: int, rows: int, slices: int) -> None:
    rng = np.random.default_rng(seed)
    matches(ONE[name], {"stream": ticks(rng, rows)}, rng, {"slices": slices, "key": "sym"})


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(set(ONE) - {"filled"})),
    seeds,
    st.integers(1, 300),
    st.integers(1, 200),
    st.tuples(st.just("slices"), st.integers(1, 200)) | st.tuples(st.just("partitions"), st.integers(1, 20)),
)
def test_any_number_of_keys_of_files_gives_the_local_result(
    name: str, seed: int, rows: int, keys: int, cut: tuple[str, int]
) -> None:
    rng = np.random.default_rng(seed)
    tables = {"stream": keyed_ticks(rng, rows, keys)}
    found = run(ONE[name], tables, rng, {"key": "sym", cut[0]: cut[1]})
    same(by_time_and_key(found, "sym"), by_time_and_key(local(ONE[name], tables, key="sym"), "sym"))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(KEYED | LISTS)), seeds, st.integers(1, 150), st.integers(1, 9))
def test_any_partitions_of_keys_of_files_give_the_local_result(name: str, seed: int, rows: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    matches((KEYED | LISTS)[name], {"stream": ticks(rng, rows)}, rng, {"partitions": places, "key": "sym"})


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TWO | THREE)),
    seeds,
    st.integers(1, 60),
    st.integers(1, 12),
    st.sampled_from([None, "slices", "partitions"]),
)
def test_files_of_several_inputs_give_the_local_result(
    name: str, seed: int, rows: int, number: int, by: str | None
) -> None:
    rng = np.random.default_rng(seed)
    tables = tables_of_three(rng, rows) if name in THREE else {"trades": ticks(rng, rows), "quotes": quotes(rng, 50)}
    how = {"slices": number} if by is None else {by: number, "key": "sym"}
    matches((TWO | THREE)[name], tables, rng, how)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 100), st.integers(1, 20))
def test_files_may_overlap_in_time(seed: int, rows: int, slices: int) -> None:
    rng = np.random.default_rng(seed)
    table = ticks(rng, rows)
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    table = table.take(pa.array(first))
    mixed = table.take(pa.array(rng.permutation(len(table))))
    found = run(ONE["zscore"], {"stream": mixed}, rng, {"slices": slices})
    same(found, local(ONE["zscore"], {"stream": table}))
