"""Where the timeline is cut, and what each slice has to see.

A slice ``(lo, hi]`` of the result needs the rows that intersect ``(lo - lookback, hi + lookahead]``. Reaches that count
events besides time need to know where events are; :class:`Ends` knows some of them, and errs on the far side: a slice
may see more rows than it needs, never fewer.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilt import _native
from tilt.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Instants: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Weights: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

FOREVER = 1 << 62
"""Further than any time, and yet not at the edge of 64 bits."""
_REACH = re.compile(r"(.+?)(?: \+ (\d+) events?)?")


@dataclass(frozen=True)
class Reach:
    """How far something matters in one direction: a length of time, and a number of gaps between events besides."""

    ticks: int
    events: int = 0

    @classmethod
    def parse(cls, text: str, unit: str) -> Reach | None:
        """Read a reach as lineage writes it, ``None`` if it has no bound.

        >>> from tilt.spark.cuts import Reach
        >>> Reach.parse("20s", "ms"), Reach.parse("5 + 2 events", "tick"), Reach.parse("unbounded", "s")
        (Reach(ticks=20000, events=0), Reach(ticks=5, events=2), None)
        """
        found = _REACH.fullmatch(text)
        if text == "unbounded" or found is None:
            return None
        length, events = found[1], int(found[2] or 0)
        return cls(int(length) if unit == "tick" else _native.duration(length, unit), events)


class Ends:
    """The ends of some rows."""

    def __init__(self, ends: Iterable[int] | Instants) -> None:
        """Take them in any order."""
        self._ends = np.sort(ends if isinstance(ends, np.ndarray) else np.array([*ends], np.int64))

    def last(self, until: int) -> int:
        """Give an end that is at most ``until``: the last there is, or an earlier one; ``-FOREVER`` if there is none.

        >>> from tilt.spark.cuts import FOREVER, Ends
        >>> ends = Ends([0, 9, 10, 19])
        >>> ends.last(25), ends.last(15), ends.last(-5) == -FOREVER
        (19, 10, True)
        """
        at = int(np.searchsorted(self._ends, _inside(until), side="right"))
        return int(self._ends[at - 1]) if at else -FOREVER

    def first(self, since: int) -> int:
        """Give an end that is at least ``since``: the first there is, or a later one; ``FOREVER`` if there is none."""
        at = int(np.searchsorted(self._ends, _inside(since)))
        return int(self._ends[at]) if at < len(self._ends) else FOREVER


def _inside(at: int) -> int:
    """Give an instant as 64 bits hold it."""
    return min(max(at, -(1 << 63)), (1 << 63) - 1)


@dataclass(frozen=True)
class Halo:
    """What the result depends on of one input."""

    lookback: Reach
    lookahead: Reach
    length: int | None = 1
    """How long an event of a row is: 1 for points; ``None`` if it lasts until the next row."""

    @property
    def counts_events(self) -> bool:
        """Whether one must know where events are."""
        return self.length is None or self.lookback.events > 0 or self.lookahead.events > 0

    def after(self, lo: int, ends: Ends) -> int:
        """Give the instant after which a row of a slice that begins at ``lo`` must end.

        Ticks may be walked before and after each gap that is skipped, which reaches further than walking them once.
        """
        at = lo - self.lookback.ticks
        for _ in range(self.lookback.events + (2 if self.length is None else 0)):
            at = max(ends.last(at), -FOREVER) - 2 - self.lookback.ticks
        return max(at, -FOREVER)

    def before(self, hi: int, ends: Ends) -> int:
        """Give the instant before which a row of a slice that ends at ``hi`` must start."""
        at = hi + self.lookahead.ticks
        steps = self.lookahead.events + (1 if self.lookahead.events else 0) + (2 if self.length is None else 0)
        for _ in range(steps):
            at = min(ends.first(at), FOREVER) + 2 + self.lookahead.ticks
        return min(at, FOREVER)


@dataclass(frozen=True)
class Slices:
    """The timeline, cut at increasing instants."""

    cuts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.cuts) + 1

    def part(self, number: int) -> tuple[int, int]:
        """Give the slice ``(lo, hi]``; the first and the last have no limit on one side.

        >>> from tilt.spark.cuts import Slices
        >>> Slices((10, 20)).part(1)
        (10, 20)
        """
        lo = self.cuts[number - 1] if number > 0 else -FOREVER
        hi = self.cuts[number] if number < len(self.cuts) else FOREVER
        return lo, hi

    def needs(self, halo: Halo, ends: Ends) -> list[tuple[int, int]]:
        """Give for each slice after which instant a row must end, and before which it must start, to matter there.

        >>> from tilt.spark.cuts import Ends, Halo, Reach, Slices
        >>> Slices((10, 20)).needs(Halo(Reach(3), Reach(0)), Ends([]))[1]
        (7, 20)
        """
        found = []
        for number in range(len(self)):
            lo, hi = self.part(number)
            after = -FOREVER if lo == -FOREVER else halo.after(lo, ends)
            before = FOREVER if hi == FOREVER else halo.before(hi, ends)
            found.append((after, before))
        return found

    def snapped(self, edges: Sequence[int]) -> Slices:
        """Move cuts to edges, which are in order, that are nearer than a quarter of both slices beside them.

        >>> from tilt.spark.cuts import Slices
        >>> Slices((10, 20, 30)).snapped([12, 26]).cuts
        (12, 20, 30)
        """
        lengths = [after - before for before, after in pairwise(self.cuts)]
        found = []
        for number, at in enumerate(self.cuts):
            near = bisect_left(edges, at)
            edge = min(edges[max(near - 1, 0) : near + 1], key=lambda edge: abs(edge - at), default=at)
            room = min(lengths[max(number - 1, 0) : number + 1], default=0)
            found.append(edge if 4 * abs(edge - at) < room else at)
        return Slices(tuple(found))

    @classmethod
    def by_counts(cls, blocks: Sequence[tuple[int, int, float]], number: int) -> Slices:
        """Cut into slices with about the same number of rows, given blocks as first end, last end and rows.

        Rows of a block are taken to be spread evenly.

        >>> from tilt.spark.cuts import Slices
        >>> Slices.by_counts([(0, 100, 300), (100, 200, 100)], 4).cuts
        (34, 65, 96)
        """
        first, last, rows = zip(*blocks, strict=True) if blocks else ((), (), ())
        known = (np.array(first, np.int64), np.array(last, np.int64), np.array(rows, np.float64))
        return cls(tuple(sorted(set(cls.by_shares(*known, [1 / number] * number)))))

    @staticmethod
    def by_shares(first: Instants, last: Instants, rows: Weights, shares: Sequence[float]) -> list[int]:
        """Give where to cut so that slices have these shares of the rows; instants that have many may come repeatedly.

        >>> import numpy as np
        >>> from tilt.spark.cuts import Slices
        >>> Slices.by_shares(np.array([0]), np.array([100]), np.array([100.0]), [0.5, 0.25, 0.25])
        [47, 72]
        """
        number = len(shares)
        each = max(4, 8 * number // max(len(first), 1))
        odd = 2 * np.arange(each) + 1
        # What is inside of a block is found without a product that 64 bits may not hold.
        step, left = np.divmod(last - first, 2 * each)
        masses = (first[:, None] + step[:, None] * odd + left[:, None] * odd // (2 * each)).ravel()
        counts = np.repeat(rows / each, each)
        order = np.lexsort((counts, masses))
        before = np.cumsum(counts[order])
        total = float(np.sum(rows))
        edges = np.array([total * share - 1e-9 for share in accumulate(shares)][:-1])
        found = np.searchsorted(before, edges)
        cuts: list[int] = masses[order][found[found < len(before)]].tolist()
        return cuts


def bounded(  # noqa: PLR0913
    lineage: tuple[str, str], unit: str, *, length: int | None, warmup: int | None, name: str, output: str
) -> Halo:
    """Give the halo of an input, or refuse to cut.

    Raises
    ------
    QueryError
        If the result depends on everything before or after, and no ``warmup`` says how much of that is enough.

    """
    back, ahead = (Reach.parse(text, unit) for text in lineage)
    if warmup is not None:
        # What is asked for bounds the past only where the query does not.
        back = back or Reach(warmup)
    if back is None:
        message = (
            f"~{output} looks back to all of ~{name}, so the timeline cannot be cut; bound it in the query "
            '(hold(max_age=...), windows), give a key=, or say how far back is enough: warmup="1h". Without these only '
            "last values, extremes, counts and sums of integers can be carried from slice to slice, those of data "
            "frames, and if what they are of is computed row by row"
        )
        raise QueryError(message)
    if ahead is None:
        message = f"~{output} looks ahead to all of ~{name}, so the timeline cannot be cut; bound it in the query"
        raise QueryError(message)
    return Halo(back, ahead, length)
