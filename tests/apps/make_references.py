#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1", "pyarrow==26.0.1", "polars==2.1.0"]
# ///
"""Make the fixtures of the application queries: inputs and what NumPy, SciPy, pandas and Polars say the result is.

Usage::

    python make_references.py           # write data/
    python make_references.py --check   # regenerate into a temporary directory and compare bytes with data/

Nothing here knows the IR. Each function draws one application's input from a fixed seed, computes the result with
library routines, and asserts what makes the case worth having (gaps, ties, found beats, found frauds) and that rounding
decides no comparison of the query. Inputs are rounded to a few decimals, so they do not depend on the last bit of a
sine. Expected values are written with ``repr``, which reads back to the same double.

Intervals: an event is ``(start, end]`` in ticks. A point at ``t`` is ``(t-1, t]``, a sample of period ``d`` is
``(t-d, t]``, a window is its grid cell.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray
from scipy import signal, stats

Cell = int | float | str | None
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class Table:
    """A CSV file: header, rows and, for an expected result, ``(rtol, atol)``."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    tolerance: tuple[float, float] | None = None

    def text(self) -> str:
        """The file's content."""
        lines = []
        if self.tolerance is not None:
            rtol, atol = self.tolerance
            lines.append(f"# rtol={rtol!r} atol={atol!r}")
        lines.append(",".join(self.columns))
        lines += [",".join(map(_cell, row)) for row in self.rows]
        return "\n".join(lines) + "\n"


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        assert value and not set(value) & set(',"#\n'), f"a cell that would need quotes: {value!r}"
        return value
    return repr(value)


def _samples(stamps: Ints, values: Floats) -> Table:
    """An input of stamped scalars; NaN becomes a null cell."""
    cells = [None if np.isnan(v) else v for v in values.tolist()]
    return Table(["t", "value"], list(zip(stamps.tolist(), cells, strict=True)))


def _events(ends: Ints, length: int, values: Floats, tolerance: tuple[float, float]) -> Table:
    """An expected result whose events all last ``length`` ticks."""
    rows = [(end - length, end, value) for end, value in zip(ends.tolist(), values.tolist(), strict=True)]
    return Table(["start", "end", "value"], rows, tolerance)


def _cell_ends(stamps: Ints, width: int) -> Ints:
    """The end of the grid cell ``(g - width, g]`` that holds each stamp."""
    return -(-stamps // width) * width


def trend() -> dict[str, Table]:
    """Polars rolling means of 10 s and 20 s; pandas agrees where no two trades share a stamp."""
    rng = np.random.default_rng(20_001)
    n = 300
    steps = rng.integers(40, 2_200, n)
    steps[[90, 180, 240]] = [12_500, 21_000, 45_000]  # longer than the short window, longer than both
    steps[[31, 32, 120, 200, 201, 202]] = 0  # trades in one millisecond
    steps[51:61] = steps[141:161] = 1_000  # trades exactly 10 s and 20 s apart
    stamps = 1_700_000_000_000 + np.cumsum(steps, dtype=np.int64)
    # In sixty-fourths, so that sums are exact in any order: the means of the same trades are equal.
    price = np.round(64.0 * (100.0 + np.cumsum(rng.normal(0.0, 0.05, n)))) / 64.0

    frame = pl.DataFrame({"t": stamps, "price": price}).with_columns(pl.col("t").cast(pl.Datetime("ms")))

    def mean(period: str) -> Floats:
        windows = frame.rolling("t", period=period, closed="right").agg(pl.col("price").mean())
        return windows["price"].to_numpy()

    diff = mean("10s") - mean("20s")

    series = pd.Series(price, index=pd.to_datetime(stamps, unit="ms"))
    check = (series.rolling("10s").mean() - series.rolling("20s").mean()).to_numpy()
    last = ~series.index.duplicated(keep="last")  # pandas ends a window at its row: only the last twin sees all twins
    np.testing.assert_allclose(diff[last], check[last], rtol=0, atol=1e-11)

    # Zero where both windows hold the same trades, and nowhere else nearly so.
    assert (np.abs(diff) < 1e-6).sum() == (diff == 0.0).sum() > 5
    up = diff > 0.0
    assert 50 < up.sum() < 250
    return {
        "trend.stock": _samples(stamps, price),
        # Two means of prices near 100 with an error of about 1e-14 each; their difference is small: absolute.
        "trend.expected": _events(stamps[up], 1, diff[up], (0.0, 1e-12)),
    }


def rsi() -> dict[str, Table]:
    """Pandas rolling means of gains and losses over 14 daily changes."""
    rng = np.random.default_rng(20_002)
    day = 86_400
    close = 50.0 * np.exp(np.cumsum(rng.normal(0.0, 0.02, 160)))
    close[60:80] = close[60] * 1.01 ** np.arange(20)  # no loss for more than 14 days
    close[80:] *= close[79] / close[80]
    close[100:104] = close[100]  # unchanged for some days
    present = ~np.isin(np.arange(160), [120, 137])  # two days without a close
    stamps = (19_700 + np.arange(160, dtype=np.int64)[present]) * day + 21 * 3_600  # stamped 21:00
    close = np.round(close[present], 2)

    daily = pd.Series(close, index=pd.to_datetime(stamps, unit="s")).asfreq("D")
    change = daily.diff()

    def mean(part: pd.Series[float]) -> Floats:
        return part.rolling(14, min_periods=14).apply(np.mean, raw=True).to_numpy(dtype=np.float64)

    up, down = mean(change.clip(lower=0.0)), mean((-change).clip(lower=0.0))
    with np.errstate(divide="ignore"):
        index = 100.0 - 100.0 / (1.0 + up / down)
    known = ~np.isnan(index)
    ends = (19_700 + np.arange(160, dtype=np.int64)) * day + 21 * 3_600
    # Days 14 to 119, then from 14 changes after each missing day.
    assert np.flatnonzero(known).tolist() == [*range(14, 120), 135, 136, *range(152, 160)]
    assert (index == 100.0).sum() >= 5
    assert np.nanmin(index) < 40.0
    return {
        "rsi.close": _samples(stamps, close),
        # Two means of 14 positive numbers and five operations, a few ulp each; the result is at most 100.
        "rsi.expected": _events(ends[known], day, index[known], (1e-13, 1e-12)),
    }


def normalize() -> dict[str, Table]:
    """`scipy.stats.zscore` of each group of samples that share a 10 s cell."""
    rng = np.random.default_rng(20_003)
    stamps = np.arange(3_050, 29_001, 50, dtype=np.int64)  # two short windows around a full one
    stamps = np.delete(stamps, slice(220, 260))  # a gap of 2 s within a window
    level = np.select([stamps <= 10_000, stamps <= 20_000], [20.0, -3.0], 150.0)  # each window has its own scale
    scale = np.select([stamps <= 10_000, stamps <= 20_000], [4.0, 0.01], 30.0)
    x = np.round(level + scale * rng.normal(size=len(stamps)), 6)

    cells = pd.Series(x).groupby(_cell_ends(stamps, 10_000))
    z = cells.transform(lambda window: stats.zscore(window.to_numpy(), ddof=0)).to_numpy(dtype=np.float64)
    assert cells.ngroups == 3
    return {
        "normalize.x": _samples(stamps, x),
        # x - mean loses |mean|/std digits: at worst 3/0.01 ulp (7e-14) plus as much again from the mean's own sum.
        "normalize.expected": _events(stamps, 50, z, (1e-12, 1e-12)),
    }


def impute() -> dict[str, Table]:
    """Pandas `fillna` with the mean of the sample's 500 ms group."""
    rng = np.random.default_rng(20_004)
    period, width = 5, 500
    stamps = np.arange(105, 2_501, period, dtype=np.int64)
    phase = 2.0 * np.pi * stamps / 1_000.0
    signal_ = np.round(80.0 + 12.0 * np.sin(1.2 * phase) + rng.normal(0.0, 0.5, len(stamps)), 4)

    missing = rng.random(len(stamps)) < 0.08
    missing |= (stamps > 640) & (stamps <= 720)
    missing |= (stamps > 980) & (stamps <= 1_500)  # includes the whole window (1000, 1500]
    missing |= stamps > 2_330
    missing[0] = False
    x = pd.Series(signal_, index=stamps).mask(missing)

    # The first and the last window have a mean, so they are filled from end to end.
    grid = np.arange(period, 2_501, period, dtype=np.int64)
    sampled = x.reindex(grid)
    filled = sampled.fillna(sampled.groupby(_cell_ends(grid, width)).transform("mean")).to_numpy(dtype=np.float64)
    known = ~np.isnan(filled)
    assert (grid[~known] > 1_000).all() and (grid[~known] <= 1_500).all() and (~known).sum() == 100
    assert sampled.loc[:100].isna().all() and len(set(filled[grid <= 100])) == 1

    # A dropout is a missing row or, here and there, a row without a value.
    rows = ~missing | (rng.random(len(stamps)) < 0.3)
    rows &= stamps <= 2_330
    assert (rows & missing).sum() > 10
    return {
        "impute.x": _samples(stamps[rows], x.to_numpy(dtype=np.float64)[rows]),
        # The mean of at most 100 numbers near 80: 100 half ulp, 1e-14 relative, if they all went one way.
        "impute.expected": _events(grid[known], period, filled[known], (1e-13, 0.0)),
    }


def resample() -> dict[str, Table]:
    """`numpy.interp`, left out between neighbours more than a period apart."""
    rng = np.random.default_rng(20_005)
    stamps = np.arange(0, 1_201, 4, dtype=np.int64)
    wave = np.sin(2.0 * np.pi * stamps / 170.0) + 0.3 * np.sin(2.0 * np.pi * stamps / 41.0)
    x = np.round(wave + rng.normal(0.0, 0.02, len(stamps)), 6)
    present = ~np.isin(stamps, [100, 396, 400, 404, 804, 808])  # 100 and 400 are also on the new grid
    stamps, x = stamps[present], x[present]

    grid = np.arange(0, 1_201, 5, dtype=np.int64)
    line = np.interp(grid, stamps, x)
    after = np.searchsorted(stamps, grid)  # the first sample at or after the instant
    hit = stamps[after] == grid
    bridged = np.diff(stamps, prepend=stamps[0])[after] == 4
    known = hit | bridged
    assert sorted(grid[~known]) == [100, 395, 400, 405, 805, 810]
    assert known[0] and known[-1], "the first and the last sample are on the grid"
    return {
        "resample.x": _samples(stamps, x),
        # interp works with the slope, (y1-y0)/4*(t-t0)+y0: three operations on numbers below 2.
        "resample.expected": _events(grid[known], 5, line[known], (1e-15, 2e-15)),
    }


def pan_tompkins() -> dict[str, Table]:
    """`scipy.signal.lfilter`, one call a stage, with zero initial conditions."""
    rng = np.random.default_rng(20_006)
    period = 5
    beats = np.array([450, 1_220, 1_985, 2_800], dtype=np.int64)
    stamps = np.arange(period, 3_201, period, dtype=np.int64)
    millivolt = 0.15 * np.sin(2.0 * np.pi * stamps / 3_100.0) + rng.normal(0.0, 0.01, len(stamps))
    # P, Q, R, S, T: milliseconds from R, millivolts, width in milliseconds.
    for offset, height, width in [(-170, 0.12, 20), (-27, -0.12, 8), (0, 1.2, 11), (28, -0.25, 9), (260, 0.3, 45)]:
        for beat in beats:
            millivolt += height * np.exp(-0.5 * ((stamps - beat - offset) / width) ** 2)
    ecg = np.round(200.0 * millivolt)  # counts of the converter, as MIT-BIH and MIMIC store them

    def taps(length: int, values: dict[int, float]) -> Floats:
        b = np.zeros(length)
        b[list(values)] = list(values.values())
        return b

    low_b, low_a = taps(13, {0: 1.0, 6: -2.0, 12: 1.0}), [1.0, -2.0, 1.0]
    # 32 z^-16 - (1 - z^-32) / (1 - z^-1), over a common denominator.
    high_b, high_a = taps(33, {0: -1.0, 16: 32.0, 17: -32.0, 32: 1.0}), [1.0, -1.0]
    low = signal.lfilter(low_b, low_a, ecg)
    high = signal.lfilter(high_b, high_a, low)
    slope = signal.lfilter(taps(5, {0: 1.0, 1: 2.0, 3: -2.0, 4: -1.0}), [8.0], high)
    integrated = np.asarray(signal.lfilter(np.ones(30), [1.0], slope**2) / 30.0, dtype=np.float64)

    # The band-pass does what the 1985 paper says: nothing at 0 Hz, most between 5 and 12 Hz.
    band = np.convolve(low_b, high_b), np.convolve(low_a, high_a)
    gain = np.abs(signal.freqz(*band, worN=np.array([0.2, 9.0, 45.0]), fs=200.0)[1])
    assert gain[1] > 10.0 * max(gain[0], gain[2]), gain
    # Every beat and nothing else: delays of 5, 16 and 2 samples, then half of the 30 of the moving mean.
    peaks, _ = signal.find_peaks(integrated, height=0.4 * integrated.max(), distance=200 // period)
    late = stamps[peaks] - beats
    assert (np.abs(late - (5 + 16 + 2 + 15) * period) <= 50).all(), late
    return {
        "pan_tompkins.ecg": _samples(stamps, ecg),
        "pan_tompkins.beats": Table(["t"], [(t,) for t in beats.tolist()]),
        # Integers in, and eighths after the derivative: all is exact in 53 bits until the division by 30.
        "pan_tompkins.expected": _events(stamps, period, integrated, (1e-15, 0.0)),
    }


def vibration() -> dict[str, Table]:
    """`scipy.stats.kurtosis`, root mean square and crest factor of each 100 ms group."""
    rng = np.random.default_rng(20_007)
    period, width = 500, 100_000
    stamps = np.arange(period, 330_001, period, dtype=np.int64)  # three full blocks and 60 samples
    accel = 0.4 * np.sin(2.0 * np.pi * 50.0 * stamps / 1e6) + rng.normal(0.0, 0.25, len(stamps))
    # A spalled outer race from 200 ms on: a ringing shock every 23 ms.
    for shock in range(203_000, 330_000, 23_000):
        since = np.clip(stamps - shock, 0, None) / 1e6
        accel += np.where(stamps >= shock, 6.0 * np.exp(-since / 0.0008) * np.cos(2.0 * np.pi * 700.0 * since), 0.0)
    accel = np.round(accel, 6)

    rows: list[tuple[Cell, ...]] = []
    cells = _cell_ends(stamps, width)
    for end in np.unique(cells).tolist():
        x = accel[cells == end]
        rms = float(np.sqrt(np.mean(x**2)))
        kurtosis = float(stats.kurtosis(x, fisher=False, bias=True))
        rows.append((end - width, end, kurtosis, rms, float(np.linalg.norm(x, np.inf)) / rms))
        assert (kurtosis > 6.0) == (end > 200_000), "the fault shows and nothing else does"
    assert len(rows) == 4
    return {
        "vibration.accel": _samples(stamps, accel),
        # Sums of 200 positive numbers (relative error below 200 half ulp, 2.2e-14), a quotient of two of them.
        "vibration.expected": Table(["start", "end", "kurtosis", "rms", "crest"], rows, (1e-13, 0.0)),
    }


def fraud() -> dict[str, Table]:
    """Pandas `rolling("10D", closed="left")` within each card; NumPy's mean and std of each window."""
    rng = np.random.default_rng(20_008)
    day, t0 = 86_400, 1_704_067_200
    frames = []
    for number, (count, typical) in enumerate([(70, 40.0), (60, 12.0), (55, 250.0), (50, 80.0), (45, 25.0), (6, 60.0)]):
        stamps = np.unique(t0 + rng.integers(0, 40 * day, count))
        amount = np.round(typical * np.exp(rng.normal(0.0, 0.3, len(stamps))), 2)
        frames.append(pd.DataFrame({"t": stamps, "card": f"card{number}", "amount": amount}))

    def add(t: int, card: str, amount: float) -> None:
        frames.append(pd.DataFrame({"t": [t], "card": card, "amount": amount}))

    injected = [(t0 + 12 * day + 7, "card0", 400.0), (t0 + 33 * day, "card1", 95.5), (t0 + 20 * day, "card2", 2_000.0)]
    for row in injected:
        add(*row)
    add(t0 + 20 * day, "card3", 81.0)  # the same second on another card
    add(t0 + 10 * day, "card3", 79.0)  # and exactly ten days before: inside the window
    for hours in range(5):
        add(t0 + 50 * day + hours * 3_600, "card4", 20.0 + hours)
    edge = t0 + 60 * day
    add(edge, "card4", 900.0)  # the five lie exactly ten days back or closer: just enough history
    for hours in range(4):
        add(t0 + 55 * day + hours * 3_600, "card5", 60.0 + hours)
    add(t0 + 56 * day, "card5", 5_000.0)  # large, but with one too few before it
    tx = pd.concat(frames).sort_values(["t", "card"], ignore_index=True)
    assert not tx.duplicated(["t", "card"]).any()

    parts = []
    for _, own in tx.groupby("card"):
        amounts = pd.Series(own["amount"].to_numpy(), index=pd.to_datetime(own["t"].to_numpy(), unit="s"))
        past = amounts.rolling("10D", closed="left", min_periods=5)
        mean = past.apply(np.mean, raw=True).to_numpy()
        std = past.apply(lambda window: np.std(window, ddof=1), raw=True).to_numpy()
        parts.append(own.assign(limit=mean + 3.0 * std))
    scored = pd.concat(parts).sort_values(["t", "card"], ignore_index=True)
    assert (scored["amount"] - scored["limit"]).abs().min() > 1e-6
    found = scored[scored["amount"] > scored["limit"]]
    caught = set(zip(found["t"], found["card"], strict=True))
    assert {(t, card) for t, card, _ in injected} | {(edge, "card4")} <= caught
    assert "card5" not in set(found["card"])
    assert len(found) < 0.08 * len(tx)

    columns = [found[name].tolist() for name in ("t", "card", "amount", "limit")]
    rows = [(t - 1, t, card, amount, limit) for t, card, amount, limit in zip(*columns, strict=True)]
    return {
        "fraud.tx": Table(["t", "card", "amount"], tx.to_numpy().tolist()),
        # A mean and a standard deviation of at most a few dozen amounts of one magnitude.
        "fraud.expected": Table(["start", "end", "key", "amount", "limit"], rows, (1e-13, 0.0)),
    }


def ysb() -> dict[str, Table]:
    """Polars `group_by_dynamic` with cells closed on the right, within each campaign."""
    rng = np.random.default_rng(20_009)
    n, t0 = 320, 1_700_000_000_000
    stamps = np.sort(t0 + rng.integers(1, 60_001, n))
    stamps[[40, 41, 120]] = [t0 + 10_000, t0 + 10_000, t0 + 20_000]  # on the edge: the last of their window
    stamps = np.sort(stamps)
    ads = rng.integers(0, 30, n)
    kinds = rng.choice(["view", "click", "purchase"], n, p=[0.5, 0.4, 0.1]).tolist()
    quiet = (ads % 3 == 2) & (stamps > t0 + 20_000) & (stamps <= t0 + 30_000)
    event_type: list[str | None] = ["click" if q else kind for q, kind in zip(quiet, kinds, strict=True)]
    event_type[50::97] = [None] * len(event_type[50::97])
    frame = pl.DataFrame(
        {"t": stamps, "campaign_id": [f"campaign{ad % 3}" for ad in ads], "ad_id": ads, "event_type": event_type},
        schema_overrides={"event_type": pl.String},
    )
    views = (
        frame.with_columns(pl.col("t").cast(pl.Datetime("ms")))
        .filter(pl.col("event_type") == "view")
        .group_by_dynamic("t", every="10s", closed="right", label="right", group_by="campaign_id")
        .agg(pl.len().alias("views"))
        .with_columns(pl.col("t").cast(pl.Int64))
        .sort("t", "campaign_id")
    )
    rows = [(t - 10_000, t, campaign, count) for campaign, t, count in views.rows()]
    assert len(rows) == 6 * 3 - 1, "a row for each campaign and window but the quiet one"
    assert stamps.max() <= t0 + 60_000 and (np.diff(stamps) == 0).any()
    assert {t0 + 10_000, t0 + 20_000} <= set(stamps[[kind == "view" for kind in event_type]].tolist())
    return {
        "ysb.events": Table(frame.columns, frame.rows()),
        "ysb.expected": Table(["start", "end", "key", "value"], rows, (0.0, 0.0)),
    }


APPLICATIONS: Sequence[Callable[[], dict[str, Table]]] = (
    trend,
    rsi,
    normalize,
    impute,
    resample,
    pan_tompkins,
    vibration,
    fraud,
    ysb,
)


def write(directory: Path) -> list[str]:
    """Write every fixture into ``directory``; returns the file names."""
    directory.mkdir(parents=True, exist_ok=True)
    names = []
    for application in APPLICATIONS:
        for stem, table in application().items():
            path = directory / f"{stem}.csv"
            path.write_text(table.text(), encoding="utf-8", newline="\n")
            names.append(path.name)
    return names


def check() -> list[str]:
    """Names of committed fixtures that differ from regenerated ones, are missing or are left over."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        names = set(write(fresh)) | {path.name for path in DATA.glob("*.csv")}
        return [name for name in sorted(names) if _bytes(fresh / name) != _bytes(DATA / name)]


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Make the fixtures of the application queries.")
    parser.add_argument("--check", action="store_true", help="compare with data/ instead of writing it")
    if not parser.parse_args().check:
        for name in write(DATA):
            print(f"wrote {name}")
        return 0
    differing = check()
    for name in differing:
        print(f"{name} is not what this script makes", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
