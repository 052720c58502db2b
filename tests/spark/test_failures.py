"""What goes wrong in tasks is said in one message, and nothing else goes wrong with it."""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import ONE, ticks
from tilt import spark as ts
from tilt.spark import boot


def test_times_that_are_missing_are_an_error_and_not_dropped(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 50))
    broken = frame.withColumn("ts", F.when(F.col("size") > 50, F.col("ts")))
    for how in ({"slices": 3}, {"key": "sym"}):
        with pytest.raises(tl.SchemaError, match=r"time column `ts`.*null") as caught, ts.errors():
            ts.run(ONE["zscore"], broken, time="ts", **how).collect()
        assert caught.value.column == "ts"
        assert "Traceback" not in str(caught.value)
        assert "\tat " not in str(caught.value)
    nowhere = frame.withColumn("ts", F.lit(None).cast("timestamp"))
    with pytest.raises(tl.SchemaError, match=r"time column `ts`.*null"), ts.errors():
        ts.run(ONE["zscore"], nowhere, time="ts", slices=2).collect()


def test_broken_promises_name_the_slice(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 50))
    with pytest.raises(tl.TiltError, match=r"slice \(") as caught, ts.errors():
        ts.run(ONE["zscore"], frame, time="ts", overlap="disjoint", slices=3).collect()
    assert isinstance(caught.value, tl.OverlapError)


def test_other_failures_stay_what_they_are(spark: SparkSession) -> None:
    with pytest.raises(PySparkException), ts.errors():
        spark.range(3).select(F.raise_error(F.lit("mine"))).collect()


def test_types_that_streams_cannot_have_are_refused_at_once(spark: SparkSession) -> None:
    frame = spark.sql("select timestamp'2026-01-01' as ts, cast(1 as decimal(10, 2)) as x")
    with pytest.raises(tl.SchemaError, match=r"`x` has type decimal\(10,2\).*cast"):
        ts.run(lambda s: s["x"], frame, time="ts")
    with pytest.raises(tl.SchemaError, match="no column `at` for the times"):
        ts.run(lambda s: s["x"], frame.drop("x"), time="at")


def test_data_for_other_inputs_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 5))
    stream = tl.source("ticks", {"ts": "timestamp(us)", "price": "f64"}, time="ts")["price"]
    with pytest.raises(tl.QueryError, match=r"`ticks` has no data frame"):
        ts.run(stream, {"trades": frame})
    with pytest.raises(TypeError, match="data frames of Spark"):
        ts.run(stream, [1, 2])


def test_a_table_whose_columns_changed_is_noticed(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 20))
    stream = tl.source("ticks", {"ts": "timestamp(us)", "price": "f64"}, time="ts")["price"]
    with pytest.raises(tl.TiltError, match="price"):
        ts.run(stream["-5s":].mean(), frame.withColumnRenamed("price", "cost"))


def test_another_version_in_executors_says_how_to_ship(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 20))
    monkeypatch.setattr(boot, "VERSION", "99.0")
    with pytest.raises(ts.ShippingError, match=r"99\.0 on the driver; pytilt==99\.0 must be.*docs/spark"), ts.errors():
        ts.run(ONE["zscore"], frame, time="ts", key="sym").collect()


def test_executors_without_tilt_say_so() -> None:
    task = boot.shipped(_Nothing())
    pickled = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    code = f"""
import pickle, sys
sys.modules["tilt"] = None
task = pickle.loads({pickled!r})
list(task(iter([])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "not installed" in last and "docs/spark.md" in last


class _Nothing:
    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches


def test_native_functions_are_registered_by_modules(spark: SparkSession) -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    hypot = tl.udf(libm.hypot, args=["f64", "f64"], returns="f64", name="spark_hypot")
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 20))
    with pytest.raises(tl.QueryError, match=r"@spark_hypot.*imports"):
        ts.run(lambda x: hypot(x["price"], x["price"]), frame, time="ts", key="sym")


def test_functions_of_python_travel(spark: SparkSession) -> None:
    halved = tl.udf(lambda v: v / 2, args=[float], returns=float, name="spark_halved")
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 20, nulls=0.0))
    rows = ts.run(lambda x: x.with_columns(h=halved(x["price"])), frame, time="ts", key="sym").collect()
    assert all(row.h == row.price / 2 for row in rows)


def test_cancelled_jobs_stop_within_seconds(spark: SparkSession) -> None:
    stuck = tl.udf(_slow, args=[float], returns=float, name="spark_slow")
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 2000, nulls=0.0))
    job = ts.run(lambda x: stuck(x["price"]), frame, time="ts", key="sym", partitions=1)
    ended: list[float] = []

    def run() -> None:
        spark.addTag("stuck")
        try:
            job.collect()
        except PySparkException:
            ended.append(time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(8)
    asked = time.monotonic()
    spark.interruptTag("stuck")
    thread.join(30)
    assert ended and ended[0] - asked < 10


def _slow(value: float) -> float:
    import time  # noqa: PLC0415

    time.sleep(0.05)
    return value
