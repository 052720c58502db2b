"""What rows come from and results go to: two small protocols that anything can have."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilt.table import Table

Position: TypeAlias = Any
"""A place in a source or a sink: whatever JSON can hold."""


@runtime_checkable
class Source(Protocol):
    """Rows that can be read again from a place on.

    A generator is all it takes:

    >>> class Counter:
    ...     def read(self, position, columns):
    ...         for n in range(position or 0, 3):
    ...             yield {"t": n, "x": float(n)}, n + 1
    >>> isinstance(Counter(), Source), [position for _, position in Counter().read(1, None)]
    (True, [2, 3])
    """

    def read(self, position: Position, columns: Table | None) -> Iterator[tuple[object, Position]]:
        """Go through rows from a position on, each with the position after it.

        It does not wait: where there are no rows for the time being, it gives ``None`` for them. It ends where there
        will be none any more. A position counts until the next rows are asked for.

        Parameters
        ----------
        position
            What came with the last rows that count; ``None`` in the beginning.
        columns
            The columns that the query reads, as a table without rows; ``None`` if the first rows tell them.

        """
        ...  # pragma: no cover


@runtime_checkable
class Sink(Protocol):
    """A place that results are written to, each of them once.

    Results come in deliveries with increasing numbers. After a crash the last of them, and no other, may come again:
    with its number, its rows, and after :meth:`open` with the position before it.
    """

    def open(self, position: Position) -> Position:
        """Get ready to write on from a position, and give it; in the beginning it is ``None``, and is settled now."""
        ...  # pragma: no cover

    def write(self, rows: Table, number: int) -> Position:
        """Write the rows of a delivery safely, all or none, unless they are there; give the position after them."""
        ...  # pragma: no cover

    def close(self) -> None:
        """Let go of what was opened."""
        ...  # pragma: no cover


def as_source(given: object) -> Source:
    """Give a source: of a directory or a pattern of files, ``"-"`` for standard input, rows, or anything to go through.

    >>> as_source("days/*.parquet")
    FolderSource('days', '*.parquet')
    >>> as_source([{"t": 1, "x": 0.5}])
    ItemSource(...)
    """
    from tilt.live.folder import FolderSource  # noqa: PLC0415
    from tilt.live.process import ItemSource, PipeSource  # noqa: PLC0415

    if isinstance(given, Source):
        return given
    if isinstance(given, (str, PathLike)):
        return PipeSource() if fspath(given) == "-" else FolderSource.of(given)
    if isinstance(given, Mapping) or hasattr(given, "__arrow_c_stream__"):
        return ItemSource([given])
    if callable(given) or isinstance(given, (Iterable, AsyncIterable)):
        return ItemSource(given)
    message = f"rows come from a source, a path or an iterator, not from {type(given).__name__}"
    raise TypeError(message)


def as_sink(given: object) -> Sink:
    """Give a sink: a directory of parts, a file of lines by its ending, ``"-"`` for standard output, or a function.

    >>> as_sink("means.jsonl"), as_sink("means"), as_sink(print)
    (FileSink('means.jsonl'), PartSink('means'), CallSink(print))
    """
    from tilt.live.files import FileSink, PartSink  # noqa: PLC0415
    from tilt.live.process import CallSink, PipeSink  # noqa: PLC0415

    if isinstance(given, Sink):
        return given
    if isinstance(given, (str, PathLike)):
        text = fspath(given)
        if text == "-":
            return PipeSink()
        return FileSink(text) if text.endswith((".jsonl", ".ndjson", ".csv")) else PartSink(text)
    if callable(given):
        return CallSink(given)
    message = f"results go to a sink, a path or a function, not to {type(given).__name__}"
    raise TypeError(message)


def late_sinks_of(given: object, streams: list[str]) -> dict[str, Sink]:
    """Give the sink of each stream's late rows; if there is one stream, its sink alone will do.

    >>> late_sinks_of("late.jsonl", ["ticks"]), late_sinks_of(None, ["ticks"])
    ({'ticks': FileSink('late.jsonl')}, {})
    """
    from tilt.live.options import known_stream, listed  # noqa: PLC0415

    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {known_stream(name, streams, "late_sink="): as_sink(each) for name, each in given.items()}
    if len(streams) == 1:
        return {streams[0]: as_sink(given)}
    message = f"name a sink for late rows of each stream: late_sink={{{streams[0]!r}: ...}}; {listed(streams)}"
    raise TypeError(message)


def refuse_shared(sinks: Mapping[str, Sink]) -> None:
    """Refuse sinks of which one would write over what another has written, given by what goes to them.

    >>> refuse_shared({"results": as_sink("means"), "late rows of `ticks`": as_sink("./means")})
    Traceback (most recent call last):
    ValueError: results and late rows of `ticks` go to the same place, PartSink('means'); name one for each
    """
    from tilt.live.files import FileSink, PartSink  # noqa: PLC0415

    known: dict[object, str] = {}
    for what, sink in sinks.items():
        place: object = id(sink)
        if isinstance(sink, (FileSink, PartSink)):
            place = (sink.path if isinstance(sink, FileSink) else sink.directory).resolve()
        if place in known:
            message = f"{known[place]} and {what} go to the same place, {sink!r}; name one for each"
            raise ValueError(message)
        known[place] = what


def sources_of(given: object, streams: list[str]) -> dict[str, Source]:
    """Give the source of each stream; if there is one stream, its source alone will do.

    >>> sources_of("days/*.csv", ["ticks"])
    {'ticks': FolderSource('days', '*.csv')}
    """
    from tilt.live.options import known_stream, listed  # noqa: PLC0415

    if isinstance(given, Mapping) and set(given) & set(streams):
        found = {known_stream(name, streams, "sources="): as_source(each) for name, each in given.items()}
    elif len(streams) == 1:
        found = {streams[0]: as_source(given)}
    else:
        message = f"say what each stream comes from: sources={{{streams[0]!r}: ...}}; {listed(streams)}"
        raise TypeError(message)
    for name in streams:
        if name not in found:
            message = f"stream `{name}` has no source; name one for each: {listed(streams)}"
            raise TypeError(message)
    return found
