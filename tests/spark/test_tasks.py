"""What tasks do with the worker that runs them: its cores, its memory, what it has compiled."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

import tilt as tl
from queries import KEYED, ONE, Query, ticks
from test_cluster import variables
from test_cuts import Schema, sliced_task, with_header
from test_run import local, same
from tilt import spark as ts
from tilt.program import Program
from tilt.sources import Deferred, Events
from tilt.spark.boot import shipped
from tilt.spark.cuts import FOREVER, Slices
from tilt.spark.packing import HEADER, NUMBER, PLACE, TAG
from tilt.spark.parquet import Direct
from tilt.spark.placing import PackTask, Plan
from tilt.spark.plan import Bound
from tilt.spark.run import _planned
from tilt.spark.survey import row_of
from tilt.spark.task import PartitionTask


def keyed_task(query: Query, schema: pa.Schema) -> PartitionTask:
    """Give what executors run for a query of one input with a key."""
    source = Deferred(tl.Table(schema.empty_table()), Events(time="ts", overlap="bag", key="sym"))
    bound = Bound(query(tl.Stream._input("stream", source)), {"stream": Schema(schema, source.events)})
    return PartitionTask(bound.task(()))


def compilations(spark: SparkSession) -> dict[int, tuple[int, int]]:
    """Give how often each worker has found a query compiled, and how often not."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os  # noqa: PLC0415

        from tilt.run import _compiled  # noqa: PLC0415

        list(batches)
        counts = _compiled.cache_info()
        yield pa.record_batch({"pid": [os.getpid()], "hits": [counts.hits], "misses": [counts.misses]})

    rows = spark.range(0, 16, 1, 16).mapInArrow(told, "pid long, hits long, misses long").collect()
    return {row.pid: (row.hits, row.misses) for row in rows}


def test_workers_that_are_used_again_have_compiled_a_query(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark takes idle workers by turns, and other tests leave more of them than there are cores: a task that runs two
    # functions has two at once. Workers with other variables are a pool of their own: one for each of the two cores.
    monkeypatch.setitem(spark.sparkContext.environment, "TILT_TEST_POOL", "own")
    table = ticks(np.random.default_rng(1), 100)
    frame = spark.createDataFrame(table)
    query = lambda x: x["price"]["-7s":].mean() * 7.25  # noqa: E731
    before = compilations(spark)
    for _ in range(3):
        same(ts.run(query, frame, time="ts", slices=4).toArrow(), local(query, {"stream": table}))
    after = compilations(spark)
    changed = [np.subtract(counts, before.get(pid, (0, 0))) for pid, counts in after.items()]
    hits, misses = np.sum(changed, axis=0)
    assert all(compiled <= 1 for _, compiled in changed)
    assert hits + misses == 12 > 4 * misses


def test_a_task_uses_the_cores_that_spark_has_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        def cpus(self) -> int:
            return 3

    asked = []
    run = tl.Query.run

    def noted(self: tl.Query, *args: object, **how: object) -> object:
        asked.append(how["threads"])
        return run(self, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(tl.Query, "run", noted)
    table = ticks(np.random.default_rng(1), 20)
    task = sliced_task(ONE["zscore"], table.schema)
    batches = with_header(task, table)
    for context, threads in ((None, 1), (Context(), 3)):
        monkeypatch.setattr(TaskContext, "get", lambda context=context: context)
        list(task.run(iter(batches)))
        assert asked.pop() == threads


@pytest.mark.parametrize("name", KEYED)
def test_a_query_travels_as_a_small_text_with_its_version(name: str) -> None:
    sizes = []
    for rows in (10, 10_000):
        schema = ticks(np.random.default_rng(1), rows).schema
        task = PartitionTask(sliced_task(ONE[name], schema).query) if name in ONE else keyed_task(KEYED[name], schema)
        sent = cloudpickle.dumps(shipped(task))  # type: ignore[no-untyped-call]
        sizes.append(len(sent))
    # Some hundred bytes are the query, the rest what asks for the version and reads it.
    assert sizes[0] == sizes[1] < 6_000
    assert tl.__version__.encode() in sent
    found = re.search(rb"query \w+ unit us \{\n.*?\n\}\n", sent, re.DOTALL)
    assert found is not None
    text = found[0].decode()
    assert text == task.query.text
    # It is what people write, too.
    assert str(Program.parse(text)) == text


def test_what_travels_of_files_is_some_bytes_for_each_row_group(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(1), 2000)
    pq.write_table(table, tmp_path / "ticks.parquet", row_group_size=10)
    sent = []
    for slices in (10, 50, 200):
        planned = _planned(ONE["zscore"], ts.scan_parquet(spark, tmp_path, time="ts"), {"slices": slices})
        assert isinstance(planned, Direct)
        found = cloudpickle.dumps(shipped(planned.task()))  # type: ignore[no-untyped-call]
        sent.append(len(found))
    # 200 row groups, and what each slice reads of them.
    assert sent[0] < 30_000
    assert (sent[2] - sent[0]) / 190 < 100


def test_native_threads_begin_after_the_worker_was_forked(spark: SparkSession) -> None:
    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        list(batches)
        daemon = os.getppid()
        names = [path.read_text().strip() for path in Path(f"/proc/{daemon}/task").glob("*/comm")]
        yield pa.record_batch({"threads": [len(names)]})

    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 50))
    ts.run(ONE["zscore"], frame, time="ts", slices=2).collect()
    rows = spark.range(0, 4, 1, 4).mapInArrow(told, "threads long").collect()
    assert {row.threads for row in rows} == {1}


_PEAK = """
import re, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from queries import ONE
from test_cuts import Schema, sliced_task, with_header

def peak():
    # Not of getrusage, which counts what the process had that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

rows = 3_000_000
times = pa.array(np.arange(rows) * 10_000, pa.timestamp("us", "UTC"))
table = pa.table({"ts": times, "price": np.random.default_rng(1).normal(size=rows)})
task = sliced_task(ONE["zscore"], table.schema, memory=int(sys.argv[1]))
batches = with_header(task, table)
# What compiling takes is not counted.
list(task.query.compute({"stream": table.slice(0, 1000)}))
# Nor is what it took to make the rows.
Path("/proc/self/clear_refs").write_text("5")
before = peak()
count = sum(batch.num_rows for batch in task.run(iter(batches)))
assert count == rows
print(peak() - before)
"""


def test_slices_that_share_a_task_are_held_one_at_a_time() -> None:
    table = ticks(np.random.default_rng(1), 400, nulls=0.0)
    task = sliced_task(ONE["zscore"], table.schema)
    (given,) = task.query.inputs
    times = np.asarray(table.column("ts").cast("int64"))
    cuts = tuple(times[[100, 200, 300]].tolist())
    after, before = (-FOREVER, *(cut - 10_000_001 for cut in cuts)), (*(cut + 1 for cut in cuts), FOREVER)
    limits = tuple(zip(after, before, strict=True))
    pack = PackTask(0, replace(given.events, key=None), (given.schema,), 4, Plan(Slices(cuts), (limits,)))
    blocks = pa.Table.from_batches(pack.run(iter(table.select(given.schema.names).to_batches())))
    taken: list[int] = []

    def places() -> Iterator[pa.RecordBatch]:
        span = {"start": int(times[0]) - 1, "end": int(times[-1])}
        for place in range(4):
            taken.append(place)
            about = {"slice": place} | span
            about |= {"lo": cuts[place - 1]} if place > 0 else {}
            about |= {"hi": cuts[place]} if place < 3 else {}
            for what, value in about.items():
                yield row_of({PLACE: place, TAG: HEADER[what], NUMBER: value}, blocks.schema)
            yield from blocks.filter(pa.array(blocks.column(PLACE).to_numpy() == place)).to_batches()

    found = []
    for batch in task.run(places()):
        found.append(batch)
        # What comes next is known only when it has begun.
        assert taken == [*range(min(len(found) + 1, 4))]
    assert len(found) == 4
    same(pa.Table.from_batches(found), local(ONE["zscore"], {"stream": table}))


def test_memory_is_that_of_a_part_of_the_slice() -> None:
    def extra(memory: int) -> int:
        command = [sys.executable, "-c", _PEAK, str(memory)]
        return int(subprocess.run(command, env=variables(), capture_output=True, text=True, check=True).stdout)

    whole, parts = extra(1 << 34), extra(16 * 200_000)
    assert parts < whole / 2
