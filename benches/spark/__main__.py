"""Measure queries on Spark against an identity pass and Spark SQL's own way.

    python -m benches.spark [--rows 20000000] [--only NAME] [--data DIRECTORY] [--report]

Every case writes to nowhere. The CPU time is that of all processes below this one: the JVM and the Python workers.
What is measured is kept with the data, so that cases can be measured one by one; the report is made of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

import tilt as tl
import tilt.spark as ts
from benches.spark.costs import fitted

try:
    # Measured where it installs.
    import tempo
except ImportError:
    tempo = None

GROUP = 1 << 18
"""Rows of a row group."""
REPORT = Path(__file__).parents[2] / "docs" / "benchmarks_spark.md"
DATA = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilt" / "spark"
WRITTEN = [(1, 10_000, 1), (100, 10_000, 1)]
WRITTEN += [(share, keys, seed) for keys in (10_000, 1_000_000) for seed in (2, 3) for share in (1, 10)]
"""Of the rows that are read: of how many there is one, keys and seeds."""
FEW_KEYS = 10_000
LONG = 60
"""A case that takes more seconds is run once."""
WARM = 5
"""Passes that are not measured."""
ACCOMPANIED = "identity, and trend on the way"
Case = Callable[[], DataFrame]


def cpu_seconds() -> dict[int, float]:
    """Give the CPU time of each process that descends from this one."""
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
        used[int(entry.name)] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def descends(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return {pid: seconds for pid, seconds in used.items() if descends(pid)}


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


def few_results(x: tl.Stream) -> tl.Stream:
    """Give a thousandth of the rows."""
    return x.filter(x["key"] < 10)  # noqa: PLR2004


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
    found["trend, slices, no ties"] = (
        rows,
        lambda: ts.run(trend, frame, time="ts", overlap="disjoint", slices=slices),
    )

    def direct(query: Callable[..., tl.Stream], number: int) -> DataFrame:
        return ts.run(query, ts.scan_parquet(spark, path, time="ts"), slices=number)

    found["trend, direct Parquet"] = (rows, partial(direct, trend, slices))
    for number in (2, 200):
        found[f"trend, direct Parquet, {number} slices"] = (rows, partial(direct, trend, number))
    found["trend, ordered"] = (rows, lambda: ts.run(trend, frame, time="ts", ordered=True))
    # Range windows of Spark add up every frame anew, in one task if there is no key: more rows would take hours.
    few = rows // 100
    path_few = write_ticks(data, few, 10_000, 1)
    found["trend, Spark SQL"] = (few, lambda: sql_trend(spark.read.parquet(path_few), None))
    found["z-score, slices"] = (rows, lambda: ts.run(zscore, frame, time="ts", slices=slices))
    found["z-score, direct Parquet"] = (rows, partial(direct, zscore, slices))
    found["direct Parquet, few results"] = (rows, partial(direct, few_results, slices))
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
    few = rows // 10
    return {
        "as-of, slices": (2 * rows, lambda: ts.run(asof, frames(rows), time="ts", slices=slices)),
        "as-of, direct Parquet": (2 * rows, direct),
        "as-of, Spark SQL": (2 * few, lambda: sql_asof(**frames(few), key=None)),
    }


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
    others = {}
    if keys == FEW_KEYS:
        others[f"as-of, {name}, cogroup"] = (2 * rows, lambda: grouped_asof(side(2), side(3), tasks))
    if tempo is not None:

        def series(seed: int) -> Any:  # noqa: ANN401
            some = spark.read.parquet(write_ticks(data, rows // 10, keys, seed))
            return tempo.TSDF(some, ts_col="ts", partition_cols=["key"])

        others[f"as-of, {name}, dbl-tempo"] = (2 * (rows // 10), lambda: series(2).asofJoin(series(3)).df)
    return {
        f"diff, {name}": (rows, lambda: run(lambda x: x["price"].diff(), side(2))),
        f"diff, {name}, direct Parquet": (rows, lambda: direct(lambda x: x["price"].diff(), 2, partitions=tasks)),
        f"diff, {name}, Spark SQL": (rows, lambda: side(2).select("ts", "key", lag)),
        f"z-score, {name}": (rows, lambda: run(zscore, side(2))),
        f"z-score, {name}, no look for skew": (rows, lambda: run(zscore, side(2), skew=None)),
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


def measure(case: Case, times: int) -> tuple[float, float]:
    """Give the best seconds and CPU seconds of some runs, of one if that takes long."""
    found: list[tuple[float, float]] = []
    while len(found) < times and not (found and found[0][0] > LONG):
        before, begun = cpu_seconds(), time.perf_counter()
        case().write.format("noop").mode("overwrite").save()
        # Workers that Spark ends because they are idle take nothing along that was used in between.
        used = sum(seconds - before.get(pid, 0) for pid, seconds in cpu_seconds().items())
        found.append((time.perf_counter() - begun, used))
    return min(seconds for seconds, _ in found), min(cpu for _, cpu in found)


def main() -> None:
    """Measure cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--only", action="append", help="measure cases whose name has this; may be given several times")
    parser.add_argument("--but", action="append", default=[], help="leave out cases whose name has this")
    parser.add_argument("--data", type=Path, default=DATA, help="where rows and measurements are kept")
    parser.add_argument("--prepare", action="store_true", help="write the rows, and measure nothing")
    parser.add_argument("--report", action="store_true", help=f"store all measurements in {REPORT.name}")
    options = parser.parse_args()
    if options.prepare:
        for share, keys, seed in WRITTEN:
            write_ticks(options.data, options.rows // share, keys, seed)
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    spark = builder.config("spark.log.level", "FATAL").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    # One file a partition, so that partitions are ranges of time.
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 27))
    ts.tune(spark)
    known = Measured(options.data / f"{options.rows}.json", {})
    if options.only or options.but:
        known = Measured.read(known.path)
    try:
        all_cases = cases(spark, options.data, options.rows)
        # What the JVM has not compiled yet is slow: the first case would pay for all.
        measure(all_cases["identity"][1], WARM)
        for name, (count, case) in all_cases.items():
            is_asked = options.only is None or any(part in name for part in options.only)
            if not is_asked or any(part in name for part in options.but):
                continue
            print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
            known.add(name, count, *measure(case, options.times))
            print(known.line(name), flush=True)
    finally:
        spark.stop()
    if options.report:
        table = "\n".join([HEAD, *(known.line(name) for name in known.cases)])
        bars = "\n".join(["| bar | found |", "|---|---|", *known.bars()])
        notes = REPORT.read_text("utf-8").partition(NOTES)[2]
        _, costs = fitted(known.cases)
        text = TEXT.format(rows=options.rows, machine=machine(), table=table, bars=bars, costs=costs)
        REPORT.write_text(text + NOTES + notes, "utf-8")


@dataclass(frozen=True)
class Measured:
    """What was measured, in a file."""

    path: Path
    cases: dict[str, dict[str, float]]

    @classmethod
    def read(cls, path: Path) -> Measured:
        """Read what was measured before."""
        return cls(path, json.loads(path.read_text()) if path.exists() else {})

    def add(self, name: str, rows: int, seconds: float, cpu: float) -> None:
        """Keep a measurement."""
        self.cases[name] = {"rows": rows, "seconds": seconds, "cpu": cpu, "load": os.getloadavg()[0]}
        self.path.write_text(json.dumps(self.cases, indent=1))

    def line(self, name: str) -> str:
        """Give a line of the table."""
        found = self.cases[name]
        million = found["rows"] / 1e6
        rate, cost = million / found["seconds"], found["cpu"] / million
        return f"| {name} | {found['rows']:,} | {found['seconds']:.1f} | {rate:.2f} | {cost:.2f} |"

    def bars(self) -> Iterator[str]:
        """Give the lines of a table of bars: CPU time for a row of one case by that of another."""
        for text, above, below in BARS:
            if above in self.cases and below in self.cases:
                one, other = (self.cases[name]["cpu"] / self.cases[name]["rows"] for name in (above, below))
                yield f"| {text} | {one / other:.2f} |"
            else:
                yield f"| {text} | not measured |"


SKEW = ("z-score, 10,000 keys", "z-score, 10,000 keys, no look for skew")
BARS = [
    ("an identity pass that runs the trend besides, by one that does not: ≤ 1.15", ACCOMPANIED, "identity"),
    ("trend without a key, Spark SQL by direct Parquet: ≥ 4", "trend, Spark SQL", "trend, direct Parquet"),
    ("trend without a key, our slices by direct Parquet: ≥ 2", "trend, slices", "trend, direct Parquet"),
    ("as-of without a key, Spark SQL by our slices", "as-of, Spark SQL", "as-of, slices"),
    ("as-of without a key, Spark SQL by direct Parquet", "as-of, Spark SQL", "as-of, direct Parquet"),
    *(
        (
            f"{query}, {keys} keys, Spark SQL by ours{how}: ≥ {bar}",
            f"{query}, {keys} keys, Spark SQL",
            f"{query}, {keys} keys{how}",
        )
        for keys, bar in (("10,000", 1.3), ("1,000,000", 2))
        for query in ("as-of", "diff", "z-score")
        for how in ("", ", direct Parquet")
    ),
    ("trend, 200 slices by 2: ≤ 1.1 and the halo's share", *(f"trend, {n} slices" for n in (200, 2))),
    ("the same of direct Parquet", *(f"trend, direct Parquet, {n} slices" for n in (200, 2))),
    ("z-score, 10,000 keys, by one that does not look for skew", *SKEW),
    ("as-of, 10,000 keys, cogroup by ours", "as-of, 10,000 keys, cogroup", "as-of, 10,000 keys"),
    ("as-of, 10,000 keys, dbl-tempo by ours", "as-of, 10,000 keys, dbl-tempo", "as-of, 10,000 keys"),
]
HEAD = "| case | rows | s | M rows/s | CPU s per M rows |\n|---|---|---|---|---|"


def machine() -> str:
    """Say what this was measured on."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, Spark {pyspark.__version__}"
    )


NOTES = "\n## Notes\n"
"""What is written by hand begins here."""
TEXT = """# Queries on Spark, measured

`make bench-spark` on {machine}; {rows:,} rows in Parquet, sorted by time, results written to
nowhere; the best of two runs, of one where that took more than a minute. The CPU time is that of the JVM and of all
Python workers together, so it says more than seconds where the machine has other things to do.

{table}

Bars, as ratios of CPU time for a row:

{bars}

Costs of [the model](scale.md) that fit these figures best, and what they make of them:

{costs}
"""

if __name__ == "__main__":
    main()
