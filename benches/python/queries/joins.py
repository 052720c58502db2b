"""Keys, joins by time, and values between events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl

import tilt as tl
from benches.python import loops
from benches.python.data import KEYS
from benches.python.work import THREADS, Work

if TYPE_CHECKING:
    from benches.python.work import Columns, Data

_WINDOW = "RANGE BETWEEN INTERVAL 99999999 MICROSECOND PRECEDING AND CURRENT ROW"


def _keyed_tilt(data: Data) -> tl.Table:
    x = tl.stream(data.polars["ticks"], time="ts").key_by("key")["x"]
    return x["-100s":].mean().collect(threads=THREADS)


def _keyed_pandas(data: Data) -> pd.DataFrame:
    return data.pandas["ticks"].groupby("key").rolling("100s", on="ts")["x"].mean().reset_index()


def _keyed_polars(data: Data) -> pl.DataFrame:
    mean = pl.col("x").rolling_mean_by("ts", "100s").over("key")
    return data.polars["ticks"].lazy().select("ts", "key", x=mean).collect()


def _keyed_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        f"SELECT ts, key, avg(x) OVER (PARTITION BY key ORDER BY ts {_WINDOW}) AS x FROM ticks"  # noqa: S608
    ).to_arrow_table()


def _keyed_numba(data: Data) -> Columns:
    ticks = data.tables["ticks"]
    mean = loops.keyed_mean(ticks["ts"].view("i8"), ticks["key"], ticks["x"], 100_000_000, KEYS)
    return {"ts": ticks["ts"], "key": ticks["key"], "x": mean}


def _asof_tilt(data: Data) -> tl.Table:
    quotes = tl.stream(data.polars["ticks"], time="ts", name="quotes").key_by("key")
    trades = tl.stream(data.polars["trades"], time="ts", name="trades").key_by("key")
    return trades.join_asof(quotes.select("x")).collect(threads=THREADS)


def _asof_pandas(data: Data) -> pd.DataFrame:
    return pd.merge_asof(data.pandas["trades"], data.pandas["ticks"], on="ts", by="key")


def _asof_polars(data: Data) -> pl.DataFrame:
    trades, quotes = data.polars["trades"].lazy(), data.polars["ticks"].lazy()
    return trades.join_asof(quotes, on="ts", by="key", check_sortedness=False).collect()


def _asof_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        """
        SELECT trades.ts, trades.key, px, x FROM trades ASOF LEFT JOIN ticks
        ON trades.key = ticks.key AND trades.ts >= ticks.ts
        """
    ).to_arrow_table()


def _asof_numba(data: Data) -> Columns:
    trades, quotes = data.tables["trades"], data.tables["ticks"]
    times, quote_times = trades["ts"].view("i8"), quotes["ts"].view("i8")
    x = loops.as_of(times, trades["key"], quote_times, quotes["key"], quotes["x"], KEYS)
    return {**trades, "x": x}


def _ewm_tilt(data: Data) -> tl.Table:
    return tl.stream(data.polars["ticks"], time="ts")["x"].ewm(half_life="1s").collect(threads=THREADS)


def _ewm_pandas(data: Data) -> pd.DataFrame:
    ticks = data.pandas["ticks"]
    mean = ticks["x"].ewm(halflife="1s", times=ticks["ts"]).mean()  # type: ignore[arg-type]
    return pd.DataFrame({"ts": ticks["ts"], "x": mean})


def _ewm_numba(data: Data) -> Columns:
    ticks = data.tables["ticks"]
    return {"ts": ticks["ts"], "x": loops.ewm(ticks["ts"].view("i8"), ticks["x"], 1_000_000)}


def _fill_tilt(data: Data) -> tl.Table:
    return tl.stream(data.polars["ticks"], time="ts")["x"].resample("1ms").collect(threads=THREADS)


def _fill_pandas(data: Data) -> pd.DataFrame:
    return data.pandas["ticks"].set_index("ts")["x"].resample("1ms").ffill().reset_index()


def _fill_polars(data: Data) -> pl.DataFrame:
    ticks = data.polars["ticks"]
    first, last = pl.col("ts").first().dt.truncate("1ms"), pl.col("ts").last()
    grid = ticks.lazy().select(pl.datetime_range(first, last, "1ms").set_sorted())
    return grid.join_asof(ticks.lazy().select("ts", "x"), on="ts", check_sortedness=False).collect()


def _fill_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        """
        WITH ends AS (SELECT date_trunc('millisecond', min(ts)) AS first, max(ts) AS last FROM ticks),
             grid AS (SELECT unnest(generate_series(first, last, INTERVAL 1 MILLISECOND)) AS ts FROM ends)
        SELECT grid.ts, x FROM grid ASOF JOIN ticks ON grid.ts >= ticks.ts
        """
    ).to_arrow_table()


def _fill_numba(data: Data) -> Columns:
    ticks = data.tables["ticks"]
    times, values = loops.resample(ticks["ts"].view("i8"), ticks["x"], 1_000)
    return {"ts": times.view("M8[us]"), "x": values}


WORKS = [
    Work(
        f"rolling mean over 100 s, {KEYS} keys",
        {
            "tilt": _keyed_tilt,
            "pandas": _keyed_pandas,
            "polars": _keyed_polars,
            "duckdb": _keyed_duckdb,
            "numba": _keyed_numba,
        },
        5.0,
        order=("ts", "key"),
    ),
    Work(
        f"as-of join, {KEYS} keys",
        {
            "tilt": _asof_tilt,
            "pandas": _asof_pandas,
            "polars": _asof_polars,
            "duckdb": _asof_duckdb,
            "numba": _asof_numba,
        },
        5.0,
        order=("ts", "key"),
    ),
    Work(
        "EWMA, half-life 1 s",
        {"tilt": _ewm_tilt, "pandas": _ewm_pandas, "numba": _ewm_numba},
        1.0,
        notes={
            "polars": "`ewm_mean_by` weights the first event differently",
            "duckdb": "has no exponentially weighted mean",
        },
    ),
    Work(
        "resample to 1 ms, forward fill",
        {
            "tilt": _fill_tilt,
            "pandas": _fill_pandas,
            "polars": _fill_polars,
            "duckdb": _fill_duckdb,
            "numba": _fill_numba,
        },
        1.0,
    ),
]
