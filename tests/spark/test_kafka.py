"""Streams from Kafka and to Kafka, with a real broker."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from broker import KAFKA, UnavailableError, broker, jars
from environments import OLDEST, long, spark_environment
from test_cluster import script

HERE = Path(__file__).parent


def connector() -> tuple[str, list[Path]]:
    """Give an interpreter with Spark, and the jars of the connector of that version: where they are published."""
    reasons = []
    for version in (pyspark.__version__, OLDEST):
        try:
            found = jars(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}")
        except UnavailableError as error:
            reasons.append(str(error))
            continue
        python = (
            sys.executable if version == pyspark.__version__ else str(spark_environment(version) / "bin" / "python")
        )
        return python, found
    raise UnavailableError("; ".join(reasons))


@long
def test_rows_come_from_kafka_and_results_go_there(tmp_path: Path) -> None:
    try:
        jars(KAFKA)
        python, found = connector()
    except UnavailableError as error:
        pytest.skip(str(error))
    # What Spark has itself must not be there twice.
    own = {"commons-pool2", "kafka-clients", "spark-sql-kafka-0-10_2", "spark-token-provider-kafka-0-10_2"}
    needed = [str(jar) for jar in found if any(jar.name.startswith(name) for name in own)]
    with broker(tmp_path / "broker") as kafka:
        done = script(str(HERE / "queued.py"), kafka.servers, ",".join(needed), str(tmp_path), python=python)
    assert done.stdout.strip().endswith("done"), done.stderr[-4000:]
