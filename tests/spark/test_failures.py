"""What goes wrong in tasks is said in one message, and nothing else goes wrong with it."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import KEYED, ONE, TWO, Query, quotes, ticks
from test_cancelled import assert_nothing_written
from test_run import by_time_and_key, local, same
from tilt import spark as ts
from tilt.spark import boot


def test_times_that_are_missing_are_an_error_and_not_dropped(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 50))
    broken = frame.withColumn("ts", F.when(F.col("size") > 50, F.col("ts")))
    counted: Query = lambda x: x["price"].window(tl.tumbling("10s")).len()  # noqa: E731
    ways: list[tuple[Query, dict[str, Any]]] = [
        (ONE["zscore"], {"slices": 3}),
        (ONE["zscore"], {"key": "sym"}),
        (ONE["held"], {"key": "sym", "skew": None}),
        (counted, {"key": "sym"}),
        (KEYED["diff"], {"slices": 3}),
    ]
    for query, how in ways:
        with pytest.raises(tl.SchemaError, match=r"time column `ts`.*null") as caught, ts.errors():
            ts.run(query, broken, time="ts", **how).collect()
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


@pytest.mark.parametrize("how", [{"slices": 2}, {"key": "sym"}])
def test_functions_that_raise_are_errors_of_tilt(spark: SparkSession, how: dict[str, Any]) -> None:
    def refuse(value: float) -> float:
        message = f"{value} is not mine"
        raise ValueError(message)

    function = tl.udf(refuse, args=[float], returns=float, name="refuse")
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 20, nulls=0.0))
    with (
        pytest.raises(tl.TiltError, match=r"function .* raised ValueError: \S+ is not mine") as caught,
        ts.errors(),
    ):
        ts.run(lambda x: function(x["price"]), frame, time="ts", **how).collect()
    assert "\tat " not in str(caught.value)


def test_native_functions_are_registered_by_modules_of_executors(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import ctypes, ctypes.util
import tilt as tl
math = ctypes.CDLL(ctypes.util.find_library("m"))
math.hypot.argtypes, math.hypot.restype = [ctypes.c_double] * 2, ctypes.c_double
hypot = tl.udf(math.hypot, args=[float, float], returns=float, name="shipped_hypot")
"""
    (tmp_path / "shipped_functions.py").write_text(source)
    spark.addArtifacts(str(tmp_path / "shipped_functions.py"), pyfile=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    hypot = importlib.import_module("shipped_functions").hypot
    table = ticks(np.random.default_rng(1), 40, nulls=0.0)
    query = lambda x: hypot(x["price"], x["price"])["-5s":].mean()  # noqa: E731
    for how in ({"slices": 3}, {"key": "sym", "partitions": 2}):
        found = ts.run(query, spark.createDataFrame(table), time="ts", imports=["shipped_functions"], **how).toArrow()
        key = "sym" if "key" in how else None
        same(found if key is None else by_time_and_key(found, key), local(query, {"stream": table}, key=key))


def test_other_failures_stay_what_they_are(spark: SparkSession) -> None:
    with pytest.raises(PySparkException), ts.errors():
        spark.range(3).select(F.raise_error(F.lit("mine"))).collect()


def test_types_that_streams_cannot_have_are_refused_at_once(spark: SparkSession) -> None:
    frame = spark.sql("select timestamp'2026-01-01' as ts, cast(1 as decimal(10, 2)) as x")
    with pytest.raises(tl.SchemaError, match=r"`x` has type decimal\(10,2\).*cast"):
        ts.run(lambda s: s["x"], frame, time="ts")
    with pytest.raises(tl.SchemaError, match="no column `at` for the times"):
        ts.run(lambda s: s["x"], frame.drop("x"), time="at")


def test_times_that_are_no_times_say_how_spark_makes_them(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 5))
    for how in ({}, {"key": "sym"}):
        with pytest.raises(tl.SchemaError, match=r"`ts` is text; .*F\.to_timestamp\('ts'\)"):
            ts.run(ONE["zscore"], frame.withColumn("ts", F.col("ts").cast("string")), time="ts", **how)
    with pytest.raises(tl.SchemaError, match=r"`ts` is floats; .*F\.timestamp_seconds\('ts'\)"):
        ts.run(ONE["zscore"], frame.withColumn("ts", F.col("ts").cast("double")), time="ts")


def test_wall_times_of_a_zone_are_made_instants_first(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 5))
    wall = frame.withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    for how in ({"slices": 2}, {"key": "sym"}):
        with pytest.raises(tl.SchemaError, match=r"`ts` has wall times.*timeZone = 'Europe/Berlin'.*cast"):
            ts.run(ONE["zscore"], wall, time="ts", tz="Europe/Berlin", **how)
    assert ts.run(ONE["zscore"], frame, time="ts", tz="Europe/Berlin", slices=2).count() > 0


def test_options_that_there_are_not_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 5))
    with pytest.raises(TypeError, match=r"run\(\) has no option `slice`, did you mean `slices`"):
        ts.run(ONE["zscore"], frame, time="ts", slice=3)
    with pytest.raises(TypeError, match="slices is a whole number, not '3'"):
        ts.run(ONE["zscore"], frame, time="ts", slices="3")
    with pytest.raises(TypeError, match=r"a key is the name of one column, not \['sym', 'size'\].*concat_ws"):
        ts.run(ONE["zscore"], frame, time="ts", key=["sym", "size"])
    with pytest.raises(TypeError, match=r"run_stream\(\) has no option `slices`"):
        ts.run_stream(ONE["zscore"], frame, time="ts", lateness="1s", slices=3)


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"time": None}, TypeError, r"name the column of times: time=\.\.\."),
        ({"time": "at"}, tl.SchemaError, "no column `at` for the times; the columns are ts, price, size, sym"),
        ({"key": "symbol"}, tl.SchemaError, "no column `symbol`; the columns are `ts`, `price`, `size` and `sym`"),
        ({"key": "sym", "skew": "2"}, TypeError, "skew is a number, not '2'"),
        ({"key": "sym", "skew": 0}, ValueError, "skew must be more than 0"),
        ({"imports": "numpy"}, TypeError, r"imports are a list of names of modules: \['numpy'\]"),
        ({"imports": [ctypes]}, TypeError, r"imports are a list of names of modules, not module: \['ctypes'\]"),
        ({"imports": 3}, TypeError, "imports are a list of names of modules, not int"),
        ({"slices": True}, TypeError, "slices is a whole number, not True"),
        ({"memory": "lots"}, ValueError, "not 'lots'"),
        ({"warmup": "soon"}, tl.QueryError, "`soon` is not a duration"),
    ],
)
def test_mistakes_of_beginners_say_what_to_write(
    spark: SparkSession, how: dict[str, Any], error: type[Exception], said: str
) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 5))
    options = {name: value for name, value in ({"time": "ts"} | how).items() if value is not None}
    with pytest.raises(error, match=said):
        ts.run(ONE["zscore"], frame, **options)


def test_data_that_do_not_fit_the_query_say_what_it_takes(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(1), 5)
    frame = spark.createDataFrame(table)
    two = r"the query is of `trades`, `quotes`, but"
    with pytest.raises(tl.QueryError, match=rf"{two} there is one data frame; give a dictionary"):
        ts.run(TWO["asof"], frame, time="ts")
    with pytest.raises(tl.QueryError, match=rf"{two} data are for `left`, `right`"):
        ts.run(TWO["asof"], {"left": frame, "right": frame}, time="ts")
    with pytest.raises(tl.QueryError, match="the query has no data; give a data frame"):
        ts.run(ONE["zscore"], {}, time="ts")
    with pytest.raises(TypeError, match=r"not on pandas\.DataFrame; make it one: spark\.createDataFrame"):
        ts.run(ONE["zscore"], table.to_pandas(), time="ts")
    with pytest.raises(TypeError, match=r"not on str; .*spark\.read\.parquet"):
        ts.run(ONE["zscore"], "ticks/", time="ts")
    with pytest.raises(tl.SchemaError, match="two columns of the data frame are named `price`; rename one, or drop it"):
        ts.run(ONE["zscore"], frame.select("*", "price"), time="ts")


def test_modules_that_executors_do_not_have_are_named(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 20))
    with pytest.raises(tl.QueryError, match="names `no_such_module`, which an executor cannot import"), ts.errors():
        ts.run(ONE["zscore"], frame, time="ts", key="sym", imports=["no_such_module"]).collect()


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


def test_files_of_a_frame_that_change_their_types_write_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(2), 60)
    path = tmp_path / "ticks"
    path.mkdir()
    for number in range(2):
        pq.write_table(table.slice(30 * number, 30), path / f"{number}.parquet")
    frame = spark.read.parquet(str(path))
    texts = table.set_column(1, "price", pa.array(["1.5"] * len(table)))
    pq.write_table(texts.slice(30), path / "1.parquet")
    ways: list[dict[str, Any]] = [{"slices": 3}, {"key": "sym", "partitions": 2}]
    for number, how in enumerate(ways):
        out = tmp_path / str(number)
        # It is Spark that reads them, and says so.
        with pytest.raises(Exception, match=r"FAILED_READ_FILE.*1\.parquet"), ts.errors():
            ts.run(ONE["zscore"], frame, time="ts", **how).write.parquet(str(out))
        assert_nothing_written(out)


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


def test_jobs_that_fail_write_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(1), 200)
    # Only the last slice has a time that is there twice: others have results before the job fails.
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    last = pa.concat_tables([table.take(pa.array(first)), table.slice(len(table) - 1)])
    job = ts.run(ONE["zscore"], spark.createDataFrame(last), time="ts", overlap="disjoint", slices=6)
    with pytest.raises(tl.OverlapError), ts.errors():
        job.write.parquet(str(tmp_path / "out"))
    assert_nothing_written(tmp_path / "out")


def test_errors_name_the_row_and_its_key(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(1), 50)
    sizes = pa.array([*range(49), -7])
    frame = spark.createDataFrame(table.set_column(table.column_names.index("size"), "size", sizes))
    twice = frame.where("size = -7").unionAll(frame.where("size = -7")).withColumn("sym", F.lit("twice"))
    with pytest.raises(tl.OverlapError, match=r"row 1.*ts = \S+.*sym = twice") as caught, ts.errors():
        ts.run(ONE["zscore"], twice, time="ts", key="sym", overlap="disjoint").collect()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "sym", "partitions": 3}])
def test_errors_of_several_inputs_name_the_row_of_the_input(spark: SparkSession, how: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    # Some quotes have one time.
    frames = {
        "trades": ts.source(spark.createDataFrame(ticks(rng, 60)), time="ts", overlap="bag"),
        "quotes": ts.source(spark.createDataFrame(quotes(rng, 40)), time="ts", overlap="disjoint"),
    }
    where = ", sym = " if "key" in how else r"; slice \("
    found = rf"input ~quotes: row (\d+) .*\[row \1 of ~quotes: ts = 1970-\S+ \S+{where}"
    with pytest.raises(tl.OverlapError, match=found), ts.errors():
        ts.run(TWO["around"], frames, **how).collect()


def test_missing_times_of_several_inputs_name_the_input(spark: SparkSession) -> None:
    rng = np.random.default_rng(1)
    frames = {"trades": spark.createDataFrame(ticks(rng, 30)), "quotes": spark.createDataFrame(quotes(rng, 30))}
    frames["quotes"] = frames["quotes"].withColumn("ts", F.when(F.col("bid") < 100, F.col("ts")))
    for how in ({"slices": 2}, {"key": "sym"}):
        found = r"time column `ts` is null in row (\d+).*\[row \1 of ~quotes: ts = None"
        with pytest.raises(tl.SchemaError, match=found), ts.errors():
            ts.run(TWO["around"], frames, time="ts", **how).collect()


def test_what_is_slow_is_said_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    frame = spark.createDataFrame(ticks(np.random.default_rng(1), 5))
    monkeypatch.setattr(importlib.import_module("tilt.spark.run"), "_said", set())
    before = spark.conf.get(name)
    spark.conf.unset(name)
    try:
        with pytest.warns(UserWarning, match=r"maxBytesPerBatch is .*tune\(session\)"):
            ts.run(ONE["zscore"], frame, time="ts", key="sym")
        # Warnings are errors in tests.
        ts.run(ONE["zscore"], frame, time="ts", key="sym")
    finally:
        spark.conf.set(name, str(before))
