"""What a push costs from Python: ``python -m benches.python.live``."""

from __future__ import annotations

import statistics
import time

import numpy as np

import tilt as tl

_PUSHES = 5_000
_SIZES = (1, 10, 100)


def trend() -> tl.Stream:
    """Give the difference of two means where it is positive, of ticks that come one at a time."""
    ticks = tl.source("ticks", {"t": "i64", "price": "f64"}, time="t", unit="ms", overlap="disjoint")
    change = ticks["price"]["-10s":].mean() - ticks["price"]["-20s":].mean()
    return change.filter(change > 0)


def measured(size: int, *, as_row: bool = False) -> list[float]:
    """Give the seconds that each push of so many rows takes, once the windows are full."""
    live = trend().session(threads=1)
    generator = np.random.default_rng(1)
    rows = 1_000 + _PUSHES * size
    times, prices = np.arange(rows) * 20, 100 + generator.normal(0, 1, rows).cumsum()
    live.push({"t": times[:1_000], "price": prices[:1_000]})
    taken = []
    for first in range(1_000, rows, size):
        if as_row:
            batch: object = {"t": int(times[first]), "price": float(prices[first])}
        else:
            batch = tl.Table({"t": times[first : first + size], "price": prices[first : first + size]})
        begin = time.perf_counter()
        live.push(batch)
        taken.append(time.perf_counter() - begin)
    return taken


def main() -> None:
    """Measure and print."""
    print("| a push of | half take at most, µs | 99 of 100 take at most, µs |\n|---|---|---|")
    for name, size, as_row in [("1 row, a dictionary", 1, True), *((f"{n} rows, a table", n, False) for n in _SIZES)]:
        cuts = statistics.quantiles(measured(size, as_row=as_row), n=100)
        print(f"| {name} | {cuts[49] * 1e6:.1f} | {cuts[98] * 1e6:.1f} |", flush=True)


if __name__ == "__main__":
    main()
