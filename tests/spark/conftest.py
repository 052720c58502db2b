"""One Spark session for all tests that need no cluster of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tilt import spark as ts

os.environ["PYSPARK_PYTHON"] = sys.executable


def settings(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Keep Spark small and quiet."""
    quiet = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "FATAL",
    }
    for name, value in quiet.items():
        builder = builder.config(name, value)
    return builder


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = settings(SparkSession.builder.master("local[2]")).getOrCreate()
    ts.tune(session)
    yield session
    session.stop()
