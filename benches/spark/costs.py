"""What a run costs, as a sum of what is done to rows, fitted to what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
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
    cross_bytes: float = 0.0
    """What a hundred bytes more of each row add to ``cross``."""
    move_bytes: float = 0.0
    """The same of ``move``."""
    read_bytes: float = 0.0
    """The same of ``read``."""

    def sliced(self, halo: float, run: float, wider: float = 0.0) -> float:
        """Give the cost of a million rows that are moved, with a share of rows in halos, wider by hundreds of bytes."""
        cross, move = self.cross + wider * self.cross_bytes, self.move + wider * self.move_bytes
        return self.find + cross + (1 + halo) * (move + run)

    def direct(self, halo: float, run: float, wider: float = 0.0) -> float:
        """Give the cost of a million rows that tasks read."""
        return (1 + halo) * (self.read + wider * self.read_bytes + run) + self.back


COSTS = Costs(
    cross=0.18,
    find=0.09,
    move=0.18,
    read=0.03,
    back=0.04,
    cross_bytes=0.62,
    move_bytes=0.60,
    read_bytes=0.15,
)
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
    "z-score, 200 slices": ({"cross": 1.0, "find": 1.0, "move": 1.0}, "z-score"),
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
WIDER = {
    "identity": ("cross_bytes",),
    "diff, 10,000 keys": ("cross_bytes", "move_bytes"),
    "direct Parquet, few results": ("read_bytes",),
}
"""Cases that are measured with rows of 24 and of 88 bytes, and which costs that raises."""
HALOS = {"trend, 2 slices": 2 * 20, "trend, 200 slices": 200 * 20, "z-score, 200 slices": 200 * 600}
"""Of how many seconds the halos of a case are: that many hundred rows are moved and run once more.

Those of files are not here: slices that begin in a row group which the task holds for the one before have none."""


def fitted(measured: Mapping[str, Mapping[str, float]]) -> tuple[Costs, str]:
    """Give the costs that differ least from what was measured, in parts of it, and tables of both."""
    wider = of_bytes(measured)
    names = [item.name for item in fields(Costs) if item.name not in wider]
    found = {name: 1e6 * case["cpu"] / case["rows"] for name, case in measured.items() if name in MODEL}
    cpu = np.array([*found.values()])
    again = {name: 1 + 100 * HALOS.get(name, 0) / measured[name]["rows"] for name in found}
    often = np.array(
        [[MODEL[name][0].get(cost, 0.0) * (again[name] if cost == "move" else 1) for cost in names] for name in found]
    )
    engine = np.array([again[name] * ENGINE.get(MODEL[name][1] or "", 0.0) for name in found])
    costs, _ = nnls(often / cpu[:, None], (cpu - engine) / cpu)
    lines = ["| cost | CPU s per M rows |", "|---|---|"]
    whole = Costs(*costs.tolist(), **wider)
    lines += [f"| `{name}` | {cost:.2f} |" for name, cost in asdict(whole).items()]
    lines += ["", "| case | measured | by these |", "|---|---|---|"]
    both = zip(found.items(), often @ costs + engine, strict=True)
    lines += [f"| {name} | {cost:.2f} | {model:.2f} |" for (name, cost), model in both]
    return whole, "\n".join(lines)


def of_bytes(measured: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Give what a hundred bytes more cost: of cases on as many rows, so that what a case costs anyway is no part of it.

    >>> from benches.spark.costs import of_bytes
    >>> cpu = {"identity, 24 bytes": 1.0, "identity, 88 bytes": 1.32}
    >>> cpu |= {"diff, 10,000 keys, 24 bytes": 2.0, "diff, 10,000 keys, 88 bytes": 2.96}
    >>> of_bytes({name: {"cpu": seconds, "rows": 1e6} for name, seconds in cpu.items()})
    {'cross_bytes': 0.5, 'move_bytes': 1.0, 'read_bytes': 0.0}
    """
    found = dict.fromkeys(("cross_bytes", "move_bytes", "read_bytes"), 0.0)
    for name, raised in WIDER.items():
        pair = [measured.get(f"{name}, {size} bytes") for size in (24, 88)]
        if None in pair:
            continue
        few, many = (1e6 * case["cpu"] / case["rows"] for case in pair if case is not None)
        *others, own = raised
        found[own] = max((many - few) / 0.64 - sum(found[other] for other in others), 0.0)
    return {name: round(cost, 9) for name, cost in found.items()}
