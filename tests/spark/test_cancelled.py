"""Jobs and streams that are cancelled end within seconds, whatever their tasks do, and leave nothing half-written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tilt as tl
from queries import Query, ticks
from tilt import spark as ts

SLOW = tl.reducer(init=lambda: {"s": 0.0}, acc=lambda s, v: {"s": s.s * 0.5 + v}, result=lambda s: s.s, name="slow")
"""A reduction that goes through a window for each row anew."""
long: Query = lambda x: x["price"].window("1d").reduce(SLOW)  # noqa: E731
"""A query that computes for minutes, without a function of Python."""


def many() -> pa.Table:
    """Give rows that it does so for."""
    rows = 200_000
    times = pa.array(np.arange(rows) * 1000, pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "price": np.random.default_rng(1).normal(size=rows), "sym": ["a"] * rows})


def used() -> dict[int, int]:
    """Give the CPU time of each Python worker below this process."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            is_worker = (
                b"pyspark" in (entry / "cmdline").read_bytes() and b"java" not in (entry / "cmdline").read_bytes()
            )
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        if is_worker:
            ticks[int(entry.name)] = int(fields[11]) + int(fields[12])

    def is_mine(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return {pid: count for pid, count in ticks.items() if is_mine(pid)}


def computing() -> bool:
    """Whether a worker uses the CPU."""
    before = used()
    time.sleep(1)
    return any(count > before.get(pid, count) + 2 for pid, count in used().items())


def in_the_middle() -> bool:
    """Whether one has done so for longer than it takes to move rows."""
    return all(computing() for _ in range(3))


def waited(condition: Callable[[], bool], seconds: int) -> bool:
    """Wait until something is so, but no longer than some seconds."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            return False
        time.sleep(0.1)
    return True


def cancelled(job: Callable[[], object], is_running: Callable[[], bool], cancel: Callable[[], object]) -> Exception:
    """Run a job, cancel it when it is in the middle, and give what it raises."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            job()
        except Exception as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert waited(lambda: is_running() or not thread.is_alive(), 120)
    assert not raised, raised
    cancel()
    thread.join(20)
    assert not thread.is_alive()
    (error,) = raised
    return error


def assert_nothing_written(directory: Path) -> None:
    """Assert that a directory has no file that a reader would take for a result."""
    found = [path.relative_to(directory) for path in directory.rglob("*") if path.is_file()]
    assert all(any(part.startswith(("_temporary", ".")) for part in path.parts) for path in found), found


def test_tasks_that_call_functions_of_python_end(spark: SparkSession, tmp_path: Path) -> None:
    told = str(tmp_path / "alive")

    def alive(value: float) -> float:
        import time  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        Path(told).touch()
        time.sleep(0.05)
        return value

    slow = tl.udf(alive, args=[float], returns=float, name="spark_alive")
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 4000, nulls=0.0))
    job = ts.run(lambda x: slow(x["price"]), frame, time="ts", key="sym", partitions=1)
    out = tmp_path / "out"
    error = cancelled(lambda: job.write.parquet(str(out)), Path(told).exists, spark.sparkContext.cancelAllJobs)
    assert "cancelled" in str(error)
    # Spark kills the worker of a task that does not end by itself, after two seconds.
    time.sleep(4)
    last = Path(told).stat().st_mtime
    time.sleep(1)
    assert Path(told).stat().st_mtime == last
    assert_nothing_written(out)


@pytest.mark.parametrize("how", [{"slices": 1}, {"key": "sym", "partitions": 1}, {"files": True, "slices": 1}])
def test_tasks_that_compute_natively_end(spark: SparkSession, tmp_path: Path, how: dict[str, Any]) -> None:
    data: Any = spark.createDataFrame(many())
    if how.pop("files", False):
        pq.write_table(many(), tmp_path / "many.parquet")
        data = ts.scan_parquet(spark, str(tmp_path / "many.parquet"), time="ts")
    job = ts.run(long, data, time="ts", **how)
    assert waited(lambda: not computing(), 30)
    out = tmp_path / "out"
    error = cancelled(lambda: job.write.parquet(str(out)), in_the_middle, spark.sparkContext.cancelAllJobs)
    assert "cancelled" in str(error)
    assert waited(lambda: not computing(), 15)
    assert_nothing_written(out)


def test_a_stream_that_is_stopped_ends(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(many(), tmp_path / "in" / "many.parquet")
    frame: DataFrame = spark.readStream.schema("ts timestamp, price double, sym string").parquet(str(tmp_path / "in"))
    stream = ts.run_stream(long, frame, time="ts", lateness="1s")
    assert waited(lambda: not computing(), 30)
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "state"))
    running = writer.start(str(tmp_path / "out"), format="parquet")
    assert waited(in_the_middle, 120)
    running.stop()
    assert not running.isActive
    assert waited(lambda: not computing(), 15)
    assert_nothing_written(tmp_path / "out")
