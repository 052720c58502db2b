"""Streams give what a run on all of their rows gives."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tilt as tl
from queries import KEYED, ONE, STAGED, TWO, Query, quotes, ticks
from test_hashing import by_time_and_number
from test_run import by_time_and_key, local, same
from tilt import spark as ts


def distinct(table: pa.Table) -> pa.Table:
    """Give rows of different times: of those with one time, files do not keep the order."""
    _, first = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)
    return table.take(pa.array(first))


def arriving(spark: SparkSession, directory: Path, table: pa.Table, pieces: int) -> DataFrame:
    """Give a stream that has a piece of the rows in each batch."""
    directory.mkdir(parents=True)
    rows = -(-len(table) // pieces)
    for number in range(pieces):
        path = directory / f"{number:03}.parquet"
        pq.write_table(table.slice(number * rows, rows), path)
        # Spark takes files in the order of their times.
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    schema = spark.createDataFrame(table.slice(0, 1)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))


def drained(stream: DataFrame, directory: Path) -> tuple[pa.Table, int]:
    """Run a stream until its source has no more, and give what it wrote, and how many rows it says were late."""
    writer = stream.writeStream.option("checkpointLocation", str(directory / "state")).trigger(availableNow=True)
    running = writer.start(str(directory / "out"), format="parquet")
    with ts.errors():
        running.awaitTermination()
    late = sum(progress.observedMetrics["tilt"].late for progress in running.recentProgress if progress.observedMetrics)
    return stream.sparkSession.read.schema(stream.schema).parquet(str(directory / "out")).toArrow(), late


def streamed(
    spark: SparkSession, directory: Path, query: Query, tables: dict[str, pa.Table], **how: object
) -> tuple[pa.Table, int]:
    """Give all results of a query on streams: those that came, and the rest."""
    frames = {name: arriving(spark, directory / name, table, 3) for name, table in tables.items()}
    data: Any = frames if len(frames) > 1 else next(iter(frames.values()))
    found, late = drained(ts.run_stream(query, data, time="ts", **how), directory)
    rest = ts.rest(str(directory / "state"), query, data, time="ts", **how).toArrow()
    assert len(found) > 0
    return pa.concat_tables([found, rest.cast(found.schema)]), late


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in ("end", "ts", "time") if name in table.column_names][:1])


@pytest.mark.parametrize("name", ["zscore", "filled"])
def test_a_stream_without_a_key_is_the_local_result(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = distinct(ticks(np.random.default_rng(1), 300))
    found, late = streamed(spark, tmp_path, ONE[name], {"stream": table}, lateness="5s")
    same(in_order(found), local(ONE[name], {"stream": table}))
    assert late == 0


def test_keys_are_spread_over_shards_and_quiet_ones_go_on(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(2), 300))
    # One key has rows at the beginning only: what it holds becomes certain as others go on.
    early = np.asarray(table.column("ts").cast("int64")) < 30_000_000
    keys = np.where(early, table.column("sym").to_numpy(zero_copy_only=False), "b")
    table = table.set_column(table.column_names.index("sym"), "sym", pa.array(keys, pa.string()))
    query = KEYED["held"]
    frame = arriving(spark, tmp_path / "in", table, 3)
    found, _ = drained(ts.run_stream(query, frame, time="ts", key="sym", lateness="2s", shards=3), tmp_path)
    expected = local(query, {"stream": table}, key="sym")
    assert found.filter(pa.compute.equal(found.column("sym"), "a")).num_rows == sum(
        name == "a" for name in expected.column("sym").to_pylist()
    )
    rest = ts.rest(str(tmp_path / "state"), query, frame, time="ts", key="sym", lateness="2s", shards=3).toArrow()
    same(by_time_and_key(pa.concat_tables([found, rest.cast(found.schema)]), "sym"), expected)


def test_two_streams_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    tables = {"trades": distinct(ticks(rng, 200)), "quotes": distinct(quotes(rng, 200))}
    found, _ = streamed(spark, tmp_path, TWO["asof"], tables, key="sym", lateness="5s", shards=2)
    same(by_time_and_key(found, "sym"), local(TWO["asof"], tables, key="sym"))


@pytest.mark.parametrize(("one", "other"), [(pa.int32(), pa.int64()), (pa.float32(), pa.float64())])
def test_equal_keys_of_other_widths_meet_in_a_shard(
    spark: SparkSession, tmp_path: Path, one: pa.DataType, other: pa.DataType
) -> None:
    rng = np.random.default_rng(3)
    tables = {}
    for (name, table), dtype in zip(
        {"trades": ticks(rng, 200), "quotes": quotes(rng, 200)}.items(), (one, other), strict=True
    ):
        rows = distinct(table)
        keys = pa.array(rng.integers(0, 9, len(rows))).cast(dtype)
        tables[name] = rows.set_column(rows.column_names.index("sym"), "sym", keys)
    found, _ = streamed(spark, tmp_path, TWO["asof"], tables, key="sym", lateness="5s", shards=5)
    same(by_time_and_number(found), local(TWO["asof"], tables, key="sym"))


def test_a_stream_does_not_go_on_with_another_number_of_shards(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(12), 300))
    later = table.slice(len(table) // 2)
    frame = arriving(spark, tmp_path / "in", table.slice(0, len(table) // 2), 2)
    how: dict[str, Any] = {"time": "ts", "key": "sym", "lateness": "5s"}

    def run(shards: int | None) -> pa.Table:
        return drained(ts.run_stream(KEYED["zscore"], frame, **how, shards=shards), tmp_path)[0]

    before = run(4)
    pq.write_table(later, tmp_path / "in" / "more.parquet")
    for shards in (3, None):
        with pytest.raises(tl.CheckpointError, match=r"has 4 shards, but the query 3, .*give shards=4"):
            run(shards)
        # Nothing was given, and nothing is lost.
        assert spark.read.parquet(str(tmp_path / "out")).count() == len(before)
    found = run(4)
    rest = ts.rest(str(tmp_path / "state"), KEYED["zscore"], frame, **how, shards=4).toArrow()
    whole = by_time_and_key(pa.concat_tables([found, rest.cast(found.schema)]), "sym")
    same(whole, local(KEYED["zscore"], {"stream": table}, key="sym"))


def test_a_stream_does_not_go_on_with_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(12), 200, nulls=0.0))
    how: dict[str, Any] = {"time": "ts", "key": "sym", "lateness": "5s", "shards": 2}
    frame = arriving(spark, tmp_path / "in", table.slice(0, 100), 2)
    before, _ = drained(ts.run_stream(KEYED["zscore"], frame, **how), tmp_path)
    # The same column has another type from now on.
    pq.write_table(table.slice(100), tmp_path / "in" / "more.parquet")
    drifted = frame.withColumn("size", frame["size"].cast("int"))
    with pytest.raises(tl.CheckpointError):
        drained(ts.run_stream(KEYED["zscore"], drifted, **how), tmp_path)
    assert spark.read.parquet(str(tmp_path / "out")).count() == len(before)
    found, _ = drained(ts.run_stream(KEYED["zscore"], frame, **how), tmp_path)
    rest = ts.rest(str(tmp_path / "state"), KEYED["zscore"], frame, **how).toArrow()
    whole = by_time_and_key(pa.concat_tables([found, rest.cast(found.schema)]), "sym")
    same(whole, local(KEYED["zscore"], {"stream": table}, key="sym"))


@pytest.mark.parametrize("name", STAGED)
def test_stages_go_on_from_a_checkpoint(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = distinct(ticks(np.random.default_rng(13), 300))
    half = len(table) // 2
    frame = arriving(spark, tmp_path / "in", table.slice(0, half), 2)
    how: dict[str, Any] = {"time": "ts", "lateness": "5s"}
    before, _ = drained(ts.run_stream(STAGED[name], frame, **how), tmp_path)
    assert len(before) > 0
    pq.write_table(table.slice(half), tmp_path / "in" / "more.parquet")
    found, late = drained(ts.run_stream(STAGED[name], frame, **how), tmp_path)
    assert len(found) > len(before) and late == 0
    rest = ts.rest(str(tmp_path / "state"), STAGED[name], frame, **how).toArrow()
    assert rest.schema.names == found.schema.names
    same(in_order(pa.concat_tables([found, rest.cast(found.schema)])), local(STAGED[name], {"stream": table}))


def test_stages_read_two_streams_and_call_functions(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(14)
    tables = {"trades": distinct(ticks(rng, 200, nulls=0.0)), "quotes": distinct(quotes(rng, 200))}
    halved = tl.udf(lambda value: value / 2, args=[float], returns=float, name="stream_halved")

    def query(trades: tl.Stream, quotes: tl.Stream) -> tl.Stream:
        mid = halved(quotes["bid"] + quotes["ask"]).alias("mid").window(tl.tumbling("2s")).mean()
        mean = trades.key_by("sym")["price"].window(tl.tumbling("2s")).mean().unkey()["price"].window("2s").mean()
        return trades.with_columns(far=trades["price"] - mean.at(trades), mid=mid.at(trades))

    found, late = streamed(spark, tmp_path, query, tables, lateness="3s")
    same(in_order(found), local(query, tables))
    assert late == 0


def test_records_go_through_streams(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(11), 120, nulls=0.0))
    trades = pa.StructArray.from_arrays([table.column(name).combine_chunks() for name in ("price", "size")], ["p", "n"])
    table = pa.table({"ts": table.column("ts"), "trade": trades})
    query: Query = lambda x: x.with_columns(m=x["trade.p"]["-5s":].mean())  # noqa: E731
    found, _ = streamed(spark, tmp_path, query, {"stream": table}, lateness="5s")
    same(in_order(found), ts.run(query, spark.createDataFrame(table), time="ts", slices=2).toArrow())


def test_times_without_a_zone_are_watermarked_as_utc(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(10), 200)).select(["ts", "price"])
    table = table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("us")))
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        query: Query = lambda x: x["price"]["-5s":].mean()  # noqa: E731
        found, late = streamed(spark, tmp_path, query, {"stream": table}, lateness="1s")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    same(in_order(found), local(query, {"stream": table}))
    assert late == 0


def test_late_rows_are_counted_and_readable(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(4), 120, nulls=0.0))
    times = np.asarray(table.column("ts").cast("int64"))
    # One row comes with the last piece, long after its time.
    order = np.r_[0, 2 : len(times), 1]
    frame = arriving(spark, tmp_path / "in", table.take(pa.array(order)), 3)
    query = ONE["zscore"]
    found, late = drained(ts.run_stream(query, frame, time="ts", lateness="1s", late_rows=True), tmp_path)
    assert late == 1
    (told,) = [row for row in found.column("late").to_pylist() if row is not None]
    assert told["input"] == "stream" and told["fate"] == "dropped"
    assert json.loads(told["row"])["price"] == table.column("price")[1].as_py()
    expected = local(query, {"stream": table.take(pa.array(np.r_[0, 2 : len(times)]))})
    given = found.filter(pa.compute.is_null(found.column("late"))).drop_columns(["late"])
    same(in_order(given), expected.slice(0, len(given)))


def test_what_cannot_be_streamed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(5), 20)
    frame = arriving(spark, tmp_path / "in", table, 1)
    with pytest.raises(tl.QueryError, match="nothing is certain before the stream ends"):
        ts.run_stream(ONE["filled"], frame, time="ts", key="sym", lateness="1s")
    with pytest.raises(tl.QueryError, match="computed in stages"):
        ts.run_stream(
            lambda x: x.key_by("sym")["price"].window("5s").mean().unkey()["price"].window("9s").sum(),
            frame, time="ts", key="sym", lateness="1s",
        )  # fmt: skip
    with pytest.raises(tl.QueryError, match="intervals that may overlap"):
        ts.run_stream(
            lambda x: x.key_by("sym")["price"].hold("5s").unkey()["price"].window("9s").sum(),
            frame, time="ts", lateness="1s",
        )  # fmt: skip
    with pytest.raises(tl.QueryError, match="unit="):
        ts.run_stream(lambda x: x["price"], frame.withColumnRenamed("size", "t"), time="t", lateness=1)
    with pytest.raises(ValueError, match="shards must be 1 at least, not 0"):
        ts.run_stream(ONE["zscore"], frame, time="ts", key="sym", lateness="1s", shards=0)
    with pytest.raises(ValueError, match="late rows"):
        ts.run_stream(ONE["zscore"], frame, time="ts", lateness="1s", late="revise")
    with pytest.raises(tl.QueryError, match=r"~stream is no streaming data frame; run\("):
        ts.run_stream(ONE["zscore"], spark.createDataFrame(table), time="ts", lateness="1s")
    for how in ({}, {"key": "sym"}, {"ordered": True}):
        with pytest.raises(tl.QueryError, match=r"~stream is a streaming data frame; run_stream\("):
            ts.run(ONE["zscore"], frame, time="ts", **how)
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = str(spark.conf.get(provider))
    spark.conf.unset(provider)
    try:
        with pytest.raises(tl.QueryError, match="RocksDB"):
            ts.run_stream(ONE["zscore"], frame, time="ts", lateness="1s")
    finally:
        spark.conf.set(provider, before)


def test_errors_of_streams_are_what_they_were(spark: SparkSession, tmp_path: Path) -> None:
    table = ticks(np.random.default_rng(6), 30)
    ends = table.column("ts").to_pylist()
    broken = table.set_column(0, "ts", pa.array([*ends[:-1], None], table.schema.field("ts").type))
    frame = arriving(spark, tmp_path / "in", broken, 1)
    with pytest.raises(tl.SchemaError, match="ts"):
        drained(ts.run_stream(ONE["zscore"], frame, time="ts", lateness="1s"), tmp_path)


@pytest.mark.parametrize("key", [None, "sym"])
def test_functions_that_raise_in_streams_are_errors_of_tilt(
    spark: SparkSession, tmp_path: Path, key: str | None
) -> None:
    def refuse(value: float) -> float:
        if value > limit:
            message = f"{value} is not mine"
            raise ValueError(message)
        return value

    table = distinct(ticks(np.random.default_rng(6), 60, nulls=0.0))
    how: dict[str, Any] = {"time": "ts", "key": key, "lateness": "1s", "shards": 2 if key else None}
    said = r"function that the query calls raised ValueError: \S+ is not mine"
    for number, limit in enumerate((0.0, 1000.0)):
        function = tl.udf(refuse, args=[float], returns=float, name="refuse")
        query: Query = lambda x, called=function: called(x["price"])["-5s":].mean()  # noqa: E731
        frame = arriving(spark, tmp_path / f"in{number}", table, 2)
        stream = ts.run_stream(query, frame, **how)
        if limit == 0:
            with pytest.raises(tl.QueryError, match=rf"{said} \[shard \d of {2 if key else 1}\]") as caught:
                drained(stream, tmp_path / str(number))
            assert "\tat " not in str(caught.value)
            assert "Traceback" not in str(caught.value)
        else:
            drained(stream, tmp_path / str(number))
    # What waits is run when the stream is ended: with the function that is there then.
    limit = 0.0
    function = tl.udf(refuse, args=[float], returns=float, name="refuse")
    with pytest.raises(tl.QueryError, match=said), ts.errors():
        ts.rest(str(tmp_path / "1" / "state"), lambda x: function(x["price"])["-5s":].mean(), frame, **how).collect()


def test_batches_go_through_a_session_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(9), 300))
    frame = arriving(spark, tmp_path / "in", table, 3)
    query = ONE["zscore"]
    failing = [True]

    def write(results: DataFrame, batch: int) -> None:
        results.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={batch}"))
        if batch == 1 and failing:
            failing.clear()
            message = "after it has written"
            raise RuntimeError(message)

    def start() -> None:
        run = ts.each_batch(query, write, state=str(tmp_path / "session"), time="ts", lateness="1s")
        writer = frame.writeStream.foreachBatch(run).option("checkpointLocation", str(tmp_path / "offsets"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(PySparkException, match="after it has written"):
        start()
    start()
    found = spark.read.parquet(str(tmp_path / "out")).drop("batch").toArrow()
    expected = local(query, {"stream": table})
    assert len(expected) > len(found) > 100
    same(in_order(found), expected.slice(0, len(found)))
    pq.write_table(table.slice(0, 1), tmp_path / "in" / "more.parquet")
    for path in (tmp_path / "session").iterdir():
        path.unlink()
    with (
        pytest.raises(tl.CheckpointError, match=r"session/2 is missing, .*after batch 2 .*; give the state= directory"),
        ts.errors(),
    ):
        start()


@pytest.mark.parametrize("late_rows", [False, True])
def test_late_rows_of_batches_are_counted_and_readable(spark: SparkSession, tmp_path: Path, *, late_rows: bool) -> None:
    table = distinct(ticks(np.random.default_rng(4), 120, nulls=0.0))
    # Two rows come with the last piece, long after their time.
    order = np.r_[0, 3 : len(table), 1, 2]
    frame = arriving(spark, tmp_path / "in", table.take(pa.array(order)), 3)

    def write(results: DataFrame, batch: int) -> None:
        results.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={batch}"))

    how: dict[str, Any] = {"state": str(tmp_path / "session"), "time": "ts", "lateness": "1s", "late_rows": late_rows}
    run = ts.each_batch(ONE["zscore"], write, **how)
    writer = frame.writeStream.foreachBatch(run).option("checkpointLocation", str(tmp_path / "offsets"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert run.late == 2
    found = spark.read.parquet(str(tmp_path / "out")).drop("batch").toArrow()
    assert ("late" in found.column_names) is late_rows
    if late_rows:
        told = [row for row in found.column("late").to_pylist() if row is not None]
        assert [(row["input"], row["fate"]) for row in told] == [("stream", "dropped")] * 2
        prices = table.column("price").to_pylist()[1:3]
        assert sorted(json.loads(row["row"])["price"] for row in told) == sorted(prices)
        found = found.filter(found.column("late").is_null()).drop_columns(["late"])
    expected = local(ONE["zscore"], {"stream": table.take(pa.array(order[:-2]))})
    assert len(found) > 50
    same(in_order(found), expected.slice(0, len(found)))


@pytest.mark.parametrize("key", [None, "sym"])
def test_stages_go_through_a_session_of_the_driver(spark: SparkSession, tmp_path: Path, key: str | None) -> None:
    table = distinct(ticks(np.random.default_rng(9), 300))

    def query(x: tl.Stream) -> tl.Stream:
        keyed = x.key_by("sym") if key is None else x
        return keyed["price"].window(tl.tumbling("2s")).mean().unkey()["price"].window("9s").sum()

    def write(results: DataFrame, batch: int) -> None:
        results.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={batch}"))

    frame = arriving(spark, tmp_path / "in", table.slice(0, 150), 2)
    for more in (table.slice(150), None):
        # Each time a new function goes on with the session that was kept.
        run = ts.each_batch(query, write, state=str(tmp_path / "session"), time="ts", key=key, lateness="1s")
        writer = frame.writeStream.foreachBatch(run).option("checkpointLocation", str(tmp_path / "offsets"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert run.late == 0
        if more is not None:
            pq.write_table(more, tmp_path / "in" / "more.parquet")
    found = spark.read.parquet(str(tmp_path / "out")).drop("batch").toArrow()
    expected = local(query, {"stream": table}, key=key)
    assert len(expected) > len(found) > 20
    same(in_order(found), expected.slice(0, len(found)))


@pytest.mark.parametrize("late", ["adjust", "raise"])
def test_late_rows_may_be_moved_or_end_the_stream(spark: SparkSession, tmp_path: Path, late: str) -> None:
    table = distinct(ticks(np.random.default_rng(4), 120, nulls=0.0))
    order = np.r_[0, 2 : len(table), 1]
    frame = arriving(spark, tmp_path / "in", table.take(pa.array(order)), 3)
    how: dict[str, Any] = {"time": "ts", "key": "sym", "lateness": "1s", "late": late, "shards": 2}
    if late == "raise":
        key = table.column("sym")[1].as_py()
        found = rf"row \d+: .* behind the watermark.*\[ts = 1970-01-01 \S+, sym = {key}; shard \d of 2\]"
        with pytest.raises(tl.LateDataError, match=found) as caught:
            drained(ts.run_stream(ONE["zscore"], frame, **how), tmp_path)
        assert caught.value.row is not None
        return
    found, count = drained(ts.run_stream(ONE["zscore"], frame, **how, late_rows=True), tmp_path)
    assert count == 1
    (told,) = [row for row in found.column("late").to_pylist() if row is not None]
    assert told["fate"] == "adjusted" and told["by"] > 0
    # The row is there, at a time that is not its own.
    left = ts.rest(str(tmp_path / "state"), ONE["zscore"], frame, **how).toArrow()
    prices = [
        *found.filter(found.column("late").is_null()).column("price").to_pylist(),
        *left.column("price").to_pylist(),
    ]
    assert sorted(prices) == sorted(table.column("price").to_pylist())
