"""What the tests of a cluster run, in a process of its own: one process has one Spark.

python tests/spark/cluster.py local-cluster [EXECUTORS] | connect
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tilt as tl
import tilt.spark as ts
from conftest import settings
from queries import KEYED, ONE, TWO, quotes, ticks
from test_cancelled import assert_nothing_written, cancelled, computing, in_the_middle, long, many, waited
from test_run import by_time_and_key, local, same
from test_streaming import arriving, distinct


def executors(mark: str) -> list[int]:
    """Give the processes of executors of a cluster that was started with a mark in its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                parents = (entry / "environ").read_bytes()
            except OSError:
                continue
            mine = f"TILT_TEST_CLUSTER={mark}".encode()
            if b"CoarseGrainedExecutorBackend" in command and mine in parents:
                found.append(int(entry.name))
    return found


def results(spark: SparkSession, table: pa.Table) -> None:
    """Run with and without a key, and on files."""
    frame = spark.createDataFrame(table)
    expected = local(ONE["zscore"], {"stream": table})
    for slices in (1, 3, 8):
        same(ts.run(ONE["zscore"], frame, time="ts", slices=slices).toArrow(), expected)
    keyed = ts.run(KEYED["diff"], frame, time="ts", key="sym", partitions=3).toArrow()
    same(by_time_and_key(keyed, "sym"), local(KEYED["diff"], {"stream": table}, key="sym"))
    with tempfile.TemporaryDirectory() as directory:
        pq.write_table(table, f"{directory}/ticks.parquet", row_group_size=50)
        scan = ts.scan_parquet(spark, f"{directory}/ticks.parquet", time="ts")
        same(ts.run(ONE["zscore"], scan, slices=3).toArrow(), expected)
    with pytest.raises(tl.OverlapError, match=r"slice \("), ts.errors():
        ts.run(ONE["zscore"], frame, time="ts", overlap="disjoint", slices=2).collect()


def others(spark: SparkSession, table: pa.Table) -> None:
    """Run what is cut in other ways: carried, counted, ordered, skewed, files by key, two inputs, stages."""
    frame = spark.createDataFrame(table)
    counted = lambda x: x["price"].window(tl.tumbling("10s")).agg(n=tl.len(), most=tl.max())  # noqa: E731
    assert "by cell where rows are read" in ts.explain(counted, frame, time="ts", key="sym")
    found = ts.run(counted, frame, time="ts", key="sym").toArrow()
    same(by_time_and_key(found, "sym"), local(counted, {"stream": table}, key="sym"))
    for name in ("diff", "running"):
        found = ts.run(KEYED[name], frame, time="ts", slices=4).toArrow()
        same(found, local(KEYED[name], {"stream": table}))
    sorted_rows = frame.repartitionByRange(3, "ts").sortWithinPartitions("ts").cache()
    stable = sorted_rows.toArrow()
    found = ts.run(ONE["zscore"], sorted_rows, time="ts", ordered=True).toArrow()
    same(found, local(ONE["zscore"], {"stream": stable}))
    found = ts.run(ONE["zscore"], frame, time="ts", key="sym", skew=1.0, partitions=3).toArrow()
    same(by_time_and_key(found, "sym"), local(ONE["zscore"], {"stream": table}, key="sym"))
    with tempfile.TemporaryDirectory() as directory:
        pq.write_table(table, f"{directory}/ticks.parquet", row_group_size=50)
        scan = ts.scan_parquet(spark, directory, time="ts")
        found = ts.run(KEYED["diff"], scan, key="sym", partitions=2).toArrow()
        same(by_time_and_key(found, "sym"), local(KEYED["diff"], {"stream": table}, key="sym"))
    tables = {"trades": table, "quotes": quotes(np.random.default_rng(12), 200)}
    frames = {name: spark.createDataFrame(rows) for name, rows in tables.items()}
    same(ts.run(TWO["asof"], frames, time="ts", slices=3).toArrow(), local(TWO["asof"], tables))
    found = ts.run(TWO["around"], frames, time="ts", key="sym", partitions=2).toArrow()
    same(by_time_and_key(found, "sym"), local(TWO["around"], tables, key="sym"))
    staged = lambda x: x.key_by("sym")["price"].window("5s").mean().unkey()["price"].window("10s").sum()  # noqa: E731
    same(ts.run(staged, frame, time="ts", slices=2).toArrow(), local(staged, {"stream": table}))


def streamed(spark: SparkSession, table: pa.Table) -> None:
    """Run a stream on files, and what it has not given at its end."""
    how: dict[str, Any] = {"time": "ts", "key": "sym", "lateness": "10s", "shards": 2}
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "in").mkdir()
        pq.write_table(table, f"{directory}/in/ticks.parquet")
        schema = spark.createDataFrame(table).schema
        frame = spark.readStream.schema(schema).parquet(f"{directory}/in")
        writer = ts.run_stream(ONE["zscore"], frame, **how).writeStream.trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{directory}/state").start(f"{directory}/out", format="parquet")
        assert query.awaitTermination(300)
        told = [progress.observedMetrics["tilt"].asDict() for progress in query.recentProgress]
        assert [row for row in told if row], told
        # A batch without rows may tell nothing.
        assert not any(row.get("late", 0) for row in told)
        given = spark.read.parquet(f"{directory}/out").toArrow()
        left = ts.rest(f"{directory}/state", ONE["zscore"], frame, **how).toArrow()
    found = by_time_and_key(pa.concat_tables([given, left]), "sym")
    same(found, local(ONE["zscore"], {"stream": table}, key="sym"))


def in_batches(spark: SparkSession, table: pa.Table) -> None:
    """Run a stream by ``foreachBatch``, whose function has a process of its own in a remote session."""
    table = distinct(table)
    with tempfile.TemporaryDirectory() as directory:

        def write(results: DataFrame, number: int) -> None:
            results.write.mode("overwrite").parquet(f"{directory}/out/{number}")

        frame = arriving(spark, Path(directory) / "in", table, 3)
        run = ts.each_batch(ONE["zscore"], write, state=f"{directory}/session", time="ts", lateness="5s")
        writer = frame.writeStream.foreachBatch(run).option("checkpointLocation", f"{directory}/offsets")
        writer.trigger(availableNow=True).start().awaitTermination()
        found = spark.read.parquet(f"{directory}/out/*").toArrow().sort_by("ts")
    expected = local(ONE["zscore"], {"stream": table})
    assert 100 < len(found) <= len(expected)
    same(found, expected.slice(0, len(found)))


def interrupted(spark: SparkSession) -> None:
    """Cancel a job: its task ends."""
    with tempfile.TemporaryDirectory() as directory:
        job = ts.run(long, spark.createDataFrame(many()), time="ts", slices=1)
        out = Path(directory) / "out"
        error = cancelled(lambda: job.write.parquet(str(out)), in_the_middle, spark.interruptAll)
        assert "cancel" in str(error).lower(), error
        assert waited(lambda: not computing(), 15)
        assert_nothing_written(out)


def killed(spark: SparkSession, table: pa.Table, number: int) -> None:
    """Lose one of so many executors in the middle of a job: the answer is the same."""

    def slowly(value: float) -> float:
        # Long enough that the job is disturbed, however many run it.
        time.sleep(0.01 * number)
        return value

    slow = tl.udf(slowly, args=[float], returns=float, name="slowly")
    query = lambda x: slow(x["price"])["-10s":].mean()  # noqa: E731
    job = ts.run(query, spark.createDataFrame(table), time="ts", slices=6)
    victims = executors(str(os.getpid()))
    assert len(victims) == number, victims
    threading.Timer(3.0, os.kill, (victims[0], signal.SIGKILL)).start()
    same(job.toArrow(), local(query, {"stream": table}))
    assert victims[0] not in executors(str(os.getpid()))


def main() -> None:
    """Run what is asked for."""
    table = ticks(np.random.default_rng(11), 300, nulls=0.0)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TILT_TEST_CLUSTER"] = str(os.getpid())
    if sys.argv[1] == "connect":
        spark = settings(SparkSession.builder.remote("local[2]")).getOrCreate()
        assert "connect" in type(spark).__module__
        ts.tune(spark)
        results(spark, table)
        others(spark, table)
        streamed(spark, table)
        in_batches(spark, table)
        interrupted(spark)
    else:
        number = int(sys.argv[2]) if len(sys.argv) > 2 else 2
        builder = settings(SparkSession.builder.master(f"local-cluster[{number},1,1024]"))
        spark = builder.config("spark.speculation", "true").config("spark.executor.memory", "1g").getOrCreate()
        ts.tune(spark)
        results(spark, table)
        others(spark, table)
        streamed(spark, table)
        killed(spark, table, number)
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
