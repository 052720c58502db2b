"""Slices that have more rows than are run at once: they are cut further, where the rows are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilt.spark.cuts import Ends, Slices
from tilt.spark.task import as_integers, between, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tilt.spark.survey import CutInput
    from tilt.spark.task import QueryTask, TaskInput


def cut_further(
    query: QueryTask, cuts: Sequence[CutInput], rows: dict[str, pa.Table], whole: tuple[int, int]
) -> Iterator[tuple[dict[str, pa.Table], tuple[int, int]]]:
    """Give parts of a slice with the rows that each needs, which are in order of time."""
    number = parts_of(rows, query.memory)
    if number <= 1 or any(_times(given, rows).null_count for given in query.inputs):
        yield rows, whole
        return
    known = {given.name: _blocks(_times(given, rows), cut.scale) for given, cut in zip(query.inputs, cuts, strict=True)}
    counted = [block for blocks in known.values() for block in blocks]
    lo, hi = whole
    slices = Slices(tuple(at for at in Slices.by_counts(counted, number).cuts if lo < at < hi))
    needs = {}
    for given, cut in zip(query.inputs, cuts, strict=True):
        ends = Ends(edge for block in known[given.name] for edge in block[:2])
        needs[given.name] = [cut.limits(*need) for need in slices.needs(cut.halo, ends)]
    for at in range(len(slices)):
        begin, end = slices.part(at)
        some = {given.name: between(rows[given.name], given.events, *needs[given.name][at]) for given in query.inputs}
        yield some, (max(begin, lo), min(end, hi))


def _times(given: TaskInput, rows: dict[str, pa.Table]) -> pa.ChunkedArray:
    times = given.events.times
    return rows[given.name].column(times if isinstance(times, str) else times[1])


def _blocks(column: pa.ChunkedArray, scale: int) -> list[tuple[int, int, int]]:
    """Give runs of rows, which are in order: first end, last end and how many."""
    times = as_integers(column)
    size = max(len(times) // 256, 1)
    runs = [times[first : first + size] for first in range(0, len(times), size)]
    return [(int(run[0]) * scale, int(run[-1]) * scale, len(run)) for run in runs]
