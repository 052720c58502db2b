"""Topics of Kafka as sources and sinks. They need ``pytilt[kafka]``."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Literal

from tilt.errors import FileError, StateError
from tilt.live.pipes import Reader, Writer
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

    from tilt.live.adapters import Position
    from tilt.live.pipes import Format

_MESSAGES = 1 << 12
"""Messages that are taken at once."""
_TIMEOUT = 60.0
"""Seconds after which a broker that does not answer is an error."""
_ATTEMPT = 5.0
"""Seconds after which a broker is asked again."""
_LOOK = 30.0
"""Seconds between two looks for new partitions."""
_ROWS = 1 << 10
"""Rows of a message as Arrow, so that it is no larger than brokers allow."""


def _confluent_kafka() -> Any:  # noqa: ANN401
    try:
        import confluent_kafka  # noqa: PLC0415
    except ModuleNotFoundError:
        message = "topics of Kafka need a client: pip install 'pytilt[kafka]'"
        raise ModuleNotFoundError(message) from None
    return confluent_kafka


class KafkaSource:
    """Rows of the messages of one or several topics, of which those of finished transactions count.

    A position is the next offset of each partition: it is kept with the run, and not as that of a group of consumers.
    Messages of one partition come in order, those of several do not: allow for that by ``lateness``.
    """

    def __init__(  # noqa: PLR0913
        self,
        servers: str,
        topics: str | Sequence[str],
        format: Literal["jsonl", "ipc"] = "jsonl",  # noqa: A002
        *,
        start: Literal["earliest", "latest"] = "earliest",
        follow: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Read topics.

        Parameters
        ----------
        servers
            Where to connect to, such as ``"localhost:9092"``.
        topics
            The name of a topic, or several.
        format
            What a message has: ``"jsonl"``, a JSON object (or some, a line each), or ``"ipc"``, an Arrow IPC stream.
        start
            Where a run begins that has no position yet: at the first message, or behind the last one.
        follow
            Whether to wait for more. Otherwise the stream ends with the messages that there are in the beginning.
        config
            Further settings of the client, as librdkafka calls them.

        """
        self.servers = servers
        self.topics = [topics] if isinstance(topics, str) else list(topics)
        self.format: Format = format
        self.start = start
        self.follow = follow
        self.config = dict(config or {})
        self.place = f"topic {', '.join(self.topics)}"

    def __repr__(self) -> str:
        return f"KafkaSource({self.servers!r}, {self.topics!r})"

    def read(self, position: Position, columns: Table | None) -> Iterator[tuple[object, Position]]:
        """Go through the rows.

        Raises
        ------
        FileError
            If a message has no rows, or one that comes next is not kept by the broker any more.
        ConnectionError
            If the broker refuses, or a topic is not there.

        """
        kafka = _confluent_kafka()
        settings = {
            **_connection(self.servers),
            # No group is joined, but the client wants a name.
            "group.id": f"tilt-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "enable.partition.eof": not self.follow,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
        offsets: dict[str, dict[str, int]] = {topic: dict(of) for topic, of in (position or {}).items()}
        consumer: Consumer = kafka.Consumer(settings | self.config)
        try:
            self._assign(consumer, offsets, self.start)
            looked = time.monotonic()
            left = {(topic, int(partition)) for topic, of in offsets.items() for partition in of}
            while left or self.follow:
                if time.monotonic() - looked > _LOOK and self.follow:
                    looked = time.monotonic()
                    # A broker that is away for a while comes back, or not: reading tells.
                    with contextlib.suppress(kafka.KafkaException):
                        self._assign(consumer, offsets, "earliest")
                messages = list(self._messages(consumer, left))
                for table, several in self._tables(messages, columns):
                    for topic, partition, offset in map(_place, several):
                        offsets[topic][str(partition)] = offset + 1
                    yield table, offsets
                if not messages:
                    yield None, offsets
        except kafka.KafkaException as error:
            raise ConnectionError(_told(error.args[0], self.place)) from error
        finally:
            consumer.close()

    def _messages(self, consumer: Consumer, left: set[tuple[str, int]]) -> Iterator[Message]:
        """Give the messages that are there, and take out of ``left`` the partitions that have no more."""
        kafka = _confluent_kafka()
        gone = (kafka.KafkaError._AUTO_OFFSET_RESET, kafka.KafkaError.OFFSET_OUT_OF_RANGE)
        # After these the client goes on by itself.
        passing = (kafka.KafkaError._ALL_BROKERS_DOWN, kafka.KafkaError._TRANSPORT, kafka.KafkaError._TIMED_OUT)
        for message in consumer.consume(_MESSAGES, 0.0):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                left.discard(_place(message)[:2])
            elif error.code() in gone:
                told = (
                    f"topic {message.topic()}, partition {message.partition()}: the messages that come next are not "
                    "kept any more; begin another run, and let the broker keep them for longer"
                )
                raise FileError(told)
            elif error.fatal() or not (error.retriable() or error.code() in passing):
                raise ConnectionError(_told(error, self.place))

    def _assign(self, consumer: Consumer, offsets: dict[str, dict[str, int]], start: str) -> None:
        """Read all partitions that there are, those that are new from where ``start`` says."""
        kafka = _confluent_kafka()
        has_news = not any(consumer.assignment())
        for topic in self.topics:
            found = consumer.list_topics(topic, _TIMEOUT).topics[topic]
            if found.error is not None:
                raise ConnectionError(_told(found.error, f"topic {topic}"))
            of = offsets.setdefault(topic, {})
            for partition in found.partitions:
                if str(partition) not in of:
                    place = kafka.TopicPartition(topic, partition)
                    low, high = consumer.get_watermark_offsets(place, _TIMEOUT)
                    of[str(partition)] = low if start == "earliest" else high
                    has_news = True
        if has_news:
            places: list[TopicPartition] = [
                kafka.TopicPartition(topic, int(partition), offset)
                for topic, of in offsets.items()
                for partition, offset in of.items()
            ]
            consumer.assign(places)

    def _tables(self, messages: list[Message], columns: Table | None) -> Iterator[tuple[Table | None, list[Message]]]:
        """Give the rows of messages, and which messages they are of."""
        if self.format == "jsonl" and messages:
            try:
                yield self._decoded([message.value() for message in messages], columns), messages
            except FileError:
                # One of them by itself says which it is.
                for message in messages:
                    self._table(message, columns)
                raise
        elif messages:
            for message in messages:
                yield self._table(message, columns), [message]

    def _table(self, message: Message, columns: Table | None) -> Table | None:
        try:
            return self._decoded([message.value()], columns)
        except FileError as error:
            told = "topic {}, partition {}, offset {}: {}".format(*_place(message), error)
            raise FileError(told) from None

    def _decoded(self, values: list[bytes | None], columns: Table | None) -> Table | None:
        # Messages without a value are for the broker.
        data = (b"\n" if self.format == "jsonl" else b"").join(value for value in values if value)
        reader = Reader(self.format, columns)
        tables = [*reader.decode(data), *reader.finish()] if data else []
        handles = [table._handle for table in tables if len(table)]
        return Table(type(handles[0]).joined(handles)) if handles else None


class KafkaSink:
    """A topic, in which each delivery is a transaction: readers that read what is committed see it once.

    The number of the last delivery is kept by the broker, as the offset of a group that is called as the sink: a
    delivery that comes again is known by it. Brokers forget it when it was not used for days
    (``offsets.retention.minutes``).
    """

    def __init__(  # noqa: PLR0913
        self,
        servers: str,
        topic: str,
        name: str,
        format: Literal["jsonl", "ipc"] = "jsonl",  # noqa: A002
        *,
        key: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Write to a topic.

        Parameters
        ----------
        servers
            Where to connect to, such as ``"localhost:9092"``.
        topic
            The name of the topic.
        name
            The name of this sink, which no other run has: its ``transactional.id``.
        format
            What a message has: ``"jsonl"``, one row as a JSON object, or ``"ipc"``, some rows as an Arrow IPC stream.
        key
            The column that has the keys of messages, if they are to have some: rows of one key are in one partition.
        config
            Further settings of the client, as librdkafka calls them.

        """
        if key is not None and format != "jsonl":
            message = "messages of several rows have no key; use format='jsonl'"
            raise ValueError(message)
        self.servers = servers
        self.topic = topic
        self.name = name
        self.format: Format = format
        self.key = key
        self.config = dict(config or {})
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._last = 0
        self._is_cut = False
        self._is_in_doubt = False

    def __repr__(self) -> str:
        return f"KafkaSink({self.servers!r}, {self.topic!r}, {self.name!r})"

    def open(self, position: Position) -> Position:
        """Go on after a delivery; what another process has begun and not finished is undone.

        Raises
        ------
        StateError
            If the broker does not know how far this sink was.
        ConnectionError
            If it refuses.

        """
        if position is None:
            self._connect(asks=False)
            self._deliver([], 0)
            return 0
        last = self._connect(asks=True)
        if last < position:
            self.close()
            message = (
                f"sink {self.name} of topic {self.topic} is at delivery {max(last, 0)} according to the "
                f"broker, but this run was at {position}; begin another run under another name"
            )
            raise StateError(message)
        self._last = last
        return position

    def _connect(self, *, asks: bool) -> int:
        """Connect, and give the number of the last delivery: as the broker says if it is asked, or else as is known."""
        kafka = _confluent_kafka()
        self._is_cut = False
        transactional = {"transactional.id": self.name, "error_cb": self._noticed}
        self._producer = kafka.Producer(_connection(self.servers) | transactional | self.config)
        try:
            self._producer.init_transactions(_TIMEOUT)
            if asks:
                return self._delivered()
        except kafka.KafkaException as error:
            self.close()
            raise ConnectionError(_told(error.args[0], f"sink {self.name}")) from error
        self._consumer = self._reader()
        return self._last

    def _reader(self) -> Consumer:
        group = {"group.id": self.name, "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer: Consumer = _confluent_kafka().Consumer(_connection(self.servers) | group | self.config)
        return consumer

    def _delivered(self) -> int:
        """Ask the broker for the number of the last delivery."""
        kafka = _confluent_kafka()
        until = time.monotonic() + _TIMEOUT
        while True:
            self._consumer = self._reader()
            try:
                (place,) = self._consumer.committed([kafka.TopicPartition(self.topic, 0)], _ATTEMPT)
            except kafka.KafkaException as error:
                if error.args[0].code() != kafka.KafkaError._TIMED_OUT or time.monotonic() > until:
                    raise
                # A client that asks a broker that has just come back may wait for an answer that never comes: a new
                # one asks again.
                self._consumer.close()
            else:
                return int(place.offset)

    def _noticed(self, error: KafkaError) -> None:
        del error
        self._is_cut = True

    def write(self, rows: Table, number: int) -> Position:
        """Write the rows of a delivery in a transaction, unless they are there."""
        if self._producer is not None:
            self._producer.poll(0)
        if self._is_cut:
            # A client that has lost its broker may wait for ever for the one that comes back.
            self.close()
            # What the broker has acknowledged needs no question, and one that was killed has been seen not to answer it
            # for a minute and more.
            self._last = self._connect(asks=self._is_in_doubt)
        if number < self._last:
            message = (
                f"topic {self.topic} has delivery {self._last} of sink {self.name} already, and this is {number}; "
                "the state of the run is an old copy"
            )
            raise StateError(message)
        if number > self._last:
            self._deliver(list(self._messages(rows)), number)
        return number

    def _messages(self, rows: Table) -> Iterator[tuple[bytes | None, bytes]]:
        if self.format == "jsonl":
            keys = [None] * len(rows) if self.key is None else rows[self.key]
            lines = Writer("jsonl").encode(rows).splitlines()
            for key, line in zip(keys, lines, strict=True):
                yield None if key is None else str(key).encode(), line
            return
        for begin in range(0, len(rows), _ROWS):
            writer = Writer("ipc")
            yield None, writer.encode(rows[begin : begin + _ROWS]) + writer.finish()

    def _deliver(self, messages: list[tuple[bytes | None, bytes]], number: int) -> None:
        kafka = _confluent_kafka()
        producer, consumer = self._producer, self._consumer
        if producer is None or consumer is None:
            message = "the sink is not open"
            raise StateError(message)
        until = time.monotonic() + _TIMEOUT
        self._is_in_doubt = True
        while True:
            try:
                producer.begin_transaction()
                for key, value in messages:
                    _produce(producer, self.topic, key, value)
                mark = kafka.TopicPartition(self.topic, 0, number)
                _bounded(producer.send_offsets_to_transaction, [mark], consumer.consumer_group_metadata(), _TIMEOUT)
                producer.commit_transaction(_TIMEOUT)
            except kafka.KafkaException as error:
                cause = error.args[0]
                if cause.fatal():
                    message = f"{_told(cause, f'sink {self.name}')}; is another run using this name?"
                    raise StateError(message) from error
                if not cause.txn_requires_abort() or time.monotonic() > until:
                    raise ConnectionError(_told(cause, f"sink {self.name}")) from error
                producer.abort_transaction(_TIMEOUT)
            else:
                self._last = number
                self._is_in_doubt = False
                return

    def close(self) -> None:
        """Close the connection."""
        consumer, self._consumer, self._producer = self._consumer, None, None
        if consumer is not None:
            consumer.close()


def _bounded(function: Callable[..., object], *args: object) -> None:
    """Call a function of the client whose own limit of time does not count while its broker is away."""
    done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def call() -> None:
        try:
            function(*args)
        except BaseException as error:  # noqa: BLE001
            done.put(error)
        else:
            done.put(None)

    threading.Thread(target=call, name="tilt-kafka", daemon=True).start()
    try:
        error = done.get(timeout=2 * _TIMEOUT)
    except queue.Empty:
        message = "the broker does not answer"
        raise ConnectionError(message) from None
    if error is not None:
        raise error


def _connection(servers: str) -> dict[str, Any]:
    # What the client logs below errors is about connections that it makes again by itself.
    return {"bootstrap.servers": servers, "log_level": 3}


def _produce(producer: Producer, topic: str, key: bytes | None, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:
            # Its queue is full: let some go.
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _place(message: Message) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()  # type: ignore[return-value]


def _told(error: Any, where: str) -> str:  # noqa: ANN401
    return f"{where}: {error.str()} ({error.name()})"
