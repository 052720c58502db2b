"""What is measured: our ways of running a query, Spark SQL's own, and those of others, on rows in Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
import tilt.spark as ts

try:
    # Measured where it installs.
    import tempo
except ImportError:
    tempo = None

if TYPE_CHECKING:
    from pathlib import Path

GROUP = 1 << 18
"""Rows of a row group."""
FEW_KEYS = 10_000
WIDER = 8
"""How many columns of doubles wide rows have besides."""
WRITTEN = [(1, FEW_KEYS, 1, 0), (200, FEW_KEYS, 1, 0), (4, FEW_KEYS, 2, 0), (4, FEW_KEYS, 2, WIDER)]
WRITTEN += [(share, keys, seed, 0) for keys in (FEW_KEYS, 1_000_000) for seed in (2, 3) for share in (1, 10)]
WRITTEN += [(2000, FEW_KEYS, seed, 0) for seed in (2, 3)]
"""Of the rows that are read: of how many there is one, keys, seeds, and how many columns there are besides."""
ACCOMPANIED = "identity, and trend on the way"
ASOF_JOIN = ("spark.sql.join.asofJoin.enabled", "spark.sql.join.sortMergeAsOfJoin.enabled")
"""What has to be set for an ASOF JOIN of Spark SQL, which it has since 4.3."""
Case = Callable[[], DataFrame]


def write_ticks(path: Path, rows: int, keys: int, seed: int, wider: int = 0) -> str:
    """Write rows in order of time, about a hundred a second, some files of them, with so many columns besides."""
    target = path / (f"{rows}-{keys}-{seed}" + (f"-{wider}" if wider else ""))
    if not target.exists():
        target.mkdir(parents=True)
        rng = np.random.default_rng(seed)
        times = np.cumsum(rng.integers(1, 20_000, rows))
        whole = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "price": 100 + np.cumsum(rng.normal(0, 0.01, rows)),
                "key": rng.integers(0, keys, rows),
            }
        )
        for number in range(wider):
            whole = whole.append_column(f"more{number}", pa.array(rng.normal(size=rows)))
        size = max(rows // 8, 1)
        for number, first in enumerate(range(0, rows, size)):
            pq.write_table(whole.slice(first, size), target / f"part-{number}.parquet", row_group_size=GROUP)
    return str(target)


def trend(x: tl.Stream) -> tl.Stream:
    """Give the trend query of the paper."""
    diff = x["price"]["-10s":].mean() - x["price"]["-20s":].mean()
    return diff.filter(diff > 0)


def zscore(x: tl.Stream) -> tl.Stream:
    """Give the rolling normalisation."""
    price = x["price"]
    return x.with_columns(z=(price - price["-10m":].mean()) / price["-10m":].std())


def asof(left: tl.Stream, right: tl.Stream) -> tl.Stream:
    """Give the as-of join with the last price of the other side."""
    return left.with_columns(other=right["price"].hold("1h"))


def sql_trend(rows: DataFrame, key: str | None) -> DataFrame:
    """Give the trend by range windows."""
    window = (Window.partitionBy(key) if key else Window.partitionBy()).orderBy(F.unix_micros("ts"))
    ten, twenty = (F.avg("price").over(window.rangeBetween(-s * 10**6 + 1, 0)) for s in (10, 20))
    return rows.select("ts", *([key] if key else []), (ten - twenty).alias("price")).where("price > 0")


def sql_zscore(rows: DataFrame) -> DataFrame:
    """Give the normalisation by range windows."""
    window = Window.partitionBy("key").orderBy(F.unix_micros("ts")).rangeBetween(-600 * 10**6 + 1, 0)
    return rows.withColumn("z", (F.col("price") - F.avg("price").over(window)) / F.stddev("price").over(window))


def spark_asof(left: DataFrame, right: DataFrame, key: str | None = "key") -> DataFrame:
    """Give the as-of join that Spark SQL has itself."""
    session = left.sparkSession
    for name in ASOF_JOIN:
        session.conf.set(name, "true")
    text = "select one.*, two.price as other from {one} one left asof join {two} two match_condition (one.ts >= two.ts)"
    return session.sql(text + (f" using ({key})" if key else ""), one=left, two=right)


def few_results(x: tl.Stream) -> tl.Stream:
    """Give a thousandth of the rows."""
    return x.filter(x["key"] < 10)  # noqa: PLR2004


def beside_diff(x: tl.Stream) -> tl.Stream:
    """Give all columns, and what the price is more than the one before it."""
    return x.with_columns(diff=x["price"].diff())


def sql_asof(left: DataFrame, right: DataFrame, key: str | None = "key") -> DataFrame:
    """Give the as-of join by a union and the last value that is not null."""
    both = left.withColumn("side", F.lit(1)).withColumn("other", F.lit(None).cast("double"))
    both = both.unionByName(right.select("ts", "price", "key", F.lit(0).alias("side"), F.col("price").alias("other")))
    window = Window.partitionBy(*([key] if key else [])).orderBy("ts", "side")
    window = window.rowsBetween(Window.unboundedPreceding, 0)
    return both.withColumn("other", F.last("other", ignorenulls=True).over(window)).where("side = 1").drop("side")


def grouped_asof(left: DataFrame, right: DataFrame, partitions: int) -> DataFrame:
    """Give the as-of join of the keys of each partition, whose rows Spark's cogroup brings together.

    It promises what ours does: rows with one time stay in order, and all partitions end with the last row of any.
    """
    schema = ts.run(asof, {"left": left, "right": right}, time="ts", key="key").schema
    names = schema.names
    times = left.select("ts").union(right.select("ts")).select(F.unix_micros("ts").alias("ts"))
    ((first, last),) = times.agg(F.min("ts") - 1, F.max("ts")).collect()

    def run(one: pa.Table, other: pa.Table) -> pa.Table:
        in_order = (rows.sort_by([("ts", "ascending"), ("number", "ascending")]) for rows in (one, other))
        sides = (tl.stream(rows.drop(["bucket", "number"]), time="ts").key_by("key") for rows in in_order)
        found = asof(*sides).collect(layout="point", threads=1, progress=False, span=(first, last))
        return found.to_arrow().select(names)

    bucket = F.pmod(F.xxhash64("key"), F.lit(partitions)).cast("int").alias("bucket")
    number = F.monotonically_increasing_id().alias("number")
    one, other = (side.select("*", number, bucket).groupBy("bucket") for side in (left, right))
    return one.cogroup(other).applyInArrow(run, schema)


def cases(spark: SparkSession, data: Path, rows: int) -> dict[str, tuple[int, Case]]:
    """Give what is measured, by name: how many rows come in, and what to run."""
    found: dict[str, tuple[int, Case]] = {}
    slices = max(rows // 1_000_000, 4)
    path = write_ticks(data, rows, 10_000, 1)
    frame = spark.read.parquet(path)
    found["identity"] = (rows, lambda: frame.mapInArrow(lambda batches: batches, frame.schema))
    found[ACCOMPANIED] = (rows, lambda: accompanied(frame))

    def sliced(number: int) -> DataFrame:
        return ts.run(trend, frame, time="ts", slices=number)

    found["trend, slices"] = (rows, partial(sliced, slices))
    for number in (2, 200):
        found[f"trend, {number} slices"] = (rows, partial(sliced, number))

    def direct(query: Callable[..., tl.Stream], number: int) -> DataFrame:
        return ts.run(query, ts.scan_parquet(spark, path, time="ts"), slices=number)

    found["trend, direct Parquet"] = (rows, partial(direct, trend, slices))
    for number in (2, 200):
        found[f"trend, direct Parquet, {number} slices"] = (rows, partial(direct, trend, number))
    found["trend, ordered"] = (rows, lambda: ts.run(trend, frame, time="ts", ordered=True))
    # Range windows of Spark add up every frame anew, in one task if there is no key: more rows would take hours.
    few = rows // 200
    path_few = write_ticks(data, few, 10_000, 1)
    found["trend, Spark SQL"] = (few, lambda: sql_trend(spark.read.parquet(path_few), None))

    def normalised(number: int) -> DataFrame:
        return ts.run(zscore, frame, time="ts", slices=number)

    found["z-score, slices"] = (rows, partial(normalised, slices))
    # Ten minutes before each of them: halos are a good part of the rows.
    found["z-score, 200 slices"] = (rows, partial(normalised, 200))
    found["z-score, direct Parquet"] = (rows, partial(direct, zscore, slices))
    found["direct Parquet, few results"] = (rows, partial(direct, few_results, slices))
    found |= wide_cases(spark, data, rows // 4, slices)
    found |= unkeyed_asof(spark, data, rows, slices)
    for keys in (FEW_KEYS, 1_000_000):
        found |= keyed_cases(spark, data, rows, keys, slices)
    ads = pa.table({"key": range(10_000), "campaign": np.arange(10_000) % 100})
    side = tl.table(ads, key="key")
    views = spark.read.parquet(path)
    found["Yahoo"] = (
        rows,
        lambda: ts.run(
            lambda x: x.filter(x["price"] > 0).lookup(side, on="key").key_by("campaign")["price"]
            .window(tl.tumbling("10s")).len(),
            views, time="ts", partitions=slices,
        ),
    )  # fmt: skip
    campaigns = F.broadcast(spark.createDataFrame(ads))
    found["Yahoo, Spark SQL"] = (
        rows,
        lambda: (
            views.where("price > 0").join(campaigns, "key").groupBy("campaign", F.window("ts", "10 seconds")).count()
        ),
    )
    return found


def wide_cases(spark: SparkSession, data: Path, rows: int, tasks: int) -> dict[str, tuple[int, Case]]:
    """Give what tells the cost of bytes from that of rows: the same on rows with 64 bytes more, all of them moved."""
    found: dict[str, tuple[int, Case]] = {}
    for name, wider in (("24 bytes", 0), ("88 bytes", WIDER)):
        path = write_ticks(data, rows, FEW_KEYS, 2, wider)
        frame = spark.read.parquet(path)

        def identity(frame: DataFrame = frame) -> DataFrame:
            return frame.mapInArrow(lambda batches: batches, frame.schema)

        def moved(frame: DataFrame = frame) -> DataFrame:
            return ts.run(beside_diff, frame, time="ts", key="key", partitions=tasks)

        def read(path: str = path) -> DataFrame:
            return ts.run(few_results, ts.scan_parquet(spark, path, time="ts"), slices=tasks)

        found[f"identity, {name}"] = (rows, identity)
        found[f"diff, 10,000 keys, {name}"] = (rows, moved)
        found[f"direct Parquet, few results, {name}"] = (rows, read)
    return found


def unkeyed_asof(spark: SparkSession, data: Path, rows: int, slices: int) -> dict[str, tuple[int, Case]]:
    """Give as-of joins of all rows with all others."""

    def sides(rows: int) -> dict[str, str]:
        return {side: write_ticks(data, rows, 10_000, seed) for side, seed in (("left", 2), ("right", 3))}

    def frames(rows: int) -> dict[str, DataFrame]:
        return {side: spark.read.parquet(path) for side, path in sides(rows).items()}

    def direct() -> DataFrame:
        scans = {side: ts.scan_parquet(spark, path, time="ts") for side, path in sides(rows).items()}
        return ts.run(asof, scans, slices=slices)

    # One task of Spark sorts all rows.
    few, least = rows // 10, rows // 2000
    return {
        "as-of, slices": (2 * rows, lambda: ts.run(asof, frames(rows), time="ts", slices=slices)),
        "as-of, direct Parquet": (2 * rows, direct),
        "as-of, Spark SQL": (2 * few, lambda: sql_asof(**frames(few), key=None)),
        # The time of this grows with the square of the rows.
        **asof_join(spark, "as-of, Spark SQL's ASOF JOIN", least, lambda: spark_asof(**frames(least), key=None)),
    }


def asof_join(spark: SparkSession, name: str, rows: int, case: Case) -> dict[str, tuple[int, Case]]:
    """Give an as-of join of Spark SQL's own, if it has one."""
    return {name: (2 * rows, case)} if spark.conf.isModifiable(ASOF_JOIN[0]) else {}


def keyed_cases(spark: SparkSession, data: Path, rows: int, keys: int, tasks: int) -> dict[str, tuple[int, Case]]:
    """Give what is measured on so many keys."""

    def side(seed: int) -> DataFrame:
        return spark.read.parquet(write_ticks(data, rows, keys, seed))

    window = Window.partitionBy("key").orderBy("ts")
    lag = F.col("price") - F.lag("price").over(window)

    def run(query: Callable[..., tl.Stream], frames: object, **how: object) -> DataFrame:
        return ts.run(query, frames, time="ts", key="key", partitions=tasks, **how)

    def direct(query: Callable[..., tl.Stream], seeds: dict[str, int] | int, **how: object) -> DataFrame:
        def scan(seed: int) -> object:
            return ts.scan_parquet(spark, write_ticks(data, rows, keys, seed), time="ts")

        scans = scan(seeds) if isinstance(seeds, int) else {side: scan(seed) for side, seed in seeds.items()}
        return ts.run(query, scans, key="key", **how)

    name = f"{keys:,} keys"
    few = rows // 10

    def joined() -> DataFrame:
        one, two = (spark.read.parquet(write_ticks(data, few, keys, seed)) for seed in (2, 3))
        return spark_asof(one, two)

    others = asof_join(spark, f"as-of, {name}, Spark SQL's ASOF JOIN", few, joined)
    if keys == FEW_KEYS:
        others[f"z-score, {name}, no look for skew"] = (rows, lambda: run(zscore, side(2), skew=None))
        others[f"as-of, {name}, cogroup"] = (2 * rows, lambda: grouped_asof(side(2), side(3), tasks))
    if tempo is not None:

        def series(seed: int) -> Any:  # noqa: ANN401
            some = spark.read.parquet(write_ticks(data, few, keys, seed))
            return tempo.TSDF(some, ts_col="ts", partition_cols=["key"])

        others[f"as-of, {name}, dbl-tempo"] = (2 * few, lambda: series(2).asofJoin(series(3)).df)
    return {
        f"diff, {name}": (rows, lambda: run(lambda x: x["price"].diff(), side(2))),
        f"diff, {name}, direct Parquet": (rows, lambda: direct(lambda x: x["price"].diff(), 2, partitions=tasks)),
        f"diff, {name}, Spark SQL": (rows, lambda: side(2).select("ts", "key", lag)),
        f"z-score, {name}": (rows, lambda: run(zscore, side(2))),
        f"z-score, {name}, direct Parquet": (rows, lambda: direct(zscore, 2)),
        f"z-score, {name}, Spark SQL": (rows, lambda: sql_zscore(side(2))),
        f"as-of, {name}": (2 * rows, lambda: run(asof, {"left": side(2), "right": side(3)})),
        f"as-of, {name}, direct Parquet": (2 * rows, lambda: direct(asof, {"left": 2, "right": 3})),
        f"as-of, {name}, Spark SQL": (2 * rows, lambda: sql_asof(side(2), side(3))),
        **others,
    }


def accompanied(frame: DataFrame) -> DataFrame:
    """Give the rows as they are, and run the trend on those of each partition: what that costs is the engine."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = []
        for batch in batches:
            held.append(batch.select(["ts", "price"]))
            yield batch
        rows = pa.Table.from_batches(held)
        trend(tl.stream(rows, time="ts")).collect(threads=1, progress=False)

    return frame.mapInArrow(run, frame.schema)
