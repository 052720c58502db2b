"""Sliding and tumbling windows of one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

import tilt as tl
from benches.python import loops
from benches.python.work import THREADS, Work

if TYPE_CHECKING:
    import pandas as pd

    from benches.python.work import Columns, Data

_THRESHOLD = 0.01
_SAMPLES = 1_000
# DuckDB's ranges include both ends, those of all others only the right one.
_SECOND = "RANGE BETWEEN INTERVAL 999999 MICROSECOND PRECEDING AND CURRENT ROW"
_TWO_SECONDS = "RANGE BETWEEN INTERVAL 1999999 MICROSECOND PRECEDING AND CURRENT ROW"
_LAST_SAMPLES = f"ROWS BETWEEN {_SAMPLES - 1} PRECEDING AND CURRENT ROW"


def _ticks(data: Data) -> tl.Stream:
    return tl.stream(data.polars["ticks"], time="ts")["x"]


def _signal(data: Data) -> tl.Stream:
    return tl.stream(data.polars["signal"], time="ts", period="1ms")["x"]


def _rolling(data: Data, window: str) -> pd.api.typing.Rolling[pd.Series[float]]:
    return _series(data, "ticks").rolling(window)


def _series(data: Data, table: str) -> pd.Series[float]:
    return data.pandas[table].set_index("ts")["x"]


def _trend_tilt(data: Data) -> tl.Table:
    x = _ticks(data)
    trend = x["-1s":].mean() - x["-2s":].mean()
    return trend.filter(trend > _THRESHOLD).collect(threads=THREADS)


def _trend_pandas(data: Data) -> pd.DataFrame:
    trend = _rolling(data, "1s").mean() - _rolling(data, "2s").mean()
    return trend[trend > _THRESHOLD].reset_index()


def _trend_polars(data: Data) -> pl.DataFrame:
    x = pl.col("x")
    trend = x.rolling_mean_by("ts", "1s") - x.rolling_mean_by("ts", "2s")
    return data.polars["ticks"].lazy().select("ts", x=trend).filter(x > _THRESHOLD).collect()


def _trend_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        f"""
        SELECT * FROM (SELECT ts, avg(x) OVER (ORDER BY ts {_SECOND}) - avg(x) OVER (ORDER BY ts {_TWO_SECONDS}) AS x
                       FROM ticks) WHERE x > {_THRESHOLD}
        """  # noqa: S608
    ).to_arrow_table()


def _trend_numba(data: Data) -> Columns:
    ticks = data.tables["ticks"]
    times = ticks["ts"].view("i8")
    trend = loops.rolling_mean(times, ticks["x"], 1_000_000) - loops.rolling_mean(times, ticks["x"], 2_000_000)
    kept = trend > _THRESHOLD
    return {"ts": ticks["ts"][kept], "x": trend[kept]}


def _score_tilt(data: Data) -> tl.Table:
    x = _ticks(data)
    return ((x - x["-1s":].mean()) / x["-1s":].std()).collect(threads=THREADS)


def _score_pandas(data: Data) -> pd.DataFrame:
    window = _rolling(data, "1s")
    return ((_series(data, "ticks") - window.mean()) / window.std()).reset_index()


def _score_polars(data: Data) -> pl.DataFrame:
    x = pl.col("x")
    score = (x - x.rolling_mean_by("ts", "1s")) / x.rolling_std_by("ts", "1s")
    return data.polars["ticks"].lazy().select("ts", x=score).collect()


def _score_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        f"SELECT ts, (x - avg(x) OVER w) / stddev_samp(x) OVER w AS x FROM ticks WINDOW w AS (ORDER BY ts {_SECOND})"  # noqa: S608
    ).to_arrow_table()


def _score_numba(data: Data) -> Columns:
    ticks = data.tables["ticks"]
    return {"ts": ticks["ts"], "x": loops.rolling_score(ticks["ts"].view("i8"), ticks["x"], 1_000_000)}


def _kurtosis_tilt(data: Data) -> tl.Table:
    return _signal(data)["-1s":].kurtosis(bias=False).collect(threads=THREADS)


def _kurtosis_pandas(data: Data) -> pd.DataFrame:
    return _series(data, "signal").rolling(_SAMPLES, min_periods=4).kurt().reset_index()


def _kurtosis_polars(data: Data) -> pl.DataFrame:
    kurtosis = pl.col("x").rolling_kurtosis(_SAMPLES, bias=False, min_samples=4)
    return data.polars["signal"].lazy().select("ts", x=kurtosis).collect()


def _kurtosis_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        f"SELECT ts, kurtosis(x) OVER (ORDER BY ts {_LAST_SAMPLES}) AS x FROM signal"  # noqa: S608
    ).to_arrow_table()


def _kurtosis_numba(data: Data) -> Columns:
    signal = data.tables["signal"]
    return {"ts": signal["ts"], "x": loops.rolling_kurtosis(signal["x"], _SAMPLES)}


def _crest_tilt(data: Data) -> tl.Table:
    return _signal(data)["-1s":].crest_factor().collect(threads=THREADS)


def _crest_pandas(data: Data) -> pd.DataFrame:
    x = _series(data, "signal")
    largest = x.abs().rolling(_SAMPLES, min_periods=1).max()
    return (largest / (x * x).rolling(_SAMPLES, min_periods=1).mean() ** 0.5).reset_index()


def _crest_polars(data: Data) -> pl.DataFrame:
    x = pl.col("x")
    largest = x.abs().rolling_max(_SAMPLES, min_samples=1)
    crest = largest / (x * x).rolling_mean(_SAMPLES, min_samples=1).sqrt()
    return data.polars["signal"].lazy().select("ts", x=crest).collect()


def _crest_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        f"""
        SELECT ts, max(abs(x)) OVER w / sqrt(avg(x * x) OVER w) AS x FROM signal
        WINDOW w AS (ORDER BY ts {_LAST_SAMPLES})
        """  # noqa: S608
    ).to_arrow_table()


def _crest_numba(data: Data) -> Columns:
    signal = data.tables["signal"]
    return {"ts": signal["ts"], "x": loops.rolling_crest(signal["x"], _SAMPLES)}


def _mean_tilt(data: Data) -> tl.Table:
    return _ticks(data).window(tl.tumbling("1s")).mean().collect(threads=THREADS)


def _mean_pandas(data: Data) -> pd.DataFrame:
    return _series(data, "ticks").resample("1s", closed="right", label="right").mean().reset_index()


def _mean_polars(data: Data) -> pl.DataFrame:
    groups = data.polars["ticks"].lazy().group_by_dynamic("ts", every="1s", closed="right", label="right")
    return groups.agg(pl.col("x").mean()).collect()


def _mean_duckdb(data: Data) -> Any:  # noqa: ANN401
    return data.duckdb.sql(
        """
        SELECT time_bucket(INTERVAL 1 SECOND, ts - INTERVAL 1 MICROSECOND) + INTERVAL 1 SECOND AS ts, avg(x) AS x
        FROM ticks GROUP BY 1 ORDER BY 1
        """
    ).to_arrow_table()


def _mean_numba(data: Data) -> Columns:
    bars = _bars_numba(data)
    return {"ts": bars["ts"], "x": bars["mean"]}


def _bars_tilt(data: Data) -> tl.Table:
    bars = _ticks(data).window(tl.tumbling("1s"))
    return bars.agg(open=tl.first(), high=tl.max(), low=tl.min(), close=tl.last()).collect(threads=THREADS)


def _bars_pandas(data: Data) -> pd.DataFrame:
    return _series(data, "ticks").resample("1s", closed="right", label="right").ohlc().reset_index()


def _bars_polars(data: Data) -> pl.DataFrame:
    x = pl.col("x")
    groups = data.polars["ticks"].lazy().group_by_dynamic("ts", every="1s", closed="right", label="right")
    return groups.agg(open=x.first(), high=x.max(), low=x.min(), close=x.last()).collect()


def _bars_duckdb(data: Data) -> Any:  # noqa: ANN401
    return (
        data.duckdb.sql(
            """
        SELECT time_bucket(INTERVAL 1 SECOND, ts - INTERVAL 1 MICROSECOND) + INTERVAL 1 SECOND AS end_of_bar,
               arg_min(x, ts) AS open, max(x) AS high, min(x) AS low, arg_max(x, ts) AS close
        FROM ticks GROUP BY 1 ORDER BY 1
        """
        )
        .to_arrow_table()
        .rename_columns(["ts", "open", "high", "low", "close"])
    )


def _bars_numba(data: Data) -> Columns:
    ticks = data.tables["ticks"]
    ends, mean, *prices = loops.bars(ticks["ts"].view("i8"), ticks["x"], 1_000_000)
    named = dict(zip(("open", "high", "low", "close"), prices, strict=True))
    return {"ts": ends.view("M8[us]"), **named, "mean": mean}


WORKS = [
    Work(
        "trend: difference of 1 s and 2 s means, filtered",
        {
            "tilt": _trend_tilt,
            "pandas": _trend_pandas,
            "polars": _trend_polars,
            "duckdb": _trend_duckdb,
            "numba": _trend_numba,
        },
        5.0,
    ),
    Work(
        "z-score over 1 s",
        {
            "tilt": _score_tilt,
            "pandas": _score_pandas,
            "polars": _score_polars,
            "duckdb": _score_duckdb,
            "numba": _score_numba,
        },
        5.0,
    ),
    Work(
        "rolling kurtosis, 1000 samples",
        {
            "tilt": _kurtosis_tilt,
            "pandas": _kurtosis_pandas,
            "polars": _kurtosis_polars,
            "duckdb": _kurtosis_duckdb,
            "numba": _kurtosis_numba,
        },
        5.0,
    ),
    Work(
        "crest factor, 1000 samples",
        {
            "tilt": _crest_tilt,
            "pandas": _crest_pandas,
            "polars": _crest_polars,
            "duckdb": _crest_duckdb,
            "numba": _crest_numba,
        },
        5.0,
    ),
    Work(
        "tumbling mean, 1 s",
        {
            "tilt": _mean_tilt,
            "pandas": _mean_pandas,
            "polars": _mean_polars,
            "duckdb": _mean_duckdb,
            "numba": _mean_numba,
        },
        1.0,
    ),
    Work(
        "OHLC bars, 1 s",
        {
            "tilt": _bars_tilt,
            "pandas": _bars_pandas,
            "polars": _bars_polars,
            "duckdb": _bars_duckdb,
            "numba": _bars_numba,
        },
        1.0,
    ),
]
