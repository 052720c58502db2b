"""A Kafka broker on this machine, for tests: one node that is its own controller, from Kafka's published jars.

    python tests/kafka/broker.py        runs one until it is interrupted

Jars are fetched once into a cache outside of the checkout: by Maven if there is one, as it knows the mirrors of the
machine, or by the Ivy that Spark has.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tilt</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>
<groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>
</dependency></dependencies></project>"""
_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
num.partitions={partitions}
auto.create.topics.enable=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
"""


class UnavailableError(Exception):
    """Something that a broker needs cannot be had here."""


def cache() -> Path:
    """Give the directory that keeps what tests fetch."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilt"


def jars(coordinates: str) -> list[Path]:
    """Give the jars of ``group:artifact:version`` and of all that it needs, fetched if they are not there yet.

    Raises
    ------
    UnavailableError
        If there is no Java, or the jars cannot be fetched.

    """
    if shutil.which("java") is None:
        message = "there is no Java"
        raise UnavailableError(message)
    kept = cache() / "jars" / coordinates.replace(":", "-")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as name:
            fetched = Path(name) / "jars"
            fetched.mkdir()
            _fetch(coordinates, fetched)
            try:
                fetched.rename(kept)
            except OSError:
                # Somebody else was faster.
                if not kept.exists():
                    raise
    return sorted(kept.glob("*.jar"))


def _fetch(coordinates: str, into: Path) -> None:
    group, artifact, version = coordinates.split(":")
    told = []
    for command in _fetchers(group, artifact, version, into):
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        if done.returncode == 0 and any(into.glob(f"{artifact}-*.jar")):
            return
        said = re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr).splitlines()
        told += [next((line for line in said if "ERROR" in line or "not found" in line), "no reason given").strip()]
    message = f"{coordinates} cannot be fetched: {'; '.join(told)[:500]}"
    raise UnavailableError(message)


def _fetchers(group: str, artifact: str, version: str, into: Path) -> Iterator[list[str]]:
    if shutil.which("mvn") is not None:
        pom = into.parent / "pom.xml"
        pom.write_text(_POM.format(group, artifact, version))
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={into}", "-DincludeScope=runtime"]
        yield ["mvn", "-q", "-B", "-f", str(pom), *copy]
    if importlib.util.find_spec("pyspark") is not None:
        import pyspark  # noqa: PLC0415

        (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
        names = f"{into}/[artifact]-[revision].[ext]"
        what = ["-confs", "default", "-dependency", group, artifact, version, "-types", "jar", "bundle"]
        yield ["java", "-jar", str(ivy), "-cache", str(into.parent / "ivy"), *what, "-retrieve", names]


class Broker:
    """A broker that keeps its data in a directory, so that it may be stopped, or killed, and started again."""

    def __init__(self, directory: Path, *, partitions: int = 2) -> None:
        self.directory = directory
        self.port, controller = free_ports(2)
        self._classes = os.pathsep.join(map(str, jars(KAFKA)))
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._settings = directory / "server.properties"
        logs = directory / "logs"
        text = _SERVER.format(port=self.port, controller=controller, logs=logs, partitions=partitions)
        self._settings.write_text(text)
        # Names a cluster: 16 bytes in base 64, and no more than that.
        identity = "dGlsdC10ZXN0cy10aWx0MQ"
        command = self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings))
        subprocess.run(command, check=True, capture_output=True, cwd=directory)

    @property
    def servers(self) -> str:
        """Where clients connect to: ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def _java(self, *arguments: str) -> list[str]:
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._classes, *arguments]

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self.directory / "broker.log").open("ab") as log:
            command = self._java("kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        # A machine that is busy otherwise takes minutes.
        for _ in range(1800):
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        message = f"the broker does not start: {(self.directory / 'broker.log').read_text()[-2000:]}"
        raise RuntimeError(message)

    def stop(self) -> None:
        """Stop in good order."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """Stop at once, as a machine that fails."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def broker(directory: Path, *, partitions: int = 2) -> Iterator[Broker]:
    """Run a broker that makes topics when they are first used, with so many partitions."""
    running = Broker(directory, partitions=partitions)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, broker(Path(place)) as running:
        print(running.servers, flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()
