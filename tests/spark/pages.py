"""The examples of the README and of docs/spark.md, as somebody runs them who copies them.

    python tests/spark/pages.py classic | connect

Prints what each gives. What makes the data, the query and the session is in the README or said here.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conftest import settings
from queries import ticks
from tilt import spark as ts

ROOT = Path(__file__).parents[2]
ROWS = 20_000
QUEUED = "kafka"
"""What is in an example that needs a broker: :mod:`queued` runs that."""


def examples(page: str) -> list[str]:
    """Give the examples of a page."""
    return re.findall(r"^```py\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def main() -> None:
    """Run the examples."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (readme,) = examples("README.md")
    with tempfile.TemporaryDirectory() as directory:
        # Spark knows the directory that it is started in.
        os.chdir(directory)
        Path("ticks").mkdir()
        table = ticks(np.random.default_rng(1), ROWS, span=20_000, nulls=0.0)
        pq.write_table(table.rename_columns(["ts", "price", "size", "symbol"]), "ticks/day.parquet")
        builder = SparkSession.builder
        spark = settings(builder.remote("local[2]") if sys.argv[1] == "connect" else builder.master("local[2]"))
        known: dict[str, Any] = {"spark": spark.getOrCreate(), "F": F, "ts": ts}
        _run(readme, "README.md", known)
        for name in ("by_key", "unkeyed", "direct"):
            assert known[name].count() == ROWS
        known["frame"] = known["spark"].read.parquet("ticks")
        known["schema"] = known["frame"].schema
        for example in examples("docs/spark.md"):
            if QUEUED in example:
                continue
            _run(example, "docs/spark.md", known)
            for stream in known["spark"].streams.active:
                stream.processAllAvailable()
                stream.stop()
            if Path("signals").exists():
                written = known["spark"].read.parquet("signals").count()
                assert 0 < written <= ROWS
                print(f"wrote {written} rows")
                shutil.rmtree("signals")
        assert known["result"].count() == ROWS
        rest = ts.rest("state", known["signal"], known["ticks"], time="ts", key="symbol", lateness="10s").count()
        assert written + rest == ROWS
        known["spark"].stop()
    print("done")


def _run(example: str, page: str, known: dict[str, Any]) -> None:
    print(f"{page}: {example.strip().splitlines()[0]}")
    exec(compile(example, page, "exec"), known)  # noqa: S102


if __name__ == "__main__":
    main()
