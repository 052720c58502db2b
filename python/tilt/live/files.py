"""Files as sinks: a part for each delivery, or one that grows."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from tilt.errors import StateError
from tilt.live.pipes import Writer
from tilt.live.state import sync_directory, sync_file
from tilt.table import write

if TYPE_CHECKING:
    from tilt.live.adapters import Position
    from tilt.live.pipes import Format
    from tilt.table import Table

_ENDINGS = {"parquet": "parquet", "ipc": "arrow", "csv": "csv", "jsonl": "jsonl"}
_PART = re.compile(r"part-(\d+)\.\w+")


class PartSink:
    """A directory of files, one for each delivery that has rows: ``part-00000000.parquet`` and so on.

    A part has its name when it is complete, and is never changed after that. A position is the number of parts.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sink = tl.live.PartSink(directory, "csv")
    ...     _ = sink.open(None)
    ...     print(sink.write(tl.Table({"t": [1], "x": [0.5]}), 1))
    ...     tl.scan_csv(f"{directory}/*.csv", time="t")["x"].collect()["x"]
    1
    [0.5]
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        format: Literal["parquet", "ipc", "csv", "jsonl"] = "parquet",  # noqa: A002
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Write parts into a directory, which is made if there is none; ``options`` are those of the format."""
        if format not in _ENDINGS:
            message = f"parts are parquet, ipc, csv or jsonl files, not {format}"
            raise ValueError(message)
        self.directory = Path(directory)
        self.format = format
        self.options = options
        self._parts = 0

    def __repr__(self) -> str:
        return f"PartSink({str(self.directory)!r})"

    def open(self, position: Position) -> Position:
        """Go on after so many parts.

        Raises
        ------
        StateError
            If there are others than those that the run has written.

        """
        self._parts = position or 0
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(self.directory):  # noqa: PTH208
            if name.startswith(".part-"):
                # Was not complete when the run was stopped.
                (self.directory / name).unlink()
            found = _PART.fullmatch(name)
            # The last part may be that of a delivery which comes again.
            limit = self._parts if position is None else self._parts + 1
            if found and int(found[1]) >= limit:
                message = (
                    f"{self.directory / name} is not by this run, which has written {self._parts} parts; "
                    "name another directory, or remove the parts of other runs"
                )
                raise StateError(message)
        return self._parts

    def write(self, rows: Table, number: int) -> Position:
        """Write a part."""
        del number
        name = f"part-{self._parts:08}.{_ENDINGS[self.format]}"
        hidden = self.directory / f".{name}"
        write([rows], hidden, format=self.format, **self.options)
        sync_file(hidden)
        hidden.replace(self.directory / name)
        sync_directory(self.directory)
        self._parts += 1
        return self._parts

    def close(self) -> None:
        """Do nothing: every part is closed."""


class FileSink:
    """One file of JSON lines or CSV that grows with each delivery. A position is its length.

    After a crash a line may be there in part until the run goes on.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sink = tl.live.FileSink(f"{directory}/x.jsonl")
    ...     _ = sink.open(None)
    ...     print(sink.write(tl.Table({"t": [1], "x": [0.5]}), 1))
    ...     sink.close()
    16
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, by its ending CSV or JSON lines."""
        self.path = Path(path)
        formats: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
        if self.path.suffix not in formats:
            message = (
                f"a file that grows is .jsonl or .csv, not {self.path.name}; use PartSink for Parquet and Arrow IPC"
            )
            raise ValueError(message)
        self.format: Format = formats[self.path.suffix]
        self._file: int | None = None
        self._end = 0

    def __repr__(self) -> str:
        return f"FileSink({str(self.path)!r})"

    def open(self, position: Position) -> Position:
        """Go on at a length.

        Raises
        ------
        StateError
            If the file is not the one that the run has written.

        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        length = os.fstat(self._file).st_size
        self._end = position or 0
        if length < self._end or (position is None and length > 0):
            self.close()
            message = (
                f"{self.path} has {length} bytes, but this run has written {position or 0}; "
                "put the file back, or name another one"
            )
            raise StateError(message)
        sync_directory(self.path.parent)
        return self._end

    def write(self, rows: Table, number: int) -> Position:
        """Write rows at the end, unless they are there."""
        del number
        file = cast("int", self._file)
        data = Writer(self.format).encode(rows)
        if self.format == "csv" and self._end > 0:
            data = data[_header(data) :]
        length = os.fstat(file).st_size
        there = os.pread(file, length - self._end, self._end)
        if not data.startswith(there):
            os.ftruncate(file, self._end)
            there = b""
        at, view = self._end + len(there), memoryview(data)[len(there) :]
        while view:
            written = os.pwrite(file, view, at)
            at, view = at + written, view[written:]
        os.fsync(file)
        self._end = at
        return at

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


def _header(data: bytes) -> int:
    r"""Give where the names of columns end, which may have line ends between quotes.

    >>> _header(b't,x\n1,0.5\n'), _header(b't,"x\ny"\n1,0.5\n')
    (4, 8)
    """
    end = data.index(b"\n") + 1
    while data.count(b'"', 0, end) % 2:
        end = data.index(b"\n", end) + 1
    return end
