"""Ship tilt to a standalone cluster whose executors do not have it: as an archive, and as a library.

    python tests/spark/shipping.py

Starts a master and a worker, runs a query with an interpreter that has no tilt, which must say so, then with one that
Spark unpacks from an archive, then with one that has it installed. Takes a minute or two, so `make test` leaves it out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyspark
import pytest
from pyspark.sql import SparkSession

import tilt as tl
import tilt.spark as ts
from conftest import settings
from queries import ONE, ticks
from test_run import local, same

HOME = Path(pyspark.__file__).parent
MASTER = "spark://127.0.0.1:17077"


@contextmanager
def cluster(directory: Path) -> Iterator[None]:
    """Run a master and a worker with two cores."""
    environment = os.environ | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOG_DIR": str(directory)}
    spark_class = str(HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    commands = [
        [spark_class, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "17077", "--webui-port", "18077"],
        [spark_class, f"{deploy}.worker.Worker", "-c", "2", "-m", "2g", "-d", str(directory), MASTER],
    ]
    started = []
    with (directory / "cluster.log").open("w") as log:
        for command in commands:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=directory))
            time.sleep(10)
        try:
            yield
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(30)


def environment(directory: Path, *, has_tilt: bool) -> Path:
    """Make a virtual environment with what Spark needs, and tilt as its wheel installs it."""
    venv.create(directory, with_pip=True)
    needed = ["pyarrow", "numpy", "venv-pack", "setuptools<81"]
    subprocess.run([str(directory / "bin" / "pip"), "install", "--quiet", *needed], check=True)
    if has_tilt:
        (packages,) = (directory / "lib").glob("python*/site-packages")
        shutil.copytree(Path(tl.__file__).parent, packages / "tilt")
    return directory


def check(python: str, archive: str | None = None) -> None:
    """Run a query whose tasks use an interpreter."""
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = settings(SparkSession.builder.master(MASTER)).config("spark.executor.memory", "1g")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.pyspark.python", python)
    if archive is not None:
        builder = builder.config("spark.archives", archive)
    spark = builder.getOrCreate()
    try:
        ts.tune(spark)
        table = ticks(np.random.default_rng(1), 200)
        with ts.errors():
            found = ts.run(ONE["zscore"], spark.createDataFrame(table), time="ts", slices=3).toArrow()
        same(found, local(ONE["zscore"], {"stream": table}))
    finally:
        spark.stop()


def main() -> None:
    """Try all."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        bare = environment(directory / "bare", has_tilt=False)
        full = environment(directory / "full", has_tilt=True)
        archive = directory / "full.tar.gz"
        subprocess.run([str(full / "bin" / "venv-pack"), "-q", "-p", str(full), "-o", str(archive)], check=True)
        with cluster(directory):
            with pytest.raises(ts.ShippingError, match="must be installed there"):
                check(str(bare / "bin" / "python"))
            print("an executor without tilt says so")
            check(str(full / "bin" / "python"))
            print("as a library: done")
            check("./shipped/bin/python", f"{archive}#shipped")
            print("as an archive: done")


if __name__ == "__main__":
    main()
