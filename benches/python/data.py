"""The rows that the queries read."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl

from benches.python.work import THREADS, Array, Data

KEYS = 1_000
_BEGIN = np.datetime64("2026-01-05T00:00:00", "us")


def make(events: int) -> Data:
    """Make all tables: of ``events`` rows each, a millisecond apart on average, and half as many trades.

    ``ticks`` and ``quotes`` come at irregular times, no two at one; ``signal`` has a sample every millisecond.
    """
    rng = np.random.default_rng(26)
    tables = {
        "ticks": {
            "ts": _irregular(rng, events, 2_000),
            "key": rng.integers(0, KEYS, events),
            "x": _values(rng, events),
        },
        "signal": {"ts": _BEGIN + (np.arange(1, events + 1) * 1_000).astype("m8[us]"), "x": _values(rng, events)},
        "trades": {
            "ts": _irregular(rng, events // 2, 4_000),
            "key": rng.integers(0, KEYS, events // 2),
            "px": _values(rng, events // 2),
        },
    }
    connection = duckdb.connect()
    connection.execute(f"SET threads = {THREADS}")
    # A series of times counts as one row when the query is planned, and as-of joins of few rows are nested loops.
    connection.execute("SET asof_loop_join_threshold = 0")
    for name, columns in tables.items():
        frame = pl.DataFrame(columns)
        connection.register("frame", frame.to_arrow())
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")  # noqa: S608
        connection.unregister("frame")
    return Data(
        tables,
        {name: pd.DataFrame(columns) for name, columns in tables.items()},
        # Sorted flags are what a Polars user sets who knows that the rows are in order.
        {name: pl.DataFrame(columns).with_columns(pl.col("ts").set_sorted()) for name, columns in tables.items()},
        connection,
    )


def _irregular(rng: np.random.Generator, count: int, widest: int) -> Array:
    return _BEGIN + np.cumsum(rng.integers(1, widest, count)).astype("m8[us]")


def _values(rng: np.random.Generator, count: int) -> Array:
    return rng.normal(size=count)
