"""What runs in executors: a query on the rows of a partition."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tilt.errors import QueryError, TiltError
from tilt.run import Query
from tilt.sources import Events, Rows
from tilt.spark.cuts import FOREVER
from tilt.spark.hashing import hashes_of
from tilt.spark.packing import HEADER, NUMBER, OFFSETS, PLACE, TAG, unpacked
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tilt.run import Layout

AT_ONCE = 1 << 28
"""How many bytes of rows a query is run on at once by default, about: a slice that has more is cut further."""
_BATCH_ROWS = 1 << 16
_OTHER_BITS = 20
"""Keys of one place have hashes that are equal in what places are made of; those above these bits are not."""


@dataclass(frozen=True)
class TaskInput:
    """An input of the query."""

    name: str
    events: Events
    schema: pa.Schema
    """The columns that are read."""
    ties: tuple[str, ...] = ()
    """Columns by which rows with one time are ordered, before the order in which they stand."""


@dataclass(frozen=True)
class QueryTask:
    """A query, as text, and how to run it on a partition."""

    text: str
    inputs: tuple[TaskInput, ...]
    schema: pa.Schema
    """The columns of the result."""
    layout: Layout
    imports: tuple[str, ...] = ()
    """Modules that register functions which the query calls."""
    beside: Mapping[str, Rows] = field(default_factory=dict)
    """Inputs of the query that are no rows of the run."""
    memory: int = AT_ONCE
    """How many bytes of rows it is run on at once, about."""

    def prepare(self) -> None:
        """Import what registers functions."""
        for module in self.imports:
            try:
                importlib.import_module(module)
            except ImportError as error:
                message = f"imports= names `{module}`, which an executor cannot import ({error}); install it there"
                raise QueryError(message) from None

    def compute(
        self,
        rows: Mapping[str, pa.Table],
        *,
        span: tuple[int, int] | None = None,
        part: tuple[int, int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Run the query on rows of its inputs."""
        self.prepare()
        sources = {given.name: Rows(Table(rows[given.name]), given.events) for given in self.inputs}
        sources |= self.beside
        whole = part is None or part == (-FOREVER, FOREVER)
        with telling(self, rows, lambda: _slice(part, self.text)):
            result = Query(self.text).run(
                sources,
                threads=threads(),
                span=span,
                part=None if whole else part,
                layout=self.layout,
                progress=False,
            )
        table = result.to_arrow().rename_columns(self.schema.names).cast(self.schema)
        yield from table.to_batches(max_chunksize=_BATCH_ROWS)


@dataclass(frozen=True)
class PartitionTask:
    """Runs a query on places, one after the other, which hold all rows it needs, as blocks, and what slice they are.

    There are rows of keys that are whole, of a slice, or of both.
    """

    query: QueryTask

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the result of a partition."""
        for _, runs in groupby(_runs(batches), itemgetter(0)):
            yield from self._run(*_gathered(runs))

    def _run(self, header: dict[str, int], blocks: dict[int, list[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Give the result of a place."""
        span = (header["start"], header["end"]) if "start" in header else None
        inputs = len(self.query.inputs)
        everything = (-FOREVER, FOREVER)
        slice_ = (header.get("lo", -FOREVER), header.get("hi", FOREVER))
        for first, whole in ((0, everything), (inputs, slice_)):
            # A slice may have results where it has no rows; keys that are whole are those of rows.
            is_empty = not any(first + at in blocks for at in range(inputs))
            if is_empty and (first == 0 or "slice" not in header):
                continue
            rows = {
                given.name: _sorted(given, blocks.pop(first + at, [])) for at, given in enumerate(self.query.inputs)
            }
            for query, some, part in self.queries(rows, whole, header):
                yield from query.compute(some, span=span, part=part)

    def queries(
        self, rows: dict[str, pa.Table], whole: tuple[int, int], header: Mapping[str, int]
    ) -> Iterator[tuple[QueryTask, dict[str, pa.Table], tuple[int, int]]]:
        """Give what is run of a place: here the same query on each part."""
        del header
        for some, part in self.parts(rows, whole):
            yield self.query, some, part

    def parts(
        self, rows: dict[str, pa.Table], whole: tuple[int, int]
    ) -> Iterator[tuple[dict[str, pa.Table], tuple[int, int]]]:
        """Give what is run at once: some keys, if they have many rows together."""
        number = parts_of(rows, self.query.memory)
        if number <= 1 or all(given.events.key is None for given in self.query.inputs):
            yield rows, whole
            return
        of = {
            given.name: (hashes_of(rows[given.name].column(given.events.key).combine_chunks()) >> _OTHER_BITS) % number
            for given in self.query.inputs
            if given.events.key is not None
        }
        for part in range(number):
            # An input without a key is seen by all of them.
            some = {
                name: table.filter(pa.array(of[name] == part)) if name in of else table for name, table in rows.items()
            }
            if any(some[name].num_rows for name in of):
                yield some, whole


def parts_of(rows: Mapping[str, pa.Table], memory: int) -> int:
    """Give into how many parts rows are cut, so that each has about so many bytes."""
    size: int = sum(table.nbytes for table in rows.values())
    return -(-size // memory)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """Give blocks that have one place and tag and follow each other, and these."""
    for batch in batches:
        places, tags = (batch.column(name).to_numpy() for name in (PLACE, TAG))
        order = np.lexsort((tags, places))
        if not _increases(order):
            # Blocks of keys that are whole and of a slice come in turn.
            batch = batch.take(pa.array(order))  # noqa: PLW2901
            places, tags = places[order], tags[order]
        edges = np.flatnonzero((places[1:] != places[:-1]) | (tags[1:] != tags[:-1])) + 1
        for first, last in pairwise([0, *edges.tolist(), batch.num_rows]):
            if first < last:
                yield int(places[first]), int(tags[first]), batch.slice(first, last - first)


def _gathered(
    runs: Iterable[tuple[int, int, pa.RecordBatch]],
) -> tuple[dict[str, int], dict[int, list[pa.RecordBatch]]]:
    """Give what is known of the slice, and the blocks by their tags."""
    header: dict[str, int] = {}
    found: dict[int, list[pa.RecordBatch]] = {}
    facts = {tag: name for name, tag in HEADER.items()}
    for _, tag, blocks in runs:
        if tag < 0:
            header[facts.get(tag, f"offset {OFFSETS - tag}")] = blocks.column(NUMBER)[0].as_py()
        else:
            found.setdefault(tag, []).append(blocks)
    return header, found


def _sorted(given: TaskInput, blocks: Sequence[pa.RecordBatch]) -> pa.Table:
    """Give the rows of blocks in order of time, and as they stood where times are the same."""
    rows = unpacked(blocks, given.schema)
    times = given.events.times
    ties = [ranks(rows.column(column)) for column in reversed(given.ties)]
    return in_order(rows, times if isinstance(times, str) else times[1], ties)


def in_order(rows: pa.Table, time: str, ties: Sequence[np.ndarray[Any, Any]] = ()) -> pa.Table:
    """Give rows in order of time, where that is the same by the last of ``ties``, then by the one before it."""
    if rows.column(time).null_count:
        # The query says what is wrong with them.
        return rows
    times = as_integers(rows.column(time))
    if (times[1:] > times[:-1]).all() or (not ties and _increases(times)):
        return rows
    order = np.lexsort([*ties, times]) if ties else np.argsort(times, kind="stable")
    return rows if _increases(order) else rows.take(pa.array(order))


def ranks(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Give numbers that are ordered as values are, nulls first."""
    return pc.rank(column, null_placement="at_start", tiebreaker="dense").to_numpy()  # type: ignore[no-any-return]


def between(rows: pa.Table, events: Events, after: int, before: int) -> pa.Table:
    """Give the rows that end after and start before some numbers, as the columns of times have them."""
    times = events.times
    start, end = (times, times) if isinstance(times, str) else times
    kept = (as_integers(rows.column(end)) > after) & (as_integers(rows.column(start)) < before)
    at = np.flatnonzero(kept)
    if len(at) == 0 or at[-1] - at[0] + 1 == len(at):
        return rows.slice(at[0] if len(at) else 0, len(at))
    return rows.take(pa.array(at))


def as_integers(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give times as the numbers they are stored as."""
    width = pa.int32() if pa.types.is_date32(column.type) or pa.types.is_int32(column.type) else pa.int64()
    if column.type not in {pa.int32(), pa.int64()}:
        # Casting would be checked value by value.
        column = pa.chunked_array([chunk.view(width) for chunk in column.chunks], width)
    return column.to_numpy().astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _increases(numbers: np.ndarray[Any, Any]) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def partition() -> int:
    """Give the number of the partition that is run."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def threads() -> int:
    """Give the cores that Spark has set aside for a task."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return 1 if context is None else max(context.cpus(), 1)


@contextlib.contextmanager
def telling(query: QueryTask, rows: Mapping[str, pa.Table], about: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Raise what goes wrong when some rows are run as an exception that says which of them, and what else is known."""
    try:
        yield
    except TiltError as error:
        raise _placed(error, query, rows, about()) from None
    except Exception as error:
        if "extern fn" not in query.text:
            raise
        message = f"a function that the query calls raised {type(error).__name__}: {error}"
        raise _placed(QueryError(message), query, {}, about()) from error


def _placed(error: TiltError, query: QueryTask, rows: Mapping[str, pa.Table], about: Sequence[str]) -> TiltError:
    where = []
    for given in query.inputs:
        if error.row is None or given.name != error.input or given.name not in rows:
            continue
        times = given.events.times
        told = [times] if isinstance(times, str) else [*times]
        told += [given.events.key] if given.events.key is not None else []
        row = rows[given.name].slice(error.row, 1)
        of = f"row {error.row} of ~{given.name}: " if len(query.inputs) > 1 else ""
        where += [of + ", ".join(f"{name} = {_written(row.column(name)[0])}" for name in told)] if len(row) else []
    where += about
    if not where:
        return error
    found = type(error)(f"{error} [{'; '.join(where)}]", error.column, error.row, error.hint)
    found.input = error.input
    return found


def _written(value: pa.Scalar) -> str:
    """Write a value, times that are further away than Python's go as the numbers that they are stored as."""
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        return str(value.cast(pa.int64()).as_py())


def _slice(part: tuple[int, int] | None, text: str) -> list[str]:
    """Say which slice is meant, unless it is everything."""
    if part is None or part == (-FOREVER, FOREVER):
        return []
    unit = Query(text).program.unit
    lo, hi = ("..." if abs(at) == FOREVER else _instant(at, unit) for at in part)
    return [f"slice ({lo}, {hi}]"]


def _instant(ticks: int, unit: str) -> str:
    return str(ticks) if unit == "tick" else str(np.array(ticks).astype(f"datetime64[{unit}]"))
