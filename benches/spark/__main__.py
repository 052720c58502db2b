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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

import tilt.spark as ts
from benches.spark.cases import ACCOMPANIED, WRITTEN, Case, cases, write_ticks
from benches.spark.costs import fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORT = Path(__file__).parents[2] / "docs" / "benchmarks_spark.md"
DATA = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilt" / "spark"
LONG = 60
"""A case that takes more seconds is run once."""
WARM = 5
"""Passes that are not measured."""


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
    # What is written while a case is measured would be part of it.
    for share, *how in WRITTEN:
        write_ticks(options.data, options.rows // share, *how)
    if options.prepare:
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
    *(
        (f"{name}, Spark SQL's ASOF JOIN by ours", f"{name}, Spark SQL's ASOF JOIN", f"{name}{how}")
        for name, how in (("as-of", ", slices"), ("as-of, 10,000 keys", ""), ("as-of, 1,000,000 keys", ""))
    ),
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
