"""Topics of a real broker as sources and sinks."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest

import tilt as tl
from broker import Broker, UnavailableError, broker
from tilt.live import KafkaSink, KafkaSource, Runner
from tilt.live.pipes import Writer

kafka = pytest.importorskip("confluent_kafka")
Format: TypeAlias = Literal["jsonl", "ipc"]
_names = (f"topic-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        with broker(tmp_path_factory.mktemp("kafka") / "broker") as found:
            yield found
    except UnavailableError as error:
        pytest.skip(f"no broker of Kafka can be started here: {error}")


def made(running: Broker, partitions: int = 1) -> str:
    """Make a topic."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

    name = next(_names)
    admin = AdminClient({"bootstrap.servers": running.servers})
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result()
    return name


def produced(running: Broker, topic: str, *messages: tuple[int, bytes | None]) -> None:
    producer = kafka.Producer({"bootstrap.servers": running.servers})
    for partition, value in messages:
        producer.produce(topic, value, partition=partition)
    producer.flush()


def line(t: int) -> bytes:
    return json.dumps({"t": t, "x": t / 2}).encode()


def arrow(*times: int) -> bytes:
    writer = Writer("ipc")
    return writer.encode(tl.Table({"t": list(times), "x": [t / 2 for t in times]})) + writer.finish()


def read(
    running: Broker,
    topic: str,
    format_: Format = "jsonl",
    position: object = None,
    **options: Any,  # noqa: ANN401
) -> tuple[list[Any], Any]:
    """Give all rows that there are, and where they end."""
    found: list[Any] = []
    for rows, after in KafkaSource(running.servers, topic, format_, follow=False, **options).read(position, None):
        found += [] if rows is None else rows.to_pylist()  # type: ignore[attr-defined]
        position = after
    return found, json.loads(json.dumps(position))


def total() -> tl.Stream:
    return tl.source("s", {"t": "i64", "x": "f64"}, time="t", overlap="bag")["x"].window(10).sum()


def expected(*times: int) -> list[dict[str, Any]]:
    rows = sorted(times)
    return total().run(s={"t": rows, "x": [t / 2 for t in rows]}).to_pylist()


def caught_up(runner: Runner, rows: int) -> None:
    """Let a run go on until it has so many rows."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        runner.step()
        status = runner.status().session
        if status is not None and status.streams["s"].accepted == rows:
            return
        time.sleep(0.002)
    message = f"{rows} rows do not come"
    raise AssertionError(message)


@pytest.mark.parametrize("format_", ["jsonl", "ipc"])
def test_messages_are_rows(running: Broker, format_: Format) -> None:
    topic = made(running, 2)
    values = [line(1), line(2) + b"\n" + line(3)] if format_ == "jsonl" else [arrow(1), arrow(2, 3)]
    produced(running, topic, (0, values[0]), (1, values[1]), (0, None))
    rows, position = read(running, topic, format_)
    assert sorted(row["t"] for row in rows) == [1, 2, 3]
    assert position == {topic: {"0": 2, "1": 1}}
    produced(running, topic, (0, line(4) if format_ == "jsonl" else arrow(4)))
    rows, position = read(running, topic, format_, position)
    assert [row["t"] for row in rows] == [4]
    assert read(running, topic, format_, position)[0] == []
    assert read(running, topic, format_, start="latest")[0] == []


@pytest.mark.parametrize("format_", ["jsonl", "ipc"])
def test_a_run_between_topics_goes_on(running: Broker, tmp_path: Path, format_: Format) -> None:
    source, sink = made(running, 2), made(running)
    times = list(range(40))
    for begin in range(0, 40, 10):
        produced(
            running, source, *((t % 2, line(t) if format_ == "jsonl" else arrow(t)) for t in times[begin : begin + 10])
        )
        with Runner(
            total(),
            KafkaSource(running.servers, source, format_),
            KafkaSink(running.servers, sink, f"{sink}-run", format_),
            tmp_path,
            every=0,
            lateness=20,
        ) as runner:
            caught_up(runner, begin + 10)
    with Runner(
        total(),
        KafkaSource(running.servers, source, format_, follow=False),
        KafkaSink(running.servers, sink, f"{sink}-run", format_),
        tmp_path,
        lateness=20,
    ) as runner:
        runner.run()
    assert read(running, sink, format_)[0] == expected(*times)


def test_deliveries_come_once(running: Broker) -> None:
    topic = made(running)
    rows = tl.Table({"t": [1, 2], "x": [0.5, 1.0]})
    sink = KafkaSink(running.servers, topic, f"{topic}-a", key="t")
    assert sink.open(None) == 0
    assert sink.write(rows, 3) == 3
    sink.close()
    # The state says that the third was perhaps not delivered.
    sink = KafkaSink(running.servers, topic, f"{topic}-a", key="t")
    assert sink.open(0) == 0
    assert sink.write(rows, 3) == 3
    assert sink.write(rows[:1], 5) == 5
    with pytest.raises(tl.StateError, match="an old copy"):
        sink.write(rows, 4)
    sink.close()
    assert [row["t"] for row in read(running, topic)[0]] == [1, 2, 1]
    with pytest.raises(tl.StateError, match="is at delivery 5 according to the broker"):
        KafkaSink(running.servers, topic, f"{topic}-a").open(6)
    with pytest.raises(tl.StateError, match="is at delivery 0 according to the broker"):
        KafkaSink(running.servers, topic, f"{topic}-b").open(6)


def test_who_was_replaced_cannot_write(running: Broker) -> None:
    topic = made(running)
    rows = tl.Table({"t": [1], "x": [0.5]})
    old, new = (KafkaSink(running.servers, topic, f"{topic}-a") for _ in range(2))
    old.open(None)
    new.open(None)
    with pytest.raises(tl.StateError, match="another run using this name"):
        old.write(rows, 1)
    new.write(rows, 1)
    old.close()
    new.close()
    assert len(read(running, topic)[0]) == 1


def test_what_cannot_be_read_is_told(running: Broker) -> None:
    topic = made(running)
    produced(running, topic, (0, line(1)), (0, b"nonsense"))
    with pytest.raises(tl.FileError, match=f"topic {topic}, partition 0, offset 1: "):
        read(running, topic)
    with pytest.raises(tl.FileError, match=f"topic {topic}, partition 0, offset 0: "):
        read(running, topic, "ipc")
    with pytest.raises(ConnectionError, match=r"topic nowhere: .*UNKNOWN_TOPIC"):
        read(running, "nowhere")
    with pytest.raises(tl.FileError, match="not kept any more"):
        read(running, topic, position={topic: {"0": 99}})
    with pytest.raises(ValueError, match="no key"):
        KafkaSink(running.servers, topic, "a", "ipc", key="t")


CHILD = """
import sys, tilt as tl
servers, source, sink, state, follow = sys.argv[1:]
query = tl.source("s", {"t": "i64", "x": "f64"}, time="t", overlap="bag")["x"].window(10).sum()
tl.live.Runner(
    query,
    tl.live.KafkaSource(servers, source, follow=follow == "follow"),
    tl.live.KafkaSink(servers, sink, sink + "-run"),
    state,
    every=0,
    lateness=50,
    on_commit=lambda status: print(status.commits, flush=True),
).run()
"""


def test_what_is_killed_goes_on_and_loses_nothing(running: Broker, tmp_path: Path) -> None:
    source, sink = made(running, 2), made(running)
    chance = random.Random(5)  # noqa: S311
    command = [sys.executable, "-c", CHILD, running.servers, source, sink, str(tmp_path)]
    times = list(range(300))
    for life in range(6):
        process = subprocess.Popen([*command, "follow"], stdout=subprocess.PIPE)  # noqa: S603
        assert process.stdout is not None
        for t in times[life * 50 : life * 50 + 50]:
            produced(running, source, (t % 2, line(t)))
            if t % 50 == 5:
                process.stdout.readline()
        time.sleep(chance.random() * 0.05)
        process.kill()
        process.wait()
        process.stdout.close()
    subprocess.run([*command, "end"], check=True, stdout=subprocess.DEVNULL, timeout=120)  # noqa: S603
    assert read(running, sink)[0] == expected(*times)


def test_a_broker_that_is_restarted_is_waited_for(running: Broker, tmp_path: Path) -> None:
    source, sink = made(running), made(running)
    produced(running, source, *((0, line(t)) for t in range(20)))
    reading = KafkaSource(running.servers, source)
    with Runner(total(), reading, KafkaSink(running.servers, sink, f"{sink}-run"), tmp_path, every=0) as runner:
        caught_up(runner, 20)
        running.kill()
        assert not runner.step()
        running.start()
        produced(running, source, *((0, line(t)) for t in range(20, 40)))
        caught_up(runner, 40)
    ended = KafkaSource(running.servers, source, follow=False)
    Runner(total(), ended, KafkaSink(running.servers, sink, f"{sink}-run"), tmp_path).run()
    assert read(running, sink)[0] == expected(*range(40))
