"""What everybody waits for: importing the package, compiling a query, running it on next to nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

_PROCESSES = 7

_IMPORT = """
import time
begin = time.perf_counter()
import {module}
print(time.perf_counter() - begin)
"""

# Ten operators: two windows' means, a deviation, a difference, a division, a clip, a shift, a product, a comparison and
# a filter.
_QUERY = """
import time
import tilt as tl

rows = tl.Table({"t": list(range(100)), "x": [float(i * i % 17) for i in range(100)]})

def build():
    x = tl.stream(rows, time="t", unit="s")["x"]
    score = ((x["-10s":].mean() - x["-20s":].mean()) / x["-20s":].std()).clip(-3, 3)
    moved = score.shift("5s") * 2
    return moved.filter(moved > 0)
"""

_COLD = (
    _QUERY
    + """
begin = time.perf_counter()
build().collect()
print(time.perf_counter() - begin)
"""
)

_WARM = (
    _QUERY
    + """
import statistics

def median(call):
    taken = []
    for _ in range(2000):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)

query = build()
query.collect()
print(median({call}))
"""
)


@dataclass(frozen=True)
class Wait:
    """A median in seconds, and what it may be at most, if that is said."""

    name: str
    seconds: float
    bar: float | None = None


def waits() -> list[Wait]:
    """Take all of them, each in processes of its own."""
    return [
        Wait("`import tilt`", _median(_IMPORT.replace("{module}", "tilt")), 0.150),
        *(
            Wait(f"`import {name}`", _median(_IMPORT.replace("{module}", name)))
            for name in ("pandas", "polars", "duckdb")
        ),
        Wait("building, compiling and first running a query of ten operators", _median(_COLD), 0.100),
        Wait("running it again on 100 rows", _median(_WARM.replace("{call}", "query.collect"), 3), 200e-6),
        Wait(
            "building it anew and running it on 100 rows",
            _median(_WARM.replace("{call}", "lambda: build().collect()"), 3),
        ),
    ]


def _median(program: str, processes: int = _PROCESSES) -> float:
    # A cache of compiled code on disk would make nothing cold. What pip installs has its bytecode beside it, and a
    # checkout gets it from the first process.
    left_out = {"TILT_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", program]
    # The first process finds the files not yet in memory, and may compile modules.
    outputs = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout  # noqa: S603
        for _ in range(processes + 1)
    ]
    return statistics.median(float(output) for output in outputs[1:])
