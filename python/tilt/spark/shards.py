"""What runs in executors for streams: rows into blobs, blobs through sessions, results out of blobs."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tilt.errors import CheckpointError, QueryError
from tilt.live import Session
from tilt.run import Query
from tilt.spark.task import as_integers, partition, telling, threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tilt.spark.plan import Bound
    from tilt.spark.task import QueryTask
    from tilt.streams import Stream

SHARD = "shard"
PACKED = pa.schema(
    [(SHARD, pa.int32()), ("input", pa.int32()), ("number", pa.int64()), ("blob", pa.binary())],
)
"""Rows of an input that belong to one shard; numbers are in the order in which rows stand in their data frame."""
STATE = pa.schema([("checkpoint", pa.binary()), ("last", pa.int64())])
"""A mark and the session of a shard, and the last end of its rows; of :data:`COUNT` nothing, and how many there are."""
_MARK = b"tilt shard "
FORMAT = b"2"
"""How keys are spread over shards, in a byte that changes with :func:`tilt.spark.frames.key_hash`."""
COUNT = -1
"""The shard that has no rows and knows how many others there are: every batch with rows asks it."""
TAKEN = pa.schema([("late", pa.int64()), ("results", pa.binary()), ("late_rows", pa.binary())])
"""What a push gave: how many rows were late, the results, and the late rows."""
LATE_ROWS = pa.struct([("input", pa.string()), ("fate", pa.string()), ("by", pa.int64()), ("row", pa.string())])
"""A late row: of which input, what became of it, by how many ticks it is late, and what it holds, as JSON."""
_KEPT_LATE = 1 << 16
"""How many late rows a session keeps until they are taken."""
_MILLISECOND = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""How many ticks so many milliseconds are."""


@dataclass(frozen=True)
class PackTask:
    """Turns rows into blobs."""

    input: int
    everywhere: tuple[int, ...] = ()
    """The shards that get all rows; those that the rows name, if there are none."""
    is_counted: bool = False
    """Whether :data:`COUNT` is asked."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a blob for each shard and batch."""
        first = partition() << 33
        for number, batch in enumerate(batches):
            shards = np.asarray(batch.column(SHARD))
            rows = batch.drop_columns([SHARD])
            if self.everywhere:
                found = dict.fromkeys(self.everywhere, rows)
            else:
                order = np.argsort(shards, kind="stable")
                names, starts = np.unique(shards[order], return_index=True)
                parts = np.split(order, starts[1:])
                found = {int(name): rows.take(pa.array(part)) for name, part in zip(names, parts, strict=True)}
            blobs = {name: blob([part]) for name, part in found.items()}
            if self.is_counted and number == 0:
                blobs[COUNT] = b""
            count = len(blobs)
            columns = [
                pa.array(list(blobs), pa.int32()),
                pa.array([self.input] * count, pa.int32()),
                pa.array([first + number] * count, pa.int64()),
                pa.array(list(blobs.values()), pa.binary()),
            ]
            yield pa.record_batch(columns, PACKED)


@dataclass(frozen=True)
class ShardTask:
    """Pushes the rows of a shard into its session."""

    query: QueryTask
    scales: tuple[int, ...]
    """How many ticks one step of each input's column of times is."""
    lateness: Mapping[str, Any]
    late: str
    numbers: tuple[int, ...] = (0,)
    """What stands for each shard in the column :data:`SHARD`."""
    stages: bytes | None = None
    """The query itself if it is computed in stages; :attr:`query` has the texts of all of them then."""

    def push(
        self, state: tuple[bytes, int] | None, packed: Sequence[tuple[int, int, bytes]], watermark: int, shard: int = 0
    ) -> tuple[tuple[bytes, int], dict[str, Any] | None]:
        """Give the state after rows of some inputs and Spark's watermark in milliseconds, and what came out."""
        if shard == COUNT:
            return self._counted(state), None
        if state is not None and not state[0].startswith(_MARK + FORMAT):
            message = (
                "the state of the stream is of a version of tilt that spread keys over shards in another way, so keys "
                "would lose what is held of them; take what it has not given with ts.rest, and start with a new "
                "checkpointLocation"
            )
            raise CheckpointError(message)
        session, last = self._session(state)
        known = _late_count(session)
        given = []
        late: list[tuple[str, pa.Table]] = []
        for at, _, rows in sorted(packed):
            one = self.query.inputs[at]
            table = pa.ipc.open_stream(rows).read_all()
            for first in range(0, max(len(table), 1), _KEPT_LATE):
                # Of more late rows than a session keeps, some would only be counted.
                part = table.slice(first, _KEPT_LATE)
                with telling(self.query, {one.name: part}, lambda: [self._name(shard)]):
                    given.append(session.push(part, one.name))
                late.append((one.name, session.late(one.name).to_arrow()))
            last = max([last, *self._last(at, table)])
        if watermark > 0:
            # Before that, Spark has not seen any row.
            with telling(self.query, {}, lambda: [self._name(shard)]):
                given.append(session.advance(self._ticks(watermark)))
        late += [(one.name, session.late(one.name).to_arrow()) for one in self.query.inputs]
        count = _late_count(session) - known
        results = [batch for table in given for batch in self._results(table.to_arrow())]
        taken = None
        if results or count:
            taken = {"late": count, "results": blob(results) if results else None, "late_rows": _late_blob(late)}
        return (_MARK + FORMAT + session.checkpoint(), last), taken

    def _counted(self, state: tuple[bytes, int] | None) -> tuple[bytes, int]:
        """Refuse another number of shards than there were: keys would not find what is held of them."""
        number = len(self.numbers)
        if state is not None and state[1] != number:
            message = (
                f"the state of the stream has {state[1]} shards, but the query {number}, so keys would lose what is "
                f"held of them; give shards={state[1]}, or start with a new checkpointLocation"
            )
            raise CheckpointError(message)
        return b"", number

    def _name(self, shard: int) -> str:
        return f"shard {self.numbers.index(shard)} of {len(self.numbers)}"

    def close(self, checkpoint: bytes, last: int) -> list[pa.RecordBatch]:
        """Give what is left of a session if its input ends, at ``last``, however its keys were spread."""
        session, _ = self._session((checkpoint, last))
        with telling(self.query, {}, list):
            given = [session.advance(last), session.close()]
        return [batch for table in given for batch in self._results(table.to_arrow())]

    def _session(self, state: tuple[bytes, int] | None) -> tuple[Session, int]:
        self.query.prepare()
        query = self._compiled()
        if state is not None:
            skipped = len(_MARK + FORMAT) if state[0].startswith(_MARK) else 0
            return Session.restore(query, state[0][skipped:], threads=threads()), state[1]
        options: dict[str, Any] = {"late": self.late}
        if self.stages is None:
            # Those of stages know it themselves.
            options["time"] = {one.name: one.events.times for one in self.query.inputs}
        session = query.session(
            **options,
            lateness=dict(self.lateness),
            layout=self.query.layout,
            threads=threads(),
        )
        return session, -(1 << 62)

    def _compiled(self) -> Query | Stream:
        return compiled(self.query.text) if self.stages is None else unpickled(self.stages)

    def _last(self, at: int, table: pa.Table) -> list[int]:
        """Give the last end of rows, in ticks."""
        times = self.query.inputs[at].events.times
        ends = table.column(times if isinstance(times, str) else times[1]).drop_null()
        return [int(as_integers(ends).max()) * self.scales[at]] if len(ends) else []

    def _ticks(self, milliseconds: int) -> int:
        query = self._compiled()
        times, parts = _MILLISECOND[query.program.unit if isinstance(query, Query) else query._handle.unit]
        return milliseconds * times // parts

    def _results(self, table: pa.Table) -> list[pa.RecordBatch]:
        if table.num_rows == 0:
            return []
        return table.rename_columns(self.query.schema.names).cast(self.query.schema).to_batches()  # type: ignore[no-any-return]


def shard_task(
    bound: Bound, lateness: Mapping[str, Any], late: str, imports: tuple[str, ...], numbers: tuple[int, ...] = (0,)
) -> ShardTask:
    """Give the task of a query."""
    scales = tuple(bound.scale(name) for name in bound.inputs)
    return ShardTask(bound.task(imports), scales, dict(lateness), late, numbers, bound.stages)


@dataclass(frozen=True)
class UnpackTask:
    """Turns what pushes gave into rows."""

    schema: pa.Schema
    late_rows: bool
    """Whether late rows are among them."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give results, and late rows if there is a column for them."""
        for batch in batches:
            for taken in batch.to_pylist():
                yield from rows_of(taken, self.schema, late_rows=self.late_rows)


def with_late(schema: pa.Schema) -> pa.Schema:
    """Give the columns of results, and one that has late rows among them."""
    if "late" in schema.names:
        message = "the query has a column `late` of its own, and late_rows=True gives late rows in one; rename it"
        raise QueryError(message)
    return schema.append(pa.field("late", LATE_ROWS))


def rows_of(taken: Mapping[str, Any], schema: pa.Schema, *, late_rows: bool) -> Iterator[pa.RecordBatch]:
    """Give the results of a push, and its late rows if there is a column for them."""
    if taken["results"] is not None:
        yield from widened(pa.ipc.open_stream(taken["results"]), schema)
    if late_rows and taken["late_rows"] is not None:
        yield from widened(pa.ipc.open_stream(taken["late_rows"]), schema)


@dataclass(frozen=True)
class RestTask:
    """Ends the sessions of shards."""

    task: ShardTask
    schema: pa.Schema

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give what they have not given yet."""
        for batch in batches:
            for checkpoint, last in zip(*(batch.column(name).to_pylist() for name in STATE.names), strict=True):
                yield from widened(self.task.close(checkpoint, last), self.schema)


@lru_cache(maxsize=16)
def compiled(text: str) -> Query:
    """Give a query, compiled once in a worker."""
    return Query(text)


@lru_cache(maxsize=16)
def unpickled(stages: bytes) -> Stream:
    """Give a query in stages: only when what it calls is registered."""
    return pickle.loads(stages)  # type: ignore[no-any-return]  # noqa: S301


def blob(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Give batches of one schema as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def widened(
    batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Give batches with all columns of a schema, those that they do not have without values."""
    for batch in batches:
        columns = [
            batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
        yield pa.record_batch(columns, schema)


def _late_count(session: Session) -> int:
    """Count the rows of a session that were late, of which it keeps only the last ones."""
    streams = session.status().streams.values()
    return sum(stream.dropped + stream.adjusted + stream.overlapping for stream in streams)


def _late_blob(late: Sequence[tuple[str, pa.Table]]) -> bytes | None:
    """Give late rows as a column of records."""
    found = []
    for name, table in late:
        for row in table.to_pylist():
            fate, by = row.pop("late"), row.pop("late_by")
            text = json.dumps(row, default=str)
            found.append({"input": name, "fate": fate, "by": by, "row": text})
    if not found:
        return None
    return blob([pa.record_batch([pa.array(found, LATE_ROWS)], ["late"])])
