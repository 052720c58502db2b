"""Measure queries on Spark against an identity pass and Spark SQL's own way.

    python -m benches.spark [--rows 20000000] [--only NAME] [--report]

Every case writes to nowhere. The CPU time is that of all processes below this one: the JVM and the Python workers.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
import tilt.spark as ts

GROUP = 1 << 18
"""Rows of a row group."""
REPORT = Path(__file__).parents[2] / "docs" / "benchmarks_spark.md"
Case = Callable[[], DataFrame]


def cpu_seconds() -> float:
    """Give the CPU time of all processes that descend from this one."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def descends(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return sum(seconds for pid, seconds in used.items() if descends(pid))


def write_ticks(path: Path, rows: int, keys: int, seed: int) -> str:
    """Write rows in order of time, about a hundred a second, some files of them."""
    target = path / f"{rows}-{keys}-{seed}"
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


def sql_asof(left: DataFrame, right: DataFrame) -> DataFrame:
    """Give the as-of join by a union and the last value that is not null."""
    both = left.withColumn("side", F.lit(1)).withColumn("other", F.lit(None).cast("double"))
    both = both.unionByName(right.select("ts", "price", "key", F.lit(0).alias("side"), F.col("price").alias("other")))
    window = Window.partitionBy("key").orderBy("ts", "side").rowsBetween(Window.unboundedPreceding, 0)
    return both.withColumn("other", F.last("other", ignorenulls=True).over(window)).where("side = 1").drop("side")


def cases(spark: SparkSession, data: Path, rows: int) -> dict[str, tuple[int, Case]]:
    """Give what is measured, by name: how many rows come in, and what to run."""
    found: dict[str, tuple[int, Case]] = {}
    slices = max(rows // 1_000_000, 4)
    path = write_ticks(data, rows, 10_000, 1)
    frame = spark.read.parquet(path)
    found["identity"] = (rows, lambda: frame.mapInArrow(lambda batches: batches, frame.schema))
    found["trend, slices"] = (rows, lambda: ts.run(trend, frame, time="ts", slices=slices))
    found["trend, slices, no ties"] = (
        rows,
        lambda: ts.run(trend, frame, time="ts", overlap="disjoint", slices=slices),
    )
    found["trend, direct Parquet"] = (
        rows,
        lambda: ts.run(trend, ts.scan_parquet(spark, path, time="ts"), slices=slices),
    )
    found["trend, ordered"] = (rows, lambda: ts.run(trend, frame, time="ts", ordered=True))
    # Range windows of Spark add up every frame anew, in one task if there is no key: more rows would take hours.
    few = rows // 20
    path_few = write_ticks(data, few, 10_000, 1)
    found["trend, Spark SQL"] = (few, lambda: sql_trend(spark.read.parquet(path_few), None))
    found["z-score, direct Parquet"] = (
        rows,
        lambda: ts.run(zscore, ts.scan_parquet(spark, path, time="ts"), slices=slices),
    )
    for keys in (10_000, 1_000_000):
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


def keyed_cases(spark: SparkSession, data: Path, rows: int, keys: int, tasks: int) -> dict[str, tuple[int, Case]]:
    """Give what is measured on so many keys."""

    def side(seed: int) -> DataFrame:
        return spark.read.parquet(write_ticks(data, rows, keys, seed))

    window = Window.partitionBy("key").orderBy("ts")
    lag = F.col("price") - F.lag("price").over(window)

    def run(query: Callable[..., tl.Stream], frames: object) -> DataFrame:
        return ts.run(query, frames, time="ts", key="key", partitions=tasks)

    name = f"{keys:,} keys"
    return {
        f"diff, {name}": (rows, lambda: run(lambda x: x["price"].diff(), side(2))),
        f"diff, {name}, Spark SQL": (rows, lambda: side(2).select("ts", "key", lag)),
        f"z-score, {name}": (rows, lambda: run(zscore, side(2))),
        f"z-score, {name}, Spark SQL": (rows, lambda: sql_zscore(side(2))),
        f"as-of, {name}": (2 * rows, lambda: run(asof, {"left": side(2), "right": side(3)})),
        f"as-of, {name}, Spark SQL": (2 * rows, lambda: sql_asof(side(2), side(3))),
    }


def measure(case: Case, times: int) -> tuple[float, float]:
    """Give the best seconds and CPU seconds of some runs."""
    found = []
    for _ in range(times):
        before, begun = cpu_seconds(), time.perf_counter()
        case().write.format("noop").mode("overwrite").save()
        found.append((time.perf_counter() - begun, cpu_seconds() - before))
    return min(seconds for seconds, _ in found), min(cpu for _, cpu in found)


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--report", action="store_true", help=f"store the table in {REPORT.name}")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    data = options.data or Path(tempfile.mkdtemp())
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    spark = builder.config("spark.log.level", "FATAL").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    # One file a partition, so that partitions are ranges of time.
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 27))
    ts.tune(spark)
    try:
        lines = [*table(spark, data, options.rows, options.times, options.only)]
    finally:
        spark.stop()
        if options.data is None:
            shutil.rmtree(data)
    if options.report:
        REPORT.write_text(TEXT.format(rows=options.rows, machine=machine(), table="\n".join(lines)), "utf-8")


def table(spark: SparkSession, data: Path, rows: int, times: int, only: str) -> list[str]:
    """Measure, and give the lines of a table."""
    lines = ["| case | rows | s | M rows/s | CPU s per M rows |", "|---|---|---|---|---|"]
    print(*lines, sep="\n")
    for name, (count, case) in cases(spark, data, rows).items():
        if only and only not in name:
            continue
        seconds, cpu = measure(case, times)
        million = count / 1e6
        lines.append(f"| {name} | {count:,} | {seconds:.1f} | {million / seconds:.2f} | {cpu / million:.2f} |")
        print(lines[-1], flush=True)
    return lines


def machine() -> str:
    """Say what this was measured on."""
    load = os.getloadavg()[1]
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, load {load:.1f}"


TEXT = """# Queries on Spark, measured

`make bench-spark` on {machine}; {rows:,} rows in Parquet, sorted by time, results written to
nowhere; the best of two runs. The CPU time is that of the JVM and of all Python workers together; the load is that of
the machine with everything else on it, so ratios say more than seconds.

{table}
"""

if __name__ == "__main__":
    main()
