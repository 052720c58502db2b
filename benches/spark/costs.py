"""What a run costs, as a sum of what is done to rows, fitted to what was measured."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Costs:
    """CPU seconds for a million rows."""

    cross: float
    """Out of files into the JVM, from there to Arrow, and back to the JVM."""
    find: float
    """The pass over times, or over times and keys, and what it makes of them."""
    move: float
    """Into blocks, through the shuffle, and out of blocks."""
    read: float
    """Out of files into Arrow, by a task."""
    back: float
    """From Arrow to the JVM."""

    def sliced(self, halo: float, run: float) -> float:
        """Give the cost of a million rows that are moved, with a share of rows in halos."""
        return self.find + self.cross + (1 + halo) * (self.move + run)

    def direct(self, halo: float, run: float) -> float:
        """Give the cost of a million rows that tasks read."""
        return (1 + halo) * (self.read + run) + self.back


COSTS = Costs(cross=0.42, find=0.28, move=0.36, read=0.0, back=0.2)
"""What was fitted last."""
ENGINE = {"trend": 0.01, "few results": 0.001, "diff": 0.03, "z-score": 0.07}
"""What queries take themselves: measured in a process without Spark, those with a key on rows of 10,000 keys."""
_SLICED = {"cross": 1.0, "back": -0.5, "find": 1.0, "move": 1.0}
_DIRECT = {"read": 1.0, "back": 0.5}
_KEYED = {"cross": 1.0, "move": 1.0}
MODEL: dict[str, tuple[Mapping[str, float], str | None]] = {
    "identity": ({"cross": 1.0}, None),
    "trend, 2 slices": (_SLICED, "trend"),
    "trend, 200 slices": (_SLICED, "trend"),
    "trend, direct Parquet": (_DIRECT, "trend"),
    "trend, direct Parquet, 200 slices": (_DIRECT, "trend"),
    "direct Parquet, few results": ({"read": 1.0}, "few results"),
    "diff, 10,000 keys": (_KEYED, "diff"),
    "diff, 10,000 keys, direct Parquet": ({"read": 1.0, "move": 1.0, "back": 1.0}, "diff"),
    "z-score, 10,000 keys": (_KEYED | {"find": 1.0}, "z-score"),
    "z-score, 10,000 keys, no look for skew": (_KEYED, "z-score"),
    "z-score, 10,000 keys, direct Parquet": ({"read": 1.0, "back": 1.0}, "z-score"),
}
"""How often rows of a case have each cost, and which query it is. The trend gives half of its rows."""


def fitted(measured: Mapping[str, Mapping[str, float]]) -> tuple[Costs, str]:
    """Give the costs that differ least from what was measured, in parts of it, and tables of both."""
    names = [item.name for item in fields(Costs)]
    found = {name: 1e6 * case["cpu"] / case["rows"] for name, case in measured.items() if name in MODEL}
    cpu = np.array([*found.values()])
    often = np.array([[MODEL[name][0].get(cost, 0.0) for cost in names] for name in found])
    engine = np.array([ENGINE.get(MODEL[name][1] or "", 0.0) for name in found])
    costs, _ = nnls(often / cpu[:, None], (cpu - engine) / cpu)
    lines = ["| cost | CPU s per M rows |", "|---|---|"]
    lines += [f"| `{name}` | {cost:.2f} |" for name, cost in zip(names, costs, strict=True)]
    lines += ["", "| case | measured | by these |", "|---|---|---|"]
    both = zip(found.items(), often @ costs + engine, strict=True)
    lines += [f"| {name} | {cost:.2f} | {model:.2f} |" for (name, cost), model in both]
    return Costs(*costs.tolist()), "\n".join(lines)
