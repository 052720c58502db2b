"""A stream on a cluster of two executors, which tests kill.

    python tests/spark/streamed.py DIRECTORY

Reads ``DIRECTORY/in`` a file at a time until there is no more, keeps its state in ``state`` and writes to ``out``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tilt.spark as ts
from conftest import settings
from queries import KEYED

HOW = {"time": "ts", "key": "sym", "lateness": "5s", "shards": 2}
QUERY = KEYED["zscore"]
SCHEMA = "ts timestamp, price double, size bigint, sym string"


def source(spark: SparkSession, directory: Path) -> DataFrame:
    """Give the rows that come."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory / "in"))


def main() -> None:
    """Run the stream."""
    directory = Path(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = settings(SparkSession.builder.master("local-cluster[2,1,1024]"))
    builder = builder.config("spark.executor.memory", "1g").config("spark.sql.shuffle.partitions", "2")
    spark = builder.getOrCreate()
    ts.tune(spark)
    stream = ts.run_stream(QUERY, source(spark, directory), **HOW)
    writer = stream.writeStream.option("checkpointLocation", str(directory / "state")).trigger(availableNow=True)
    with ts.errors():
        writer.start(str(directory / "out"), format="parquet").awaitTermination()
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
