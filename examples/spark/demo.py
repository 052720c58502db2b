"""Run the README's query on Spark: by key, by slices of the timeline, and on files that tasks read themselves.

python examples/spark/demo.py [rows]
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import tilt as tl
import tilt.spark as ts

README = Path(__file__).parents[2] / "README.md"


def ticks(rows: int) -> tl.Table:
    """Give a day of prices of twenty symbols."""
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, 86_400_000_000, rows)).astype("datetime64[us]")
    prices = 100 + np.cumsum(rng.normal(0, 0.01, rows))
    return tl.Table({"ts": times, "symbol": rng.choice([f"S{i}" for i in range(20)], rows), "price": prices})


def main() -> None:
    """Show how the work is cut, how long it takes, and what comes out."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    (code,) = re.findall(r"^```py\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    sized = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    with tempfile.TemporaryDirectory() as directory:
        # Spark knows the directory that it is started in.
        os.chdir(directory)
        Path("ticks").mkdir()
        ticks(rows).write_parquet("ticks/day.parquet")
        builder = SparkSession.builder.master("local[2]")
        for name, value in (quiet | sized).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        known: dict[str, Any] = {"spark": spark}
        exec(compile(code, str(README), "exec"), known)  # noqa: S102
        print(ts.explain(known["signal"], spark.read.parquet("ticks"), time="ts", slices=8).split("\n\n")[0], "\n")
        for name in ("by_key", "unkeyed", "direct"):
            begun = time.perf_counter()
            count = known[name].count()
            print(f"{name:<8} {count:,} rows in {time.perf_counter() - begun:.1f} s")
        known["unkeyed"].orderBy("ts").show(5)
        spark.stop()


if __name__ == "__main__":
    main()
