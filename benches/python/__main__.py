"""Compare tilt with pandas, Polars, DuckDB and numba: ``python -m benches.python [--only trend] [--report]``."""

from __future__ import annotations

import argparse
import os

from benches.python.work import THREADS

# Polars reads it once, when it is imported.
os.environ["POLARS_MAX_THREADS"] = str(THREADS)

from benches.python import data, report, startup
from benches.python.measure import measure
from benches.python.queries import joins, windows


def main() -> None:
    """Measure, print, and store if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benches.python", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000, help="how many rows the larger tables have")
    parser.add_argument("--repeats", type=int, default=5, help="how often a library runs a query at most")
    parser.add_argument("--only", default="", help="only queries whose name contains this; 'startup' for the waits")
    parser.add_argument("--report", action="store_true", help="store tables and chart in docs/")
    options = parser.parse_args()

    waits = startup.waits() if options.only in {"", "startup"} else []
    for wait in waits:
        print(f"{wait.name}: {wait.seconds * 1e3:.3f} ms", flush=True)
    works = [work for work in [*windows.WORKS, *joins.WORKS] if options.only in work.name]
    measured = []
    if works:
        rows = data.make(options.events)
        for work in works:
            measured.append(measure(work, rows, options.repeats))
            times = ", ".join(f"{name} {seconds * 1e3:.1f}" for name, seconds in measured[-1].seconds.items())
            print(f"{work.name}: {times} ms", flush=True)
    text = report.markdown(measured, waits, options.events)
    print(f"\n{text}")
    if options.report:
        report.store(text)
        if measured:
            report.chart(measured, options.events)


if __name__ == "__main__":
    main()
