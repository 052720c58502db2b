"""A stream whose executor and driver are killed writes every result once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import streamed
from cluster import executors
from environments import long
from queries import ticks
from test_cluster import variables
from test_run import by_time_and_key, local, same
from test_streaming import distinct
from tilt import spark as ts

HERE = Path(__file__).parent


def numbers(directory: Path) -> set[int]:
    """Give the batches that a log names."""
    return {int(path.name) for path in directory.glob("*") if path.name.isdigit()}


def waited(condition: Callable[[], bool], job: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something is so."""
    for _ in range(15_000):
        if condition():
            return
        assert job.poll() is None, log.read_text()[-4000:]
        time.sleep(0.02)
    raise AssertionError(log.read_text()[-4000:])


@long
def test_nothing_is_lost_or_doubled_when_executor_and_driver_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(7), 900, nulls=0.1))
    pieces = 7
    (tmp_path / "in").mkdir()
    for number in range(pieces):
        rows = -(-len(table) // pieces)
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table.slice(number * rows, rows), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    offsets, commits = tmp_path / "state" / "offsets", tmp_path / "state" / "commits"
    log = tmp_path / "log"
    command = [sys.executable, str(HERE / "streamed.py"), str(tmp_path)]

    def start() -> subprocess.Popen[bytes]:
        marked = variables() | {"TILT_TEST_CLUSTER": str(tmp_path)}
        with log.open("ab") as lines:
            return subprocess.Popen(command, env=marked, stdout=lines, stderr=lines, start_new_session=True)

    job = start()
    try:
        waited(lambda: 1 in numbers(offsets), job, log)
        victims = executors(str(tmp_path))
        assert len(victims) == 2
        os.kill(victims[0], signal.SIGKILL)
        # In the middle of a batch: it was begun and is not committed.
        waited(
            lambda: max(numbers(offsets), default=0) >= 3 and len(numbers(offsets)) > len(numbers(commits)), job, log
        )
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        assert len(numbers(commits)) < pieces
        job = start()
        assert job.wait(300) == 0, log.read_text()[-4000:]
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    frame = streamed.source(spark, tmp_path)
    rest = ts.rest(str(tmp_path / "state"), streamed.QUERY, frame, **streamed.HOW).toArrow()
    whole = pa.concat_tables([found, rest.cast(found.schema)])
    same(by_time_and_key(whole, "sym"), local(streamed.QUERY, {"stream": table}, key="sym"))
    assert len(found) > len(rest)
