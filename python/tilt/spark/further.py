"""Slices that have more rows than are run at once: they are cut further, where the rows are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tilt.spark.cuts import Ends, Slices
from tilt.spark.task import as_integers, between, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tilt.spark.survey import CutInput
    from tilt.spark.task import QueryTask, TaskInput

Part: TypeAlias = "tuple[tuple[int, int], dict[str, tuple[int, int]]]"
"""A part ``(lo, hi]``, and of each input after which number rows must end and before which they must start to matter
there, as columns of times have them."""


def cut_further(
    query: QueryTask, cuts: Sequence[CutInput], rows: dict[str, pa.Table], whole: tuple[int, int]
) -> Iterator[tuple[dict[str, pa.Table], tuple[int, int]]]:
    """Give parts of a slice with the rows that each needs, which are in order of time."""
    parts = parts_within(query, cuts, rows, whole)
    if parts is None:
        yield rows, whole
        return
    for part, needs in parts:
        yield {given.name: between(rows[given.name], given.events, *needs[given.name]) for given in query.inputs}, part


def parts_within(
    query: QueryTask, cuts: Sequence[CutInput], rows: dict[str, pa.Table], whole: tuple[int, int]
) -> list[Part] | None:
    """Give the parts that a slice is run in, ``None`` if that is at once."""
    number = parts_of(rows, query.memory)
    if number <= 1 or any(times_of(given, rows).null_count for given in query.inputs):
        return None
    known = {
        given.name: _blocks(times_of(given, rows), cut.scale) for given, cut in zip(query.inputs, cuts, strict=True)
    }
    counted = [block for blocks in known.values() for block in blocks]
    lo, hi = whole
    slices = Slices(tuple(at for at in Slices.by_counts(counted, number).cuts if lo < at < hi))
    needs = {}
    for given, cut in zip(query.inputs, cuts, strict=True):
        ends = Ends(edge for block in known[given.name] for edge in block[:2])
        needs[given.name] = [cut.limits(*need) for need in slices.needs(cut.halo, ends)]
    parts = [slices.part(at) for at in range(len(slices))]
    return [
        ((max(begin, lo), min(end, hi)), {name: limits[at] for name, limits in needs.items()})
        for at, (begin, end) in enumerate(parts)
    ]


def times_of(given: TaskInput, rows: dict[str, pa.Table]) -> pa.ChunkedArray:
    """Give the ends of rows of an input."""
    times = given.events.times
    return rows[given.name].column(times if isinstance(times, str) else times[1])


def _blocks(column: pa.ChunkedArray, scale: int) -> list[tuple[int, int, int]]:
    """Give runs of rows, which are in order: first end, last end and how many."""
    times = as_integers(column)
    size = max(len(times) // 256, 1)
    runs = [times[first : first + size] for first in range(0, len(times), size)]
    return [(int(run[0]) * scale, int(run[-1]) * scale, len(run)) for run in runs]
