"""Queries on data frames give what they give locally, bit for bit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import KEYED, LISTS, ONE, THREE, TWO, Query, quotes, tables_of_three, ticks
from tilt import _native
from tilt import spark as ts
from tilt.spark.tasks import tasks_for


def framed(spark: SparkSession, table: pa.Table, partitions: int = 4) -> DataFrame:
    """Give a data frame whose partitions are the rows dealt out, so that no partition has a range of times."""
    numbered = table.append_column("n", pa.array(range(len(table))))
    frame = spark.createDataFrame(numbered).repartition(partitions, F.col("n") % partitions)
    return frame.sortWithinPartitions("n").drop("n")


def ordered(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Give a data frame whose rows are in the table's order."""
    return spark.createDataFrame(table)


def local(query: Query, tables: dict[str, pa.Table], *, key: str | None = None) -> pa.Table:
    """Run a query here, with the columns of time that it has on Spark."""
    streams = [tl.stream(table, time="ts", name=name, overlap="bag") for name, table in tables.items()]
    keyed = [stream if key is None else stream.key_by(key) for stream in streams]
    result = query(*keyed)
    is_interval = _native.events(result._handle)[0] == "interval"
    return result.collect(layout="interval" if is_interval else "point").to_arrow()


def same(found: pa.Table, expected: pa.Table) -> None:
    assert found.column_names == expected.column_names
    assert found.cast(expected.schema).equals(expected)


def by_time_and_key(table: pa.Table, key: str) -> pa.Table:
    time = "end" if "end" in table.column_names else "ts"
    keys = list(zip(table.column(time).cast("int64").to_pylist(), table.column(key).to_pylist(), strict=True))
    order = sorted(range(len(keys)), key=lambda i: (keys[i][0], keys[i][1] or ""))
    return table.take(pa.array(order, pa.int64()))


@pytest.mark.parametrize("name", ["zscore", "filled", "ahead", "held"])
def test_slices_that_share_a_task_are_the_local_result(spark: SparkSession, name: str) -> None:
    table = ticks(np.random.default_rng(len(name)), 300)
    expected = local(ONE[name], {"stream": table})
    for slices, tasks in ((40, 3), (7, 7), (5, 1)):
        frame = ordered(spark, table)
        same(ts.run(ONE[name], frame, time="ts", slices=slices, tasks=tasks).toArrow(), expected)


def test_there_are_as_many_tasks_as_keep_cores_busy(spark: SparkSession) -> None:
    frame = ordered(spark, ticks(np.random.default_rng(1), 200))

    def tasks(**how: int) -> int:
        found = ts.run(ONE["zscore"], frame, time="ts", **how)
        return found.select(F.spark_partition_id().alias("at")).distinct().count()

    # Two for each of two cores.
    assert (tasks(slices=3), tasks(slices=40), tasks(slices=40, tasks=9)) == (3, 4, 9)
    assert "40 slices of the timeline with about the same number of rows, cut when the job runs, in 4 tasks" in (
        ts.explain(ONE["zscore"], frame, time="ts", slices=40)
    )
    for option in ("slices", "tasks", "partitions"):
        with pytest.raises(ValueError, match=f"{option} must be 1 at least"):
            ts.run(ONE["zscore"], frame, time="ts", **{option: 0})


def test_few_slices_share_a_task(spark: SparkSession) -> None:
    # Two tasks for each of two cores, unless that were too many slices for one.
    assert [tasks_for(slices, spark) for slices in (3, 100, 320, 10_000)] == [3, 4, 10, 313]
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "300")
    try:
        assert tasks_for(1000, spark) == 600
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({}, 100),
        ({"spark.executor.instances": "7", "spark.executor.cores": "3"}, 42),
        ({"spark.cores.max": "9"}, 18),
        ({"spark.dynamicAllocation.enabled": "true", "spark.cores.max": "9"}, 100),
    ],
)
def test_cores_that_are_still_to_come_get_tasks(settings: dict[str, str], tasks: int) -> None:
    class Session:
        """One that does not tell how many cores there are, with settings that cannot be changed in one that runs."""

        conf = settings

        def sql(self, text: str) -> Session:
            assert text.startswith("explain")
            return self

        def collect(self) -> list[tuple[str]]:
            return [("== Physical Plan ==",)]

    assert tasks_for(100, Session()) == tasks  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ONE)
def test_slices_of_a_frame_are_the_local_result(spark: SparkSession, name: str) -> None:
    rng = np.random.default_rng(len(name))
    table = ticks(rng, 300)
    slices = int(rng.integers(1, 9))
    found = ts.run(ONE[name], ordered(spark, table), time="ts", slices=slices)
    same(found.toArrow(), local(ONE[name], {"stream": table}))


@pytest.mark.parametrize("slices", [2, 20, 200])
@pytest.mark.parametrize("name", ["zscore", "ahead", "filled", "asof"])
def test_two_to_two_hundred_slices_are_the_local_result(
    spark: SparkSession, tmp_path: Path, name: str, slices: int
) -> None:
    rng = np.random.default_rng(slices)
    tables = {"stream": ticks(rng, 3000, span=1500)}
    if name in TWO:
        tables = {"trades": tables["stream"], "quotes": quotes(rng, 3000, span=1500)}
    query = (ONE | TWO)[name]
    for input_, table in tables.items():
        pq.write_table(table, tmp_path / input_, row_group_size=100)
    frames = {input_: ordered(spark, table) for input_, table in tables.items()}
    scans = {input_: ts.scan_parquet(spark, str(tmp_path / input_), time="ts") for input_ in tables}
    # Instants are not cut, and there are as many as are needed.
    expected = local(query, tables)
    for data in (frames, scans):
        given = data if len(data) > 1 else data["stream"]
        assert f"{slices} slices of the timeline" in ts.explain(query, given, time="ts", slices=slices)
        same(ts.run(query, given, time="ts", slices=slices).toArrow(), expected)
        if name != "filled":
            # Cells of keys are filled where these have no rows, so they are not cut by time.
            found = ts.run(query, given, time="ts", key="sym", slices=slices).toArrow()
            same(by_time_and_key(found, "sym"), local(query, tables, key="sym"))


@pytest.mark.parametrize("name", KEYED)
def test_keys_of_a_frame_are_the_local_result(spark: SparkSession, name: str) -> None:
    table = ticks(np.random.default_rng(len(name)), 300)
    found = ts.run(KEYED[name], ordered(spark, table), time="ts", key="sym", partitions=2)
    expected = local(KEYED[name], {"stream": table}, key="sym")
    same(by_time_and_key(found.toArrow(), "sym"), expected)


@pytest.mark.parametrize("keys", [10, 10_000, 1_000_000])
def test_few_and_many_keys(spark: SparkSession, keys: int) -> None:
    rows = max(20_000, 2 * keys)
    frame = spark.range(0, rows, 1, 4).select(
        F.timestamp_micros(F.col("id") * 1000).alias("ts"),
        # Each key at two distances in turn, which are not the same for all.
        F.pmod(F.xxhash64((F.col("id") / 3).cast("bigint")), F.lit(keys)).alias("k"),
        F.sin(F.col("id")).alias("x"),
    )
    query: Query = lambda s: s.with_columns(d=s["x"].diff(), m=s["x"]["-20s":].mean())  # noqa: E731
    found = ts.run(query, frame, time="ts", key="k", partitions=3).toArrow()
    expected = query(tl.stream(frame.toArrow(), time="ts").key_by("k")).collect(layout="point").to_arrow()
    assert len(pa.compute.unique(expected.column("k"))) > 0.1 * keys
    # Times are distinct here.
    same(found.sort_by("ts"), expected)


@pytest.mark.parametrize("name", TWO)
def test_two_inputs_with_and_without_a_key(spark: SparkSession, name: str) -> None:
    rng = np.random.default_rng(len(name))
    tables = {"trades": ticks(rng, 200), "quotes": quotes(rng, 250)}
    frames = {key: ordered(spark, table) for key, table in tables.items()}
    same(ts.run(TWO[name], frames, time="ts", slices=5).toArrow(), local(TWO[name], tables))
    found = ts.run(TWO[name], frames, time="ts", key="sym").toArrow()
    same(by_time_and_key(found, "sym"), local(TWO[name], tables, key="sym"))


@pytest.mark.parametrize("name", THREE)
def test_three_inputs_with_and_without_a_key(spark: SparkSession, name: str) -> None:
    tables = tables_of_three(np.random.default_rng(len(name)), 150)
    frames = {key: ordered(spark, table) for key, table in tables.items()}
    same(ts.run(THREE[name], frames, time="ts", slices=5).toArrow(), local(THREE[name], tables))
    found = ts.run(THREE[name], frames, time="ts", key="sym", partitions=3).toArrow()
    same(by_time_and_key(found, "sym"), local(THREE[name], tables, key="sym"))


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_arrays(spark: SparkSession, name: str) -> None:
    table = ticks(np.random.default_rng(len(name)), 200)
    frame = ordered(spark, table).coalesce(1)
    expected = local(LISTS[name], {"stream": table})
    for how in ({"slices": 4}, {"slices": 2, "memory": "1KB"}, {"ordered": True}):
        found = ts.run(LISTS[name], frame, time="ts", **how)
        assert "array<" in found.schema.simpleString()
        same(found.toArrow(), expected)
    found = ts.run(LISTS[name], frame, time="ts", key="sym", partitions=2).toArrow()
    same(by_time_and_key(found, "sym"), local(LISTS[name], {"stream": table}, key="sym"))


def test_rows_in_no_order_are_sorted(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(1), 400)
    times = np.unique(np.asarray(table.column("ts").cast("int64")), return_index=True)[1]
    table = table.take(pa.array(times))
    found = ts.run(ONE["zscore"], framed(spark, table), time="ts", slices=6)
    same(found.toArrow(), local(ONE["zscore"], {"stream": table}))


def test_nothing_runs_before_spark_does(spark: SparkSession) -> None:
    raising = F.raise_error(F.lit("ran")).cast("double")
    broken = spark.range(10).select(F.timestamp_micros("id").alias("ts"), raising.alias("x"))
    result = ts.run(lambda s: s["x"]["-1s":].sum(), broken, time="ts", slices=2)
    assert result.columns == ["ts", "x"]


def test_empty_frames_give_empty_results(spark: SparkSession) -> None:
    frame = ordered(spark, ticks(np.random.default_rng(1), 5)).where("size < 0")
    for how in ({"slices": 2}, {"key": "sym"}):
        assert ts.run(ONE["hopping"], frame, time="ts", **how).count() == 0


def test_streams_and_chains(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(3), 100)
    frame = ordered(spark, table)
    ticks_later = tl.source("ticks", table.schema, time="ts", overlap="bag")
    mean = ticks_later["price"]["-10s":].mean()
    expected = mean.run(ticks=table).to_arrow()
    same(mean.on_spark(frame, slices=3).toArrow(), expected)
    same(ts.run(mean, {"ticks": frame}, slices=3).toArrow(), expected)
    smooth = tl.query(lambda x: x["price"]["-10s":].mean())
    same(smooth.on_spark(frame, time="ts", slices=3).toArrow(), expected)


def test_types_go_both_ways(spark: SparkSession) -> None:
    schema = (
        "at timestamp_ntz, flag boolean, tiny tinyint, small smallint, n int, f float, s string, "
        "when timestamp, age interval day to second"
    )
    when = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
    rows = [
        (dt.datetime(2026, 3, 29, 1, i), bool(i % 2), i, i, i, i / 4, f"s{i}", when, dt.timedelta(seconds=i))  # noqa: DTZ001
        for i in range(6)
    ]
    frame = spark.createDataFrame(rows, schema)
    found = ts.run(lambda x: x, frame, time="at", slices=3)
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert found.collect() == frame.collect()


def test_dates_and_plain_numbers_are_times(spark: SparkSession) -> None:
    rows = [(dt.date(2026, 1, day), float(day)) for day in range(1, 29)]
    frame = spark.createDataFrame(rows, "day date, x double").repartition(3)
    table = pa.table({"day": pa.array([day for day, _ in rows]), "x": pa.array([x for _, x in rows])})
    query: Query = lambda s: s["x"]["-7d":].sum()  # noqa: E731
    expected = query(tl.stream(table, time="day")).collect().to_arrow()
    found = ts.run(query, frame, time="day", slices=4).toArrow()
    assert found.column("x").to_pylist() == expected.column("x").to_pylist()
    numbers = spark.range(100).withColumn("x", F.col("id") * 2).repartition(3)
    found = ts.run(lambda s: s["x"].window(3).sum(), numbers, time="id", unit="s", slices=4)
    assert [row.x for row in found.collect()][:5] == [0, 2, 6, 12, 18]


def test_intervals_reach_into_slices(spark: SparkSession) -> None:
    rng = np.random.default_rng(5)
    begin = np.cumsum(rng.integers(0, 9, 60))
    table = pa.table({"a": begin, "b": begin + rng.integers(1, 30, 60), "x": rng.normal(size=60)}).sort_by("b")
    query: Query = lambda s: s["x"].window(10).max()  # noqa: E731
    expected = query(tl.stream(table, valid=("a", "b"), overlap="bag")).collect().to_arrow()
    frame = ordered(spark, table)
    found = ts.run(query, frame, valid=("a", "b"), overlap="bag", slices=5).toArrow()
    same(found, expected)


def test_results_are_inputs_of_further_stages(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(4), 200)
    query: Query = lambda x: x.key_by("sym")["price"].window("5s").mean().unkey()["price"].window("10s").sum()  # noqa: E731
    expected = local(query, {"stream": table})
    same(ts.run(query, ordered(spark, table), time="ts", slices=3).toArrow(), expected)


def test_tables_are_joined_before_rows_are_moved(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(4), 200)
    sectors = tl.table({"name": ["a", "b"], "sector": ["x", "y"]}, key="name")
    query: Query = lambda x: x.lookup(sectors, on="sym").key_by("sector")["size"].window(tl.tumbling("10s")).sum()  # noqa: E731
    found = ts.run(query, ordered(spark, table), time="ts").toArrow()
    same(by_time_and_key(found, "sector"), local(query, {"stream": table}))


def test_unbounded_queries_need_a_key_or_a_warm_up(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(6), 200, nulls=0.0)
    frame = ordered(spark, table)
    with pytest.raises(tl.QueryError, match="looks back to all"):
        ts.run(KEYED["sessions"], frame, time="ts", slices=3)
    found = ts.run(KEYED["sessions"], frame, time="ts", slices=3, warmup="60s").toArrow()
    same(found, local(KEYED["sessions"], {"stream": table}))
    # Taken at its word, though it is not needed.
    found = ts.run(KEYED["diff"], frame, time="ts", slices=3, warmup="60s").toArrow()
    same(found, local(KEYED["diff"], {"stream": table}))


def test_plans_are_explained(spark: SparkSession) -> None:
    frame = ordered(spark, ticks(np.random.default_rng(6), 20))
    text = ts.explain(ONE["zscore"], frame, time="ts", slices=4)
    for part in ("4 slices", "lookback 10s", "MapInArrow", "query"):
        assert part in text
    assert "by key `sym`; lookback 10s, lookahead 0" in ts.explain(ONE["zscore"], frame, time="ts", key="sym")
    ahead = ts.explain(lambda x: x["price"]["-2s":"+3s"].max(), frame, time="ts", slices=4)
    assert "lookback 2s, lookahead 3s; columns ts, price" in ahead


def test_keys_with_most_rows_are_split_by_time(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(9), 300)
    frame = ordered(spark, table)
    for name in ("zscore", "hopping"):
        found = ts.run(ONE[name], frame, time="ts", key="sym", slices=4).toArrow()
        same(by_time_and_key(found, "sym"), local(ONE[name], {"stream": table}, key="sym"))
    with pytest.raises(tl.QueryError, match="where they have no rows"):
        ts.run(ONE["filled"], frame, time="ts", key="sym", slices=4)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"key": "sym", "tasks": 2}, r"tasks= .* rows go to partitions by their key; leave it out, or cut by time"),
        ({"key": "sym", "warmup": "5s"}, r"warmup= .* or cut by time: slices="),
        ({"key": "sym", "slices": 2, "skew": 3.0}, r"skew= has no meaning here, as the timeline is cut into slices"),
        ({"key": "sym", "slices": 2, "partitions": 3}, "partitions= has no meaning"),
        ({"partitions": 3}, "partitions= has no meaning"),
        ({"skew": 2.0}, "skew= has no meaning"),
        ({"ordered": True, "slices": 3}, r"slices= has no meaning here, as partitions stay as they are; leave it out"),
        ({"ordered": True, "tasks": 3}, "tasks= has no meaning"),
    ],
)
def test_options_that_say_nothing_are_refused(spark: SparkSession, how: dict[str, object], said: str) -> None:
    frame = ordered(spark, ticks(np.random.default_rng(1), 20))
    with pytest.raises(tl.QueryError, match=said):
        ts.run(ONE["zscore"], frame, time="ts", **how)


def test_options_may_be_about_one_stage(spark: SparkSession) -> None:
    table = ticks(np.random.default_rng(4), 200)
    query: Query = lambda x: x.key_by("sym")["price"].window("5s").mean().unkey()["price"].window("10s").sum()  # noqa: E731
    same(
        ts.run(query, ordered(spark, table), time="ts", partitions=2, tasks=2).toArrow(),
        local(query, {"stream": table}),
    )


@pytest.mark.parametrize("how", [{"slices": 2}, {"key": "sym", "partitions": 2}, {"key": "sym", "slices": 3}])
def test_little_memory_changes_nothing(spark: SparkSession, how: dict[str, object]) -> None:
    table = ticks(np.random.default_rng(7), 300)
    for name in ("zscore", "diff") if how.get("partitions") else ("zscore",):
        found = ts.run(KEYED[name], ordered(spark, table), time="ts", memory="1KB", **how).toArrow()
        key = "sym" if "key" in how else None
        found = found if key is None else by_time_and_key(found, key)
        same(found, local(KEYED[name], {"stream": table}, key=key))


def test_settings_that_are_locked_are_named() -> None:
    class Conf(dict[str, str]):
        def set(self, name: str, value: str) -> None:
            if name.endswith("PerBatch"):
                message = "[CANNOT_MODIFY_CONFIG]"
                raise PySparkException(message)
            self[name] = value

    class Session:
        conf = Conf()

    provider = "spark.sql.streaming.stateStore.providerClass"
    with pytest.warns(UserWarning, match=r"may not change \S+maxBytesPerBatch = 2147483647, .* = 16384; set"):
        ts.tune(Session())  # type: ignore[arg-type]
    assert "RocksDB" in Session.conf[provider]
    Session.conf[provider] = other = "com.databricks.sql.streaming.state.RocksDBStateStoreProvider"
    with pytest.warns(UserWarning, match="may not change"):
        ts.tune(Session())  # type: ignore[arg-type]
    assert Session.conf[provider] == other
