"""A stream from Kafka and to Kafka, by Spark's own connector.

python tests/spark/queued.py SERVERS JAR,JAR,... DIRECTORY
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tilt.spark as ts
from conftest import settings
from queries import KEYED, ticks
from test_run import by_time_and_key, local, same
from test_streaming import distinct


def main() -> None:
    """Write rows to a topic, run a query from it to another, read that."""
    servers, jars, directory = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = settings(SparkSession.builder.master("local[2]")).config("spark.jars", jars).getOrCreate()
    ts.tune(spark)
    table = distinct(ticks(np.random.default_rng(8), 400))
    frame = spark.createDataFrame(table)
    json = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    # In their order: rows of one partition of the topic are as late as others are early.
    rows = frame.coalesce(1).select(F.col("sym").alias("key"), json.alias("value"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "ticks").save()

    queue = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "ticks")
    queue = queue.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 40)
    parsed = queue.load().select(F.from_json(F.col("value").cast("string"), frame.schema).alias("row")).select("row.*")
    how = {"time": "ts", "key": "sym", "lateness": "80s", "shards": 2}
    query = KEYED["diff"]
    signals = ts.run_stream(query, parsed, **how)
    out = signals.select(F.col("sym").alias("key"), json.alias("value")).writeStream.format("kafka")
    out = out.option("kafka.bootstrap.servers", servers).option("topic", "signals")
    state = f"{directory}/state"
    with ts.errors():
        out.option("checkpointLocation", state).trigger(availableNow=True).start().awaitTermination()
    topic = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", "signals").load()
    assert topic.count() > 0
    rest = ts.rest(state, query, parsed, **how)
    more = rest.select(F.col("sym").alias("key"), json.alias("value"))
    more.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "signals").save()

    found = topic.select(F.from_json(F.col("value").cast("string"), signals.schema).alias("row")).select("row.*")
    expected = local(query, {"stream": table}, key="sym")
    whole: pa.Table = by_time_and_key(found.toArrow(), "sym")
    same(whole, expected)
    assert len(expected) > 100
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
