"""What a session tells about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class StreamStatus:
    """How far a stream has come."""

    watermark: Any
    """No row of an earlier time counts any more: an instant as the stream's times are; ``None`` before the first."""
    is_idle: bool
    """Whether the others do not wait for it until it has rows again."""
    buffered: int
    """Rows that wait for the watermark."""
    held: int
    """Rows that results still to come depend on."""
    memory: int
    """The bytes of all these rows and of late ones that nobody has taken, about.

    Of the first stream also those of what is kept besides rows: what windows go on from, and results that may be
    revised.
    """
    accepted: int
    """Rows that count, adjusted and revising ones among them."""
    dropped: int
    """Late rows that were left out."""
    adjusted: int
    """Late rows that were moved to the watermark."""
    revised: int
    """Late rows by which results were revised."""
    overlapping: int
    """Rows that were left out because they overlap another one, where that is not declared."""


@dataclass(frozen=True)
class Status:
    """How far a session has come."""

    until: Any
    """Results up to here were given; ``None`` before the first, and when there are no more."""
    streams: Mapping[str, StreamStatus]
    """The streams by name."""
    holding_back: str | None
    """The stream that results wait for."""
    holds_all: str | None
    """Why all rows are held, if they are."""
    waits: str | None
    """Why there is no result before the end, if so."""

    @property
    def memory(self) -> int:
        """The bytes of all that the session keeps, about: rows, late rows, and what it goes on from."""
        return sum(stream.memory for stream in self.streams.values())
