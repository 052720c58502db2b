"""Sessions between pipes: rows as JSON lines or Arrow IPC streams in, results out at once.

:class:`Reader` and :class:`Writer` are the formats alone; :func:`run` is a session between them.
"""

from __future__ import annotations

import contextlib
import os
import selectors
from typing import TYPE_CHECKING, Literal, TypeAlias

from tilt import _native
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilt.live.options import Completion
    from tilt.live.session import Session

Format: TypeAlias = Literal["jsonl", "csv", "ipc"]
"""How rows are written: a JSON object a line, comma-separated values with a header, or an Arrow IPC stream."""

_NATIVE = {"jsonl": "jsonl", "csv": "csv", "ipc": "ipc_stream"}
_PIECE = 1 << 16
_PATIENCE = 0.1
"""Seconds after which streams that have become idle are noticed."""


class Reader:
    r"""Tables of bytes that come in pieces of any size.

    >>> reader = Reader("jsonl")
    >>> list(reader.decode(b'{"t": 1, "x": 0.5}\n{"t": 2,'))
    [tilt.Table: 1 row
     t      x
     Int64  Float64
    ────────────────
         1      0.5]
    >>> [table["t"] for table in reader.decode(b' "x": 1.5}\n')]
    [[2]]
    """

    def __init__(self, format: Format, columns: Table | None = None) -> None:  # noqa: A002
        """Read a format; ``columns`` are those of lines, by default what the first of them look like."""
        self._decoder = _native.Decoder(_native_name(format), None if columns is None else columns._handle)

    def decode(self, piece: bytes) -> Iterator[Table]:
        """Give the rows that are complete with this piece, if there are some.

        Raises
        ------
        FileError
            If they are no rows, with the line.

        """
        found = self._decoder.decode(piece)
        if found is not None:
            yield Table(found)

    def finish(self) -> Iterator[Table]:
        """Give the rows of what is left at the end."""
        found = self._decoder.finish()
        if found is not None:
            yield Table(found)


class Writer:
    r"""Bytes of tables, of which a reader has every row at once.

    >>> import tilt as tl
    >>> Writer("jsonl").encode(tl.Table({"t": [1, 2], "x": [0.5, None]}))
    b'{"t":1,"x":0.5}\n{"t":2}\n'
    """

    def __init__(self, format: Format) -> None:  # noqa: A002
        """Write a format."""
        self._encoder = _native.Encoder(_native_name(format))

    def encode(self, table: Table) -> bytes:
        """Give the bytes of rows."""
        return self._encoder.encode(table._handle)

    def finish(self) -> bytes:
        """Give the bytes that end all of it."""
        return self._encoder.finish()


def _native_name(format: str) -> str:  # noqa: A002
    if format not in _NATIVE:
        message = f"rows go through pipes as jsonl, csv or ipc, not {format}"
        raise ValueError(message)
    return _NATIVE[format]


def run(  # noqa: PLR0913
    live: Session,
    sources: Mapping[str, int],
    sink: int,
    *,
    read: Format = "jsonl",
    write: Format = "jsonl",
    policy: Completion = "end",
) -> None:
    """Push what comes from files, by stream, and write results to another as soon as they are certain.

    Files are descriptors: pipes, sockets, terminals. When all have ended, so does the session, by ``policy``; when this
    is interrupted, the session ends without what is not certain, and what was written is complete.
    """
    writer = Writer(write)
    readers = {stream: Reader(read, live._columns_of(stream)) for stream in sources}

    def push(stream: str, tables: Iterator[Table]) -> None:
        for table in tables:
            write_all(sink, writer.encode(live.push(table, stream)))

    with selectors.PollSelector() as selector:
        for stream, source in sources.items():
            selector.register(source, selectors.EVENT_READ, stream)
        try:
            while selector.get_map():
                ready = selector.select(_PATIENCE if live._setup.has_timeouts else None)
                for key, _ in ready:
                    piece = os.read(key.fd, _PIECE)
                    if piece:
                        push(key.data, readers[key.data].decode(piece))
                        continue
                    selector.unregister(key.fd)
                    push(key.data, readers[key.data].finish())
                    if selector.get_map():
                        write_all(sink, writer.encode(live.idle(key.data)))
                if not ready:
                    write_all(sink, writer.encode(live.take()))
            write_all(sink, writer.encode(live.close(policy)))
        finally:
            # What was written is whole, whatever ended it; who does not read any more does not need that.
            with contextlib.suppress(OSError):
                write_all(sink, writer.finish())


def write_all(sink: int, data: bytes) -> None:
    """Write bytes to a file descriptor, all of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
