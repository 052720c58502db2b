"""Types of Spark go through queries and come back."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
from queries import Query
from tilt import spark as ts

NESTED = "at timestamp, k string, quote struct<bid: double, size: int, venue: struct<name: string, since: timestamp>>"


def quoted(spark: SparkSession) -> list[Row]:
    since = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    rows = [
        (
            dt.datetime(2026, 3, 1, 0, 0, i, tzinfo=dt.timezone.utc),
            "ab"[i % 2],
            (i / 4 if i != 3 else None, i, ("x" if i != 3 else None, since)),
        )
        for i in range(12)
    ]
    return spark.createDataFrame(rows, NESTED).collect()


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "k"}, {"key": "k", "slices": 2}])
def test_records_go_both_ways(spark: SparkSession, how: dict[str, object]) -> None:
    rows = quoted(spark)
    frame = spark.createDataFrame(rows, NESTED).repartition(2)
    found = ts.run(lambda x: x, frame, time="at", **how)
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert found.orderBy("at").collect() == rows


def test_fields_of_records_are_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame(quoted(spark), NESTED)
    query: Query = lambda x: x.with_columns(best=x["quote.bid"]["-3s":].max())  # noqa: E731
    found = ts.run(query, frame, time="at", slices=3)
    assert [field.name for field in found.schema] == ["at", "k", "quote", "best"]
    plain = frame.select("at", "k", frame["quote.bid"].alias("quote.bid")).toArrow()
    expected = query(tl.stream(plain, time="at")).collect().to_arrow()
    assert [row.best for row in found.collect()] == expected.column("best").to_pylist()
    some = ts.run(lambda x: x.select("quote.size"), frame, time="at", slices=2)
    assert some.columns == ["at", "quote.size"]


@pytest.mark.parametrize("how", [{"slices": 3}, {"ordered": True}, {"key": "row.k"}])
def test_times_and_keys_may_be_fields_of_records(spark: SparkSession, how: dict[str, object]) -> None:
    frame = spark.createDataFrame(quoted(spark), NESTED).coalesce(1)
    inside = frame.select(F.struct("at", "k", F.col("quote.bid").alias("bid")).alias("row"))
    found = ts.run(lambda x: x.with_columns(best=x["row.bid"]["-3s":].max()), inside, time="row.at", **how)
    assert found.columns == ["row", "best"]
    plain = inside.select("row.*").toArrow()
    stream = tl.stream(plain, time="at") if "key" not in how else tl.stream(plain, time="at").key_by("k")
    expected = stream.with_columns(best=stream["bid"]["-3s":].max()).collect().to_arrow()
    assert [row.best for row in found.orderBy("row.at").collect()] == expected.column("best").to_pylist()


def written(spark: SparkSession, directory: Path) -> str:
    """Give files with the rows of :func:`quoted`."""
    table = spark.createDataFrame(quoted(spark), NESTED).toArrow()
    for number in range(2):
        pq.write_table(table.slice(6 * number, 6), directory / f"{number}.parquet", row_group_size=2)
    return str(directory)


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "k", "partitions": 2}, {"key": "k", "slices": 2}])
def test_records_of_files_go_both_ways(spark: SparkSession, tmp_path: Path, how: dict[str, object]) -> None:
    scan = ts.scan_parquet(spark, written(spark, tmp_path), time="at")
    assert scan.schema().names == ["at", "k", "quote.bid", "quote.size", "quote.venue.name", "quote.venue.since"]
    found = ts.run(lambda x: x, scan, **how)
    assert found.schema.simpleString() == spark.createDataFrame([], NESTED).schema.simpleString()
    assert found.orderBy("at").collect() == quoted(spark)
    best: Query = lambda x: x.with_columns(best=x["quote.bid"]["-3s":].max())  # noqa: E731
    expected = ts.run(best, spark.createDataFrame(quoted(spark), NESTED), time="at", **how)
    assert ts.run(best, scan, **how).orderBy("at").collect() == expected.orderBy("at").collect()


def test_some_fields_of_records_of_files(spark: SparkSession, tmp_path: Path) -> None:
    path = written(spark, tmp_path)
    names = {"quote.size": ["at", "quote.size"], "quote.venue": ["at", "quote.venue.name", "quote.venue.since"]}
    for column, expected in names.items():
        scan = ts.scan_parquet(spark, path, columns=[column], time="at")
        assert scan.schema().names == expected
        assert ts.run(lambda x: x, scan, slices=2).columns == expected
    whole = ts.scan_parquet(spark, path, columns=["quote", "quote.bid"], time="at")
    assert ts.run(lambda x: x, whole, slices=2).columns == ["at", "quote"]
    some = ts.run(lambda x: x.select("quote.size"), whole, slices=2)
    assert some.columns == ["at", "quote.size"]
    assert [row[1] for row in some.collect()] == list(range(12))
    with pytest.raises(
        tl.SchemaError, match=r"no column `quote\.ask`; it has at, k, quote\.bid, quote\.size, quote\.venue"
    ):
        ts.scan_parquet(spark, path, columns=["quote.ask"], time="at")


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "row.k", "partitions": 2}])
def test_records_of_files_may_be_null_and_have_times_and_keys(
    spark: SparkSession, tmp_path: Path, how: dict[str, object]
) -> None:
    table = spark.createDataFrame(quoted(spark), NESTED).toArrow()
    quotes = table.column("quote").combine_chunks()
    # Where a quote is null its fields have values below.
    hidden = pa.StructArray.from_arrays(
        quotes.flatten(), fields=list(quotes.type), mask=pa.array([i % 3 == 0 for i in range(12)])
    )
    row = pa.StructArray.from_arrays(
        [table.column(name).combine_chunks() for name in ("at", "k")] + [hidden], ["at", "k", "quote"]
    )
    pq.write_table(pa.table({"row": row}), tmp_path / "rows.parquet", row_group_size=5)
    scan = ts.scan_parquet(spark, str(tmp_path), time="row.at")
    query: Query = lambda x: x.with_columns(n=x["row.quote.bid"]["-4s":].len())  # noqa: E731
    found = ts.run(query, scan, **how)
    assert found.columns == ["row", "n"]
    expected = ts.run(query, spark.createDataFrame(pa.table({"row": row})), time="row.at", **how)
    rows = found.orderBy("row.at").collect()
    assert rows == expected.orderBy("row.at").collect()
    assert [r.row.quote.bid for r in rows] == [None if i % 3 == 0 else i / 4 for i in range(12)]


def test_fields_of_records_that_are_named_as_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    pair = pa.StructArray.from_arrays([pa.array([1.0, 2.0])], ["bid"])
    table = pa.table({"t": [1, 2], "quote": pair, "quote.bid": [3.0, 4.0], "x": [5.0, 6.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(tl.SchemaError, match=r"two columns of .*rows\.parquet are named `quote\.bid`") as caught:
        ts.scan_parquet(spark, str(tmp_path), time="t")
    assert caught.value.column == "quote.bid"
    scan = ts.scan_parquet(spark, str(tmp_path), columns=["x"], time="t")
    assert [row.x for row in ts.run(lambda x: x, scan, slices=1).collect()] == [5.0, 6.0]
    with pytest.raises(tl.SchemaError, match=r"two columns of the data frame are named `quote\.bid`"):
        ts.run(lambda x: x["x"], spark.createDataFrame(table), time="t", slices=1)


def test_records_of_a_query_are_structs(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0), (2, 3.0)], "t bigint, x double")
    found = ts.run(lambda s: s.with_columns(both=tl.struct(a=s["x"], b=s["x"] * 2)), frame, time="t", slices=2)
    assert found.schema["both"].dataType.simpleString() == "struct<a:double,b:double>"
    assert [row.both.b for row in found.collect()] == [4.0, 6.0]


def test_times_keep_their_zone(spark: SparkSession) -> None:
    # The hour that is there twice in Berlin.
    rows = [(dt.datetime(2026, 10, 25, 0, 10 * i, tzinfo=dt.timezone.utc), float(i)) for i in range(6)]
    rows += [(dt.datetime(2026, 10, 25, 1, 10 * i, tzinfo=dt.timezone.utc), float(i)) for i in range(6)]
    query: Query = lambda x: x["v"].window(tl.calendar("1d")).sum()  # noqa: E731
    before = spark.conf.get("spark.sql.session.timeZone")
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            frame = spark.createDataFrame(rows, "at timestamp, v double")
            assert [tuple(row) for row in ts.run(lambda x: x, frame, time="at", slices=3).collect()] == [
                tuple(row) for row in frame.collect()
            ]
            table = frame.toArrow()
            table = table.set_column(0, "at", table.column("at").cast(pa.timestamp("us", zone)))
            found = ts.run(query, frame, time="at", slices=2).toArrow()
            expected = query(tl.stream(table, time="at")).collect(layout="interval").to_arrow()
            assert found.cast(expected.schema).equals(expected)
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(before))


def test_dictionary_strings_are_strings(spark: SparkSession) -> None:
    # Spark has no dictionaries: they are strings on the way in, and in results.
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    table = pa.table({"t": pa.array([1, 2, 3, 4]), "word": words})
    plain = table.set_column(1, "word", words.cast(pa.string()))
    frame = spark.createDataFrame(plain)
    query: Query = lambda x: x.filter(x["word"] == "a")  # noqa: E731
    found = ts.run(query, frame, time="t", slices=2)
    assert found.schema["word"].dataType.simpleString() == "string"
    expected = query(tl.stream(table, time="t")).collect().to_arrow()
    assert found.toArrow().column("word").to_pylist() == expected.column("word").to_pylist() == ["a", "a"]


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "k"}, {"ordered": True}])
def test_strings_with_wide_offsets_are_strings(spark: SparkSession, how: dict[str, object]) -> None:
    frame = spark.createDataFrame(quoted(spark), NESTED).coalesce(1)
    query: Query = lambda x: x.with_columns(n=x["quote.bid"]["-3s":].len())  # noqa: E731
    expected = ts.run(query, frame, time="at", **how).orderBy("at").collect()
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(setting, "true")
    try:
        assert ts.run(query, frame, time="at", **how).orderBy("at").collect() == expected
    finally:
        spark.conf.unset(setting)


def test_dictionaries_of_files_are_strings(spark: SparkSession, tmp_path: Path) -> None:
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    table = pa.table({"t": pa.array([1, 2, 3, 4]), "word": words})
    pq.write_table(table, tmp_path / "words.parquet", row_group_size=2)
    query: Query = lambda x: x.filter(x["word"] == "a")  # noqa: E731
    found = ts.run(query, ts.scan_parquet(spark, str(tmp_path), time="t"), slices=2)
    assert found.schema["word"].dataType.simpleString() == "string"
    expected = query(tl.stream(table, time="t")).collect().to_arrow()
    assert found.toArrow().column("word").to_pylist() == expected.column("word").to_pylist() == ["a", "a"]


def test_maps_and_decimals_inside_records_are_refused(spark: SparkSession) -> None:
    frame = spark.range(3).select("id", F.struct(F.lit(1).cast("decimal(5, 1)").alias("d")).alias("x"))
    with pytest.raises(tl.SchemaError, match=r"`x.d` has type decimal"):
        ts.run(lambda s: s["x"], frame, time="id")


UNSIGNED = {"tiny": pa.uint8(), "small": pa.uint16(), "plain": pa.uint32(), "half": pa.float16()}


@pytest.mark.parametrize("how", [{"slices": 3}, {"key": "small", "partitions": 2}])
def test_types_that_spark_has_not_come_back_wider(spark: SparkSession, tmp_path: Path, how: dict[str, object]) -> None:
    rows = 12
    columns = {name: pa.array(np.arange(rows).astype(dtype.to_pandas_dtype())) for name, dtype in UNSIGNED.items()}
    columns["small"] = pa.array(np.arange(rows) + 65_524, pa.uint16())
    table = pa.table({"t": pa.array(range(rows)), **columns})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=4)

    def query(x: tl.Stream) -> tl.Stream:
        few = x["tiny"].window(2).agg(a=tl.collect())["a"]
        return x.with_columns(top=x["plain"].window(3).max(), few=few)

    found = ts.run(query, ts.scan_parquet(spark, str(tmp_path), time="t"), **how)
    wide = {"tiny": "smallint", "small": "int", "plain": "bigint", "half": "float", "top": "bigint"}
    assert {name: dtype for name, dtype in found.dtypes if name in wide} == wide
    assert dict(found.dtypes)["few"] == "array<smallint>"
    stream = tl.stream(table, time="t")
    expected = query(stream.key_by("small") if "key" in how else stream).collect().to_arrow()
    assert found.toArrow().sort_by("t").to_pylist() == expected.sort_by("t").to_pylist()


def test_types_that_no_type_of_spark_holds_are_refused_in_results(spark: SparkSession, tmp_path: Path) -> None:
    moments = pa.array(range(4), pa.timestamp("ns"))
    pq.write_table(
        pa.table({"t": range(4), "huge": pa.array(range(4), pa.uint64()), "at": moments}), tmp_path / "a.parquet"
    )
    scan = ts.scan_parquet(spark, str(tmp_path), time="t")
    for column, dtype in (("huge", "uint64"), ("at", r"timestamp\[ns\]")):
        query: Query = lambda x, column=column: x.select(column)  # noqa: E731
        with pytest.raises(tl.SchemaError, match=rf"`{column}` of the result has type {dtype}.*cast it in the query"):
            ts.run(query, scan, slices=2)
    found = ts.run(lambda x: x["huge"].cast("i64").alias("huge"), scan, slices=2)
    assert [row.huge for row in found.collect()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "value",
    [
        "array(1, 2)", "map('a', 1)", "cast('a' as binary)", "cast(1 as decimal(10, 2))", "null",
        "interval '1' year", "array(struct(1 as a))",
    ],
)  # fmt: skip
def test_columns_that_no_stream_can_have_are_named(spark: SparkSession, value: str) -> None:
    frame = spark.sql(f"select timestamp'2026-01-01' as ts, 1.5d as price, {value} as odd")
    with pytest.raises(tl.SchemaError, match=r"column `odd` has type .*df\.drop\('odd'\)") as caught:
        ts.run(lambda x: x["price"], frame, time="ts")
    assert caught.value.column == "odd"
    assert ts.run(lambda x: x["price"], frame.drop("odd"), time="ts", slices=1).count() == 1


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], [2], []]), pa.array([[{"a": 1}]] * 3), pa.array([b"x"] * 3), pa.array([1, 2, 3], pa.date32()),
        pa.array([1, 2, 3]).cast(pa.decimal128(20, 1)), pa.array([1, 2, 3], pa.time64("us")),
    ],
)  # fmt: skip
def test_columns_of_files_that_no_stream_can_have_are_left_out(
    spark: SparkSession, tmp_path: Path, values: pa.Array
) -> None:
    pq.write_table(
        pa.table({"t": [1, 2, 3], "x": [1.0, 2.0, 4.0], "odd": values, "k": ["a", "b", "a"]}), tmp_path / "a.parquet"
    )
    query: Query = lambda x: x["x"].window(2).sum()  # noqa: E731
    with pytest.raises(tl.SchemaError, match=r"column `odd` has type .*columns=\['t', 'x', 'k'\]\)"):
        ts.run(query, ts.scan_parquet(spark, str(tmp_path), time="t"), slices=2)
    scan = ts.scan_parquet(spark, str(tmp_path), columns=["x", "k"], time="t")
    assert scan.schema().names == ["t", "x", "k"]
    assert ts.run(query, scan, slices=2).toArrow().column("x").to_pylist() == [1.0, 3.0, 6.0]
    assert ts.run(query, scan, key="k", partitions=2).count() == 3
