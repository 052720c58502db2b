"""Directories that files are put into, or that have files which grow, as sources."""

from __future__ import annotations

import os
import re
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from tilt import _native
from tilt.errors import FileError
from tilt.live.pipes import Reader
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilt.live.adapters import Position
    from tilt.live.pipes import Format

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_ENDS = {"parquet": b"PAR1", "ipc": b"ARROW1"}
"""What the last bytes are of files that are written as a whole."""
_PIECE = 1 << 20
_ROWS = 1 << 16
"""Rows of a file that are given at once."""
_CHECKED = 1 << 12
"""Bytes by which a file is known again."""
_REST = 10
"""Directories are looked at for a tenth of the time at most."""


class _Known(NamedTuple):
    """What was read of a file: as a position holds it."""

    done: int
    """Bytes of lines, or rows of a file that is written as a whole."""
    lines: int
    size: int
    modified: int
    """In nanoseconds; only compared, so that a clock that jumps does not matter."""
    check: int
    """A checksum of the last bytes that count."""
    is_whole: bool
    """Whether nothing more can come of it."""


_NEW = _Known(0, 0, -1, -1, 0, is_whole=False)


class FolderSource:
    """Files of a directory, in order of their names: those that are there, and those that are put there later.

    Parquet and Arrow IPC files are taken when they are complete. CSV files and JSON lines may grow; a last line without
    an end waits for it. Names that begin with a dot or an underscore are left out, so that a file can be written under
    such a name and renamed.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     tl.Table({"t": [1, 2], "x": [0.5, 1.5]}).write_parquet(f"{directory}/a.parquet")
    ...     tl.Table({"t": [3], "x": [2.5]}).write_jsonl(f"{directory}/b.jsonl")
    ...     source = tl.live.FolderSource(directory, follow=False)
    ...     [rows["x"] for rows, position in source.read(None, None)]
    [[0.5, 1.5], [2.5]]
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        pattern: str = "*",
        *,
        format: str | None = None,  # noqa: A002
        follow: bool = True,
    ) -> None:
        """Read the files of a directory.

        Parameters
        ----------
        directory
            Where files are.
        pattern
            Which of them, such as ``"*.parquet"``, or ``"**/*.csv"`` for those of directories inside as well.
        format
            ``parquet``, ``ipc``, ``csv`` or ``jsonl``; by default what the names end with.
        follow
            Whether to wait for more. Otherwise the files are as complete as they will be, and the stream ends with
            them.

        """
        if format is not None and format not in _FORMATS.values():
            message = f"a directory has parquet, ipc, csv or jsonl files, not {format}"
            raise ValueError(message)
        self.directory = Path(directory)
        self.pattern = pattern
        self.format = format
        self.follow = follow
        self.place = str(directory)
        """The file that was read last."""

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FolderSource:
        """Give the source of a directory, or of a pattern such as ``"days/*.parquet"``."""
        given = Path(path)
        fixed = [part for part in given.parts if not re.search(r"[*?\[]", part)]
        if len(fixed) == len(given.parts):
            return cls(given.parent, given.name) if given.is_file() else cls(given)
        at = next(i for i, part in enumerate(given.parts) if re.search(r"[*?\[]", part))
        return cls(Path(*given.parts[:at]), "/".join(given.parts[at:]))

    def __repr__(self) -> str:
        return f"FolderSource({str(self.directory)!r}, {self.pattern!r})"

    def read(self, position: Position, columns: Table | None) -> Iterator[tuple[object, Position]]:
        """Go through the rows.

        Raises
        ------
        FileError
            If a file is not what its name says, or one that was read is gone or another one.

        """
        known = {name: _Known(*entry) for name, entry in (position or {}).items()}
        listed_next = 0.0
        while True:
            has_news = False
            if time.monotonic() >= listed_next:
                begun = time.monotonic()
                changed = self._changed(known)
                listed_next = time.monotonic() + _REST * (time.monotonic() - begun) * self.follow
                for name, format_ in changed:
                    self.place = str(self.directory / name)
                    for table in self._rows(name, format_, known, columns):
                        columns = table[:0] if columns is None else columns
                        has_news = True
                        yield table, known
            if not has_news:
                if not self.follow:
                    return
                yield None, known

    def _changed(self, known: dict[str, _Known]) -> list[tuple[str, str]]:
        """Give the files that may have more rows than are known."""
        found = {}
        for path in sorted(self.directory.glob(self.pattern)):
            name = path.relative_to(self.directory).as_posix()
            format_ = self._format(path)
            if format_ is None or any(part.startswith((".", "_")) for part in name.split("/")):
                continue
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            if path.is_file():
                found[name] = (format_, stat.st_size, stat.st_mtime_ns)
        for name in [name for name in known if name not in found]:
            if not known[name].is_whole:
                message = f"{self.directory / name} was read in part and is gone; put it back"
                raise FileError(message)
            # Nothing of it can be missed.
            del known[name]
        return [
            (name, format_)
            for name, (format_, size, modified) in found.items()
            if (size, modified) != known.get(name, _NEW)[2:4] or not (self._grows(format_) or known[name].is_whole)
        ]

    def _format(self, path: Path) -> str | None:
        if self.format is not None:
            return self.format
        found = _FORMATS.get(path.suffix.lower())
        if found is None and self.pattern != "*" and path.is_file():
            message = f"{path}: the ending does not tell the format; name it: format='jsonl'"
            raise FileError(message)
        return found

    @staticmethod
    def _grows(format_: str) -> bool:
        return format_ not in _ENDS

    def _rows(self, name: str, format_: str, known: dict[str, _Known], columns: Table | None) -> Iterator[Table]:
        path = self.directory / name
        try:
            with path.open("rb") as file:
                if self._grows(format_):
                    yield from self._lines(name, file, cast("Format", format_), known, columns)
                else:
                    yield from self._whole(name, file, format_, known, columns)
        except FileNotFoundError:
            # It went away after it was listed; the next listing tells what that means.
            return

    def _whole(
        self, name: str, file: BinaryIO, format_: str, known: dict[str, _Known], columns: Table | None
    ) -> Iterator[Table]:
        """Read a file that is there as a whole, or not yet."""
        path = self.directory / name
        stat = os.fstat(file.fileno())
        before = known.get(name, _NEW)
        end = _ENDS[format_]
        file.seek(max(0, stat.st_size - _CHECKED))
        tail = file.read(_CHECKED)
        if stat.st_size < 2 * len(end) or not tail.endswith(end):
            if before is not _NEW:
                self._replaced(path)
            if not self.follow:
                message = f"{path} is not complete: a {format_} file ends with {end.decode()}; write it again"
                raise FileError(message)
            return
        check = zlib.crc32(tail)
        if before is not _NEW and check != before.check:
            self._replaced(path)
        now = before._replace(size=stat.st_size, modified=stat.st_mtime_ns, check=check)
        if before.is_whole:
            known[name] = now
            return
        wanted = None if columns is None else columns.columns
        table = Table(_native.Scan([_literal(path)], format=format_, columns=wanted).read())
        for begin in range(before.done, len(table), _ROWS):
            rows = table[begin : begin + _ROWS]
            done = begin + len(rows)
            known[name] = now._replace(done=done, is_whole=done == len(table))
            yield rows
        known[name] = now._replace(done=len(table), is_whole=True)

    def _lines(
        self, name: str, file: BinaryIO, format_: Format, known: dict[str, _Known], columns: Table | None
    ) -> Iterator[Table]:
        """Read the lines that are complete, from where a file was left."""
        path = self.directory / name
        stat = os.fstat(file.fileno())
        before = known.get(name, _NEW)
        if stat.st_size < before.done or _check(file, before.done) != before.check:
            self._replaced(path)
        reader = Reader(format_, columns)
        # The reader counts the lines that it was given.
        lines = before.lines
        if format_ == "csv" and before.done > 0:
            file.seek(0)
            header = _through(file, before.done)
            lines -= header.count(b"\n")
            list(reader.decode(header))
        file.seek(before.done)
        rest = b""
        while True:
            piece = file.read(_PIECE)
            is_last = not piece
            rest += piece if piece or self.follow or not rest else b"\n"
            end = _end(rest, is_csv=format_ == "csv")
            if end:
                whole, rest = rest[:end], rest[end:]
                tables = self._decoded(path, reader, whole, lines)
                # A line end that was added is none of the file.
                done = min(known.get(name, _NEW).done + end, file.tell())
                total = known.get(name, _NEW).lines + whole.count(b"\n")
                check = _check(file, done)
                known[name] = _Known(done, total, -1, -1, check, is_whole=False)
                yield from tables
                file.seek(done + len(rest))
            if is_last:
                break
        known[name] = known.get(name, _NEW)._replace(
            size=stat.st_size, modified=stat.st_mtime_ns, check=_check(file, known.get(name, _NEW).done)
        )

    @staticmethod
    def _decoded(path: Path, reader: Reader, whole: bytes, lines: int) -> list[Table]:
        try:
            return [table for table in reader.decode(whole) if len(table)]
        except FileError as error:
            found = re.match(r"line (\d+): (.*)", str(error), re.DOTALL)
            message = f"{path}, line {lines + int(found[1])}: {found[2]}" if found else f"{path}: {error}"
            raise FileError(message) from None

    @staticmethod
    def _replaced(path: Path) -> None:
        message = f"{path} is not the file any more that was read; put it back, and give other rows another name"
        raise FileError(message)


def _check(file: BinaryIO, end: int) -> int:
    """Give a checksum of the bytes before a place."""
    begin = max(0, end - _CHECKED)
    file.seek(begin)
    return zlib.crc32(file.read(end - begin))


def _end(data: bytes, *, is_csv: bool) -> int:
    r"""Give where the last complete line ends; a line of CSV goes on inside of quotes.

    >>> _end(b"1,2\n3,", is_csv=True), _end(b'1,"a\nb', is_csv=True), _end(b'{"a": "\""}\n', is_csv=False)
    (4, 0, 11)
    """
    end = data.rfind(b"\n") + 1
    while is_csv and end and data.count(b'"', 0, end) % 2:
        end = data.rfind(b"\n", 0, end - 1) + 1
    return end


def _through(file: BinaryIO, limit: int) -> bytes:
    """Read the header of a CSV file."""
    head = b""
    while len(head) < limit:
        head += file.readline()
        if _end(head, is_csv=True):
            break
    return head


def _literal(path: Path) -> str:
    """Write a path as a pattern that matches nothing else."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))
