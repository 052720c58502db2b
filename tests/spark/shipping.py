"""Ships tilt to executors that do not have it: as a library, as an archive, and as an artifact of a remote session.

    python tests/spark/shipping.py standalone | outdated | connect

`standalone` starts a master and two workers and runs a query with an interpreter that Spark unpacks from an archive,
with one that has no tilt on one of the workers, which must say so, and with one that has it installed, also where a
task is run a second time because it is slow. `outdated` starts a worker with this tilt and one with an earlier one,
which must be named. `connect` hands the archive to a session without a JVM here.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyspark
import pytest
from pyspark.sql import SparkSession

import tilt as tl
import tilt.spark as ts
from broker import free_ports
from conftest import settings
from environments import environment, here, with_tilt
from queries import ONE, ticks
from test_run import local, same
from test_streaming import distinct

HOME = Path(pyspark.__file__).parent
OWN = "../../python"
"""The interpreter of a worker, as its executors see it."""
EARLIER = "0.0.1"
"""A version that no driver has."""
REMOTE = ["pandas", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"]


@contextmanager
def cluster(directory: Path, pythons: list[Path]) -> Iterator[str]:
    """Run a master, and a worker for each interpreter, which is there by the name of :data:`OWN`.

    They have different hosts: a task is not tried a second time on its own.
    """
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    spark_class = str(HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number, python in enumerate(pythons, 1):
        work = directory / str(number)
        work.mkdir()
        # A link would be an interpreter without the packages that are beside the real one.
        (work / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        (work / "python").chmod(0o755)
        worker = ["-c", "1", "-m", "1g", "-d", str(work), "--host", f"127.0.0.{number}", "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", *worker, master])
    variables = os.environ | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOG_DIR": str(directory)}
    started = []
    logs = []
    for number, command in enumerate(commands):
        logs.append(directory / f"{number}.log")
        with logs[-1].open("w") as lines:
            whole = [spark_class, *command]
            started.append(subprocess.Popen(whole, env=variables, stdout=lines, stderr=lines, cwd=directory))
        if number == 0:
            awaited(logs)
    awaited(logs)
    try:
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def awaited(logs: list[Path]) -> None:
    """Wait until daemons say that they are ready."""
    for _ in range(600):
        if all(re.search("elected leader|Successfully registered", log.read_text()) for log in logs):
            return
        time.sleep(0.1)
    raise AssertionError("\n".join(log.read_text()[-2000:] for log in logs))


def check(spark: SparkSession, python: str | None = None) -> None:
    """Run a query, whose tasks use an interpreter."""
    if python is not None:
        spark.conf.set("spark.sql.execution.pyspark.python", python)
    table = ticks(np.random.default_rng(1), 200)
    with ts.errors():
        found = ts.run(ONE["zscore"], spark.createDataFrame(table), time="ts", slices=3).toArrow()
    same(found, local(ONE["zscore"], {"stream": table}))


def session(master: str, settled: dict[str, str]) -> SparkSession:
    """Begin a session on a cluster, which waits for all of its executors."""
    usual = {
        "driver.host": "127.0.0.1",
        "executor.memory": "1g",
        "scheduler.minRegisteredResourcesRatio": "1.0",
        # On a busy machine an executor takes longer than the half a minute that is waited for it.
        "scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    builder = settings(SparkSession.builder.master(master))
    for name, value in (usual | settled).items():
        builder = builder.config(f"spark.{name}", value)
    spark = builder.getOrCreate()
    ts.tune(spark)
    return spark


def standalone(master: str, bare: Path, full: Path, archive: Path) -> None:
    """Run a query whose tasks use one interpreter after the other."""
    os.environ |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": "./shipped/bin/python"}
    settled = {"archives": f"{archive}#shipped", "task.maxFailures": "1"}
    spark = session(master, settled)
    try:
        check(spark)
        with pytest.raises(ts.ShippingError, match=f"{bare}.*must be installed there"):
            check(spark, OWN)
        check(spark, str(full))
    finally:
        spark.stop()
    # In a session of its own: a copy of a task, on the worker that has all, might end before the task that has to fail.
    speculation = {"speculation": "true", "speculation.multiplier": "1.2", "speculation.quantile": "0.3"}
    spark = session(master, settled | speculation)
    try:
        check(spark, str(full))
        speculated(spark)
    finally:
        spark.stop()


def outdated(master: str, old: Path, full: Path) -> None:
    """Run a query where one of two workers has another version, and then with the right one."""
    os.environ |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": OWN}
    spark = session(master, {"task.maxFailures": "1"})
    try:
        where = rf"version {re.escape(EARLIER)} on executor {re.escape(platform.node())}, {re.escape(str(old))}"
        wanted = re.escape(tl.__version__)
        with pytest.raises(
            ts.ShippingError, match=f"^{where}, but {wanted} on the driver; pytilt=={wanted} must be installed there"
        ):
            check(spark)
        check(spark, str(full))
    finally:
        spark.stop()


def speculated(spark: SparkSession) -> None:
    """Run a query whose task is stuck, so that it is run a second time elsewhere: every row is written once."""
    table = distinct(ticks(np.random.default_rng(1), 200, nulls=0.0))
    with tempfile.TemporaryDirectory() as told:

        def stuck(value: float) -> float:
            import time  # noqa: PLC0415
            from pathlib import Path  # noqa: PLC0415

            from pyspark import TaskContext  # noqa: PLC0415

            context = TaskContext.get()
            if context is not None and context.partitionId() == 1:
                (Path(told) / str(context.attemptNumber())).touch()
                time.sleep(0 if context.attemptNumber() else 5)
            return value

        slow = tl.udf(stuck, args=[float], returns=float, name="stuck")
        query = lambda x: slow(x["price"])["-10s":].mean()  # noqa: E731
        job = ts.run(query, spark.createDataFrame(table), time="ts", slices=6)
        job.write.parquet(f"{told}/out")
        found = spark.read.parquet(f"{told}/out").toArrow().sort_by("ts")
        assert {path.name for path in Path(told).iterdir()} == {"0", "1", "out"}
    same(found, local(query, {"stream": table}))


def connect(bare: Path, archive: Path) -> None:
    """Run a query in a remote session, whose executors first have no tilt, and then that of an archive."""
    os.environ["PYSPARK_PYTHON"] = str(bare)
    builder = settings(SparkSession.builder.remote("local-cluster[1,1,1024]")).config("spark.executor.memory", "1g")
    spark = builder.getOrCreate()
    assert "connect" in type(spark).__module__
    ts.tune(spark)
    try:
        with pytest.raises(ts.ShippingError, match="must be installed there"):
            check(spark)
        spark.addArtifacts(f"{archive}#shipped", archive=True)
        check(spark, "shipped/bin/python")
    finally:
        spark.stop()


def main() -> None:
    """Try what is asked for."""
    # Executors would inherit it, and with it the tilt of the checkout.
    os.environ.pop("PYTHONPATH", None)
    needed = here("pyarrow", "numpy")
    bare = environment("bare", here("pyarrow", "numpy", *REMOTE)) / "bin" / "python"
    full = with_tilt(environment("full", [*needed, "venv-pack", "setuptools<81"])) / "bin" / "python"
    if sys.argv[1] == "outdated":
        old = with_tilt(environment("old", needed), EARLIER) / "bin" / "python"
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
            cluster(Path(name), [full, old]) as master,
        ):
            outdated(master, old, full)
        print("done")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        archive = directory / "full.tar.gz"
        pack = [str(full.parent / "venv-pack"), "-q", "--compress-level", "0", "-o", str(archive)]
        subprocess.run([*pack, "-p", str(full.parents[1])], check=True)
        if sys.argv[1] == "connect":
            connect(bare, archive)
        else:
            with cluster(directory, [full, bare]) as master:
                standalone(master, bare, full, archive)
    print("done")


if __name__ == "__main__":
    main()
