"""The state of a run on disk: one file that is replaced as a whole, in a directory that one run at a time has.

=========== ======================================================================================
``commit``  number, positions of sources and sink; the session; results that the sink may lack yet
``lock``    held while a run goes on, with the number of its process
=========== ======================================================================================
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.errors import StateError
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilt.live.adapters import Position

_MAGIC = b"TILTRUNS"
_VERSION = 2
_KNOWN = (1, 2)
"""Versions that can be read: the first had no late rows."""
_HEAD = len(_MAGIC) + 4 + 4
_CHECKSUM = 4


@dataclass(frozen=True)
class Commit:
    """All that a run has to know to go on."""

    number: int = 0
    rows: int = 0
    """How many results there were, those of this commit among them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """How the session was begun."""
    sources: Mapping[str, tuple[str, Position]] = field(default_factory=dict)
    """What each stream is read by, and how far it was."""
    sink: tuple[str, Position] = ("", None)
    """What results are written by, and where those of this commit begin."""
    session: bytes | None = None
    """The session; none before it has begun and after it has ended."""
    output: Table | None = None
    """The results since the commit before, unless it is certain that the sink has them."""
    late: Mapping[str, tuple[str, Position]] = field(default_factory=dict)
    """What late rows of each stream are written by, if they are, and where those of this commit begin."""
    late_output: Mapping[str, Table] = field(default_factory=dict)
    """Late rows of streams since the commit before, unless it is certain that their sinks have them."""
    is_ended: bool = False

    def packed(self) -> bytes:
        """Give it as bytes.

        >>> Commit.unpacked(Commit(3, sink=("PartSink", 2)).packed()).sink
        ('PartSink', 2)
        """
        session, output = self.session or b"", b"" if self.output is None else self.output._handle.to_ipc()
        late_output = {name: rows._handle.to_ipc() for name, rows in self.late_output.items()}
        about = {
            "number": self.number,
            "rows": self.rows,
            "options": dict(self.options),
            "sources": dict(self.sources),
            "sink": self.sink,
            "session": None if self.session is None else len(session),
            "output": None if self.output is None else len(output),
            "late": dict(self.late),
            "late_output": {name: len(rows) for name, rows in late_output.items()},
            "is_ended": self.is_ended,
        }
        head = json.dumps(about, separators=(",", ":")).encode()
        sizes = _VERSION.to_bytes(4, "little") + len(head).to_bytes(4, "little")
        body = b"".join((_MAGIC, sizes, head, session, output, *late_output.values()))
        return body + zlib.crc32(body).to_bytes(_CHECKSUM, "little")

    @classmethod
    def unpacked(cls, data: bytes) -> Commit:
        """Read it from bytes.

        Raises
        ------
        StateError
            If they are not those of a whole commit.

        """
        if not data.startswith(_MAGIC):
            message = "it does not begin as the state of a run"
            raise StateError(message)
        body, checksum = data[:-_CHECKSUM], int.from_bytes(data[-_CHECKSUM:], "little")
        if len(body) < _HEAD or zlib.crc32(body) != checksum:
            message = "it is not whole: its checksum is wrong"
            raise StateError(message)
        version, size = (int.from_bytes(body[at : at + 4], "little") for at in (len(_MAGIC), len(_MAGIC) + 4))
        if version not in _KNOWN:
            message = (
                f"it has version {version}, but only versions up to {_VERSION} are known; use the tilt that wrote it"
            )
            raise StateError(message)
        about = json.loads(body[_HEAD : _HEAD + size])
        at = _HEAD + size

        def next_part(length: int) -> bytes:
            nonlocal at
            at += length
            return body[at - length : at]

        session = None if about["session"] is None else next_part(about["session"])
        output = None if about["output"] is None else Table(_native.Table.from_ipc(next_part(about["output"])))
        late_output = about.get("late_output", {}).items()
        return cls(
            number=about["number"],
            rows=about["rows"],
            options=about["options"],
            sources={name: (kind, position) for name, (kind, position) in about["sources"].items()},
            sink=tuple(about["sink"]),
            session=session,
            output=output,
            late={name: (kind, position) for name, (kind, position) in about.get("late", {}).items()},
            late_output={name: Table(_native.Table.from_ipc(next_part(length))) for name, length in late_output},
            is_ended=about["is_ended"],
        )


class State:
    """A directory that holds the last commit of a run."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Make the directory if there is none, and take it.

        Raises
        ------
        StateError
            If another run has it.

        """
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock: int | None = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._lock, 20).decode(errors="replace").strip()
            self.close()
            message = (
                f"another run{owner and f', process {owner},'} has the state in {self.directory}; "
                "stop it, or name another directory"
            )
            raise StateError(message) from None
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            self.close()
            raise

    @property
    def _path(self) -> Path:
        return self.directory / "commit"

    def load(self) -> Commit | None:
        """Give the last commit, if there is one.

        Raises
        ------
        StateError
            If it is damaged.

        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return Commit.unpacked(data)
        except StateError as error:
            message = f"{self._path} cannot be used: {error}"
            raise StateError(message) from None

    def store(self, commit: Commit) -> None:
        """Put a commit in place of the last one, safely: after a crash there is one or the other."""
        replace_file(self._path, commit.packed())

    @property
    def is_open(self) -> bool:
        """Whether the directory is ours."""
        return self._lock is not None

    def close(self) -> None:
        """Leave the directory to others."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that is there as a whole, safely, or not at all; an older one stays until then."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Wait until the content of a file is safe."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are safe."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
