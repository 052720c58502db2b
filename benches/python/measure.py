"""Comparing the answers and taking the times."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benches.python.work import LIBRARIES, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.python.work import Columns, Data, Work

TOLERANCE = 1e-9
_BUDGET = 6.0
"""Seconds that one library may take for the repetitions of one query."""


@dataclass(frozen=True)
class Measured:
    """A query with the median of its times in seconds, by library."""

    work: Work
    seconds: dict[str, float]


def measure(work: Work, data: Data, repeats: int) -> Measured:
    """Run every library once, compare the answers, then take the times in turns.

    In turns, so that whatever else the machine does hits all alike. A library whose first run used up its budget is
    not run again: that one time is its result.

    Raises
    ------
    AssertionError
        If two libraries differ.

    """
    ways = {name: work.ways[name] for name in LIBRARIES if name in work.ways}
    times: dict[str, list[float]] = {}
    runs: dict[str, int] = {}
    expected: Columns | None = None
    for name, way in ways.items():
        seconds, answer = _timed(way, data)
        if seconds >= _BUDGET:
            times[name], runs[name] = [seconds], 0
        else:
            times[name], runs[name] = [], max(1, min(repeats, int(_BUDGET / seconds)))
        columns = _canonical(work, columns_of(answer))
        if expected is None:
            expected = columns
        else:
            _compare(work, name, columns, expected)
    for turn in range(repeats):
        for name, way in ways.items():
            if turn < runs[name]:
                times[name].append(_timed(way, data)[0])
    return Measured(work, {name: statistics.median(taken) for name, taken in times.items()})


def _timed(way: Callable[[Data], object], data: Data) -> tuple[float, object]:
    begin = time.perf_counter()
    result = way(data)
    return time.perf_counter() - begin, result


def _canonical(work: Work, columns: Columns) -> Columns:
    """Sort the rows and leave out those without a value."""
    present = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for values in columns.values():
        if values.dtype.kind == "f":
            present &= ~np.isnan(values)
    kept = {name: values[present] for name, values in columns.items()}
    order = np.lexsort([kept[name] for name in reversed(work.order)])
    return {name: values[order] for name, values in kept.items()}


def _compare(work: Work, library: str, columns: Columns, expected: Columns) -> None:
    for name, wanted in expected.items():
        found = columns[name]
        if len(found) != len(wanted):
            message = f"{work.name}: {library} gives {len(found)} rows, tilt {len(wanted)}"
            raise AssertionError(message)
        off = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
        if off.max(initial=0) > TOLERANCE:
            row = int(off.argmax())
            message = (
                f"{work.name}: in row {row}, column {name!r}, {library} gives {found[row]!r}, tilt {wanted[row]!r}"
            )
            raise AssertionError(message)
