"""Joins and clocks against kdb's definitions by brute force, pandas, Polars and SciPy."""

from typing import Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import signal

import tilt as tl

Ints = NDArray[np.int64]


def times(count: int, seed: int, until: int) -> Ints:
    """Distinct instants in order."""
    return np.sort(np.random.default_rng(seed).choice(until, count, replace=False)).astype(np.int64)


@pytest.fixture
def quotes() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"t": times(300, 1, 2_000) + 50, "sym": rng.choice(["A", "B"], 300), "bid": rng.normal(100, 5, 300)}
    )


@pytest.fixture
def trades() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    # From before the first quote to after the last one, at distinct times.
    return pd.DataFrame({"t": times(200, 2, 2_400), "sym": rng.choice(["A", "B"], 200), "px": rng.normal(100, 5, 200)})


def window_join(
    trades: pd.DataFrame, quotes: pd.DataFrame, before: int, after: int, *, prevailing: bool
) -> list[float]:
    """Give the means that kdb's ``wj`` (with what prevails at the beginning) and ``wj1`` give, window by window."""
    means = []
    for at, sym in zip(trades["t"], trades["sym"], strict=True):
        own = quotes[quotes["sym"] == sym]
        inside = own[(own["t"] >= at - before) & (own["t"] <= at + after)]["bid"].to_list()
        known = own[own["t"] <= at - before]
        # A quote at the very beginning is in the window already.
        if prevailing and len(known) and known["t"].iloc[-1] < at - before:
            inside = [known["bid"].iloc[-1], *inside]
        means.append(float(np.mean(inside)) if inside else np.nan)
    return means


@pytest.mark.parametrize("prevailing", [False, True])
@pytest.mark.parametrize(("before", "after"), [(5, 5), (0, 20), (30, 0), (20, 7)])
def test_window_joins_are_those_of_kdb(
    trades: pd.DataFrame,
    quotes: pd.DataFrame,
    before: int,
    after: int,
    prevailing: bool,  # noqa: FBT001
) -> None:
    q = tl.stream(quotes, time="t").key_by("sym")
    t = tl.stream(trades, time="t").key_by("sym")
    around = q["bid"].window(tl.sliding(before, after=after), closed="both", prevailing=prevailing)
    joined = t.with_columns(mean=around.mean(), n=around.len()).to_pandas()
    expected = window_join(trades, quotes, before, after, prevailing=prevailing)
    np.testing.assert_allclose(joined["mean"], expected, rtol=1e-12)


def test_windows_around_are_slices_with_options() -> None:
    x = tl.stream({"t": [1, 4, 6, 9], "x": [1.0, 2.0, 4.0, 8.0]}, time="t", unit="s")["x"]
    assert x.window(tl.sliding("3s", after="2s")).sum().same_plan(x["-3s":"+2s"].sum())
    assert x.window(tl.sliding("3s", after="2s"), min_samples=2).sum().collect().to_dict() == {
        "t": [4, 6],
        "x": [6.0, 6.0],
    }
    assert x.window(tl.sliding("3s", after="2s"), closed="none").sum().collect()["x"] == [1.0, 2.0, 6.0, 8.0]


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("tolerance", [3, 40])
def test_asof_joins_are_those_of_pandas_and_polars(
    trades: pd.DataFrame, quotes: pd.DataFrame, strategy: Literal["backward", "forward", "nearest"], tolerance: int
) -> None:
    t, q = (tl.stream(rows, time="t").key_by("sym") for rows in (trades, quotes))
    joined = t.join_asof(q, strategy=strategy, tolerance=tolerance).collect()
    by_pandas = pd.merge_asof(trades, quotes, on="t", by="sym", direction=strategy, tolerance=tolerance)
    by_polars = pl.from_pandas(trades).join_asof(
        pl.from_pandas(quotes), on="t", by="sym", strategy=strategy, tolerance=tolerance, check_sortedness=False
    )
    found = joined.to_numpy()["bid"]
    np.testing.assert_array_equal(found, by_pandas["bid"])
    # Of two quotes that are equally near pandas and tilt take the earlier one.
    same = np.isclose(found, by_polars["bid"].fill_null(np.nan).to_numpy(), equal_nan=True)
    assert same.all() if strategy != "nearest" else same.mean() > 0.9


@pytest.mark.parametrize("max_gap", [3, 12])
def test_nearest_samples_are_the_nearest(max_gap: int) -> None:
    at, x = times(120, 5, 600), np.random.default_rng(5).normal(size=120)
    found = tl.stream({"t": at, "x": x}, time="t")["x"].resample(5, method="nearest", max_gap=max_gap).collect()
    grid = np.arange(-(-at[0] // 5) * 5, at[-1] + 1, 5)
    # Of two that are equally near the earlier one, as in pandas.
    left, right = pd.DataFrame({"t": grid}), pd.DataFrame({"t": at, "x": x})
    expected = pd.merge_asof(left, right, on="t", direction="nearest", tolerance=max_gap).dropna()
    rows = {t: v for t, v in zip(found["t"], found["x"], strict=True) if at[0] <= t <= at[-1]}
    assert rows == dict(zip(expected["t"], expected["x"], strict=True))


def test_mean_samples_are_means_of_blocks() -> None:
    at, x = times(120, 6, 600), np.random.default_rng(6).normal(size=120)
    found = tl.stream({"t": at, "x": x}, time="t")["x"].resample(5, method="mean").to_pandas()
    frame = pd.DataFrame({"end": -(-at // 5) * 5, "x": x}).groupby("end")["x"].mean()
    assert found["t"].to_list() == frame.index.to_list()
    np.testing.assert_allclose(found["x"], frame, rtol=1e-12)


def test_peaks_are_those_of_scipy() -> None:
    rng = np.random.default_rng(7)
    x = np.convolve(rng.normal(size=3_000), np.hanning(9), "same")
    stream = tl.stream({"t": np.arange(len(x)), "x": x}, time="t", period=1)["x"]
    inner = range(1, len(x) - 1)
    for level in (None, 1.0):
        found = [t for t in stream.peaks(1, threshold=level).collect()["t"] if t in inner]
        assert found == signal.find_peaks(x, height=level)[0].tolist()
    for distance in (5, 20, 60):
        found = [t for t in stream.peaks(distance).collect()["t"] if t in inner]
        every, _ = signal.find_peaks(x)
        alone = [p for p in every if all(x[p] >= x[o] for o in every if abs(o - p) < distance)]
        assert found == alone
        # SciPy also keeps what is near to a higher peak that is near to a still higher one.
        assert set(found) <= set(signal.find_peaks(x, distance=distance)[0].tolist())


def test_peaks_that_are_apart_are_those_of_scipy_with_a_distance() -> None:
    t = np.arange(2_000)
    x = np.sin(t / 16) * (1 + 0.1 * np.sin(t / 90)) + 0.05 * np.sin(t * 1.7)
    stream = tl.stream({"t": t, "x": x}, time="t", period=1)["x"]
    found = [at for at in stream.peaks(40, threshold=0.5).collect()["t"] if 0 < at < len(x) - 1]
    assert found == signal.find_peaks(x, height=0.5, distance=40)[0].tolist()
