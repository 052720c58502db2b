"""The examples, on small data, against NumPy, SciPy and pandas."""

import importlib
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.signal
import scipy.stats

import alarm
import fraud
import impute
import normalize
import ohlc
import pan_tompkins
import picture
import resample
import rsi
import sessions
import tca
import trend
import vibration
import yahoo
from tilt import generate

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "picture")


def close(got: npt.ArrayLike, expected: npt.ArrayLike) -> None:
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(expected, float), rtol=1e-9, atol=1e-9)


def prices(rows: int) -> "pd.Series[float]":
    table = generate.price_ticks(rows, seed=11).table().to_pandas()
    return pd.Series(table["price"].to_numpy(), index=pd.DatetimeIndex(table["time"]))


def last_at(series: "pd.Series[float]") -> "pd.Series[float]":
    """Give trades at one instant the last one's value: a window ends with all of them."""
    return series.groupby(level=0).transform("last")


def test_trend() -> None:
    got, price = trend.main(12_000).to_pandas(), prices(12_000)
    short, long = (last_at(price.rolling(window).mean()) for window in ("1min", "5min"))
    close(got["short"], short)
    close(got["long"], long)
    # Where both means are of the same trades they differ by rounding, if at all.
    settled = (short - long).abs() > 1e-9
    close(got["trend"][settled.to_numpy()], (short - long).where(short > long)[settled])
    assert got["trend"].notna().sum() > 100


def test_rsi() -> None:
    got = rsi.main(400).to_pandas()
    table = generate.eod_prices(4, days=100, seed=3).table().to_pandas()
    assert set(got["symbol"]) == set(table["symbol"])
    for symbol, rows in table.groupby("symbol", observed=True):
        change = rows["close"].diff().iloc[1:]
        sides = change.clip(lower=0), (-change).clip(lower=0)
        simple = [side.rolling(14).mean().dropna() for side in sides]
        wilder = [side.ewm(alpha=1 / 14, min_periods=14).mean().dropna() for side in sides]
        mine = got[got["symbol"] == symbol]
        close(mine["simple"], 100 - 100 / (1 + simple[0] / simple[1]))
        close(mine["wilder"], 100 - 100 / (1 + wilder[0] / wilder[1]))
        close(mine["close"], rows["close"].iloc[14:])


def test_normalize() -> None:
    got, price = normalize.main(13_000).to_pandas(), prices(13_000)
    window = price.rolling("5min", min_periods=30)
    close(got["rolling"], (price - last_at(window.mean())) / last_at(window.std()))
    block = price.groupby(pd.DatetimeIndex(price.index).ceil("5min"))
    close(got["block"], (price - block.transform("mean")) / block.transform(lambda values: values.std(ddof=0)))
    assert block.ngroups == 3


def test_ohlc() -> None:
    got = ohlc.main(5_000).to_pandas().set_index("time")
    table = generate.price_ticks(5_000, seed=11).table().to_pandas().set_index("time")
    minutes = table.assign(value=table["price"] * table["size"]).resample("1min", closed="right", label="right")
    expected = minutes["price"].ohlc()
    np.testing.assert_array_equal(got[["open", "high", "low", "close"]], expected)
    np.testing.assert_array_equal(got["volume"], minutes["size"].sum())
    np.testing.assert_array_equal(got["trades"], minutes["size"].count())
    close(got["vwap"], minutes["value"].sum() / minutes["size"].sum())
    assert got.index.to_list() == expected.index.to_list()


def test_sessions() -> None:
    got = sessions.main(2_000).to_pandas().sort_values(["user", "first"])
    table = generate.clicks(2_000, seed=2, users=100).table().to_pandas()
    visits = table.assign(pay=table["url"] == "/pay").groupby(["user", "session"])
    assert got["user"].to_list() == visits["user"].first().to_list()
    assert got["first"].to_list() == visits["time"].min().to_list()
    assert got["last"].to_list() == visits["time"].max().to_list()
    assert got["clicks"].to_list() == visits.size().to_list()
    assert got["landing"].to_list() == visits["url"].first().to_list()
    assert got["paid"].to_list() == visits["pay"].any().to_list()


def test_fraud() -> None:
    result = fraud.main(8_000)
    got, rules = result["payments"].to_pandas(), result["rules"].to_pandas()
    table = generate.transactions(8_000, seed=4, cards=200).table().to_pandas().set_index("time")
    window = table.groupby("card", observed=True)["amount"].rolling("10D", closed="left", min_periods=5)
    limits = pd.DataFrame({"mean": window.mean(), "std": window.std()}).reset_index()
    expected = table.reset_index().merge(limits, on=["card", "time"])
    expected["score"] = (expected["amount"] - expected["mean"]) / expected["std"]
    expected = expected.dropna()
    assert got["time"].to_list() == expected["time"].to_list()
    np.testing.assert_allclose(got["score"], expected["score"], rtol=1e-9)
    found = [expected[expected["score"] > limit] for limit in rules["deviations"]]
    assert rules["alarms"].to_list() == [len(alarms) for alarms in found]
    close(rules["precision"], [alarms["fraud"].mean() for alarms in found])
    close(rules["recall"], [alarms["fraud"].sum() / expected["fraud"].sum() for alarms in found])


def test_pan_tompkins() -> None:
    result = pan_tompkins.main(2_000)
    signal, found, truth = (result[name].to_numpy() for name in ("signal", "found", "truth"))
    low = scipy.signal.lfilter([1, 0, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0, 1], [1, -2, 1], signal["mv"])
    # The running sum of 32 samples, as a filter without feedback.
    high = scipy.signal.lfilter([-1.0] * 16 + [31.0] + [-1.0] * 15, [1], low)
    energy = pd.Series(scipy.signal.lfilter([1, 2, 0, -2, -1], [8], high) ** 2).rolling(30, min_periods=1).sum() / 30
    np.testing.assert_allclose(signal["band"], high, atol=1e-9 * np.abs(high).max())
    np.testing.assert_allclose(signal["energy"], energy, atol=1e-9 * energy.max())
    learnt = signal["time"][0] + np.timedelta64(2, "s")
    inside = (truth["time"] > learnt) & (truth["time"] + 2 * pan_tompkins.DELAY < signal["time"][-1])
    assert len(found["time"]) >= inside.sum() > 5
    nearest = np.abs((found["time"] - pan_tompkins.DELAY)[:, None] - truth["time"]).min(axis=1)
    assert nearest.max() < np.timedelta64(50, "ms")
    missed = np.abs((found["time"] - pan_tompkins.DELAY)[:, None] - truth["time"][inside]).min(axis=0)
    assert missed.max() < np.timedelta64(50, "ms")


def test_vibration() -> None:
    result = vibration.main(50_000)
    got = result["features"].to_numpy()
    accel = generate.vibration(1.0, seed=8).table().to_numpy()["accel"]
    blocks = accel.reshape(10, 5_000).astype(float)
    rms = np.sqrt((blocks**2).mean(axis=1))
    close(got["kurtosis"], scipy.stats.kurtosis(blocks, axis=1, fisher=False))
    close(got["rms"], rms)
    close(got["crest"], np.abs(blocks).max(axis=1) / rms)
    np.testing.assert_array_equal(got["peak_to_peak"], np.ptp(accel.reshape(10, 5_000), axis=1))
    damaged = got["time"] > result["truth"].to_numpy()["fault"][0]
    assert got["kurtosis"][damaged].min() > 1.5 * got["kurtosis"][~damaged].max()


def test_tca() -> None:
    got = tca.main(3_000).to_pandas()
    quotes, trades = (side.table().to_pandas() for side in generate.quotes_and_trades(3_000, seed=9))
    quotes["mid"] = (quotes["bid"] + quotes["ask"]) / 2
    # A quote that is a second old is too old.
    age = pd.Timedelta("1s") - pd.Timedelta("1ns")
    mid = pd.merge_asof(trades, quotes, on="time", by="symbol", tolerance=age)["mid"]
    close(got["mid"], mid)
    close(got["cost"], (trades["price"] - mid).abs())
    end = max(quotes["time"].max(), trades["time"].max())
    for horizon in tca.HORIZONS:
        later = trades.assign(time=trades["time"] + pd.Timedelta(horizon, "ms"))
        moved = pd.merge_asof(later, quotes, on="time", by="symbol")["mid"]
        close(got[f"m_{horizon}ms"], moved.where(later["time"] <= end))
    near = np.timedelta64(50, "ms")
    means = [
        quotes[(quotes["symbol"] == symbol) & (quotes["time"] > at - near) & (quotes["time"] <= at + near)][
            "bid"
        ].mean()
        for at, symbol in zip(trades["time"].to_numpy(), trades["symbol"], strict=True)
    ]
    close(got["bid_near"], means)


def test_impute() -> None:
    result = impute.main(3_000)
    series = result["samples"].to_pandas().set_index("time")["mv"]
    full = series.reindex(pd.date_range(series.index[0], series.index[-1], freq="4ms"))
    held, filled = (result[name].to_pandas().set_index("time")["mv"] for name in ("held", "mean"))
    expected = full.ffill(limit=25).dropna()
    assert held.index.to_list() == expected.index.to_list()
    np.testing.assert_array_equal(held, expected)
    expected = full.fillna(full.rolling("1s", min_periods=1).mean())
    assert filled.index.to_list() == expected.index.to_list()
    close(filled, expected)
    assert full.isna().sum() > 100


def test_resample() -> None:
    result = resample.main(500)
    samples, grid, peaks = (result[name].to_numpy() for name in ("samples", "grid", "peaks"))
    known = samples["time"].astype("i8")
    for rows in (grid, peaks):
        at = rows["time"].astype("i8")
        close(rows["mv"], np.interp(at, known, samples["mv"]))
        assert len(at) > 0

    def bridged(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Keep what hits a sample or lies between two that are at most 20 ms apart."""
        after = np.searchsorted(known, times)
        inside = (times >= known[0]) & (after < len(known))
        after = after.clip(1, len(known) - 1)
        hit = np.isin(times, known)
        kept: npt.NDArray[np.int64] = times[hit | (inside & (known[after] - known[after - 1] <= 20_000))]
        return kept

    cells = np.arange(known[0] // 5_000, known[-1] // 5_000 + 1) * 5_000
    np.testing.assert_array_equal(grid["time"].astype("i8"), bridged(cells))
    truth = generate.ecg(2.0, seed=26, dropouts=0.2).truth
    assert truth is not None
    beats = truth.to_numpy()["time"].astype("i8")
    np.testing.assert_array_equal(peaks["time"].astype("i8"), bridged(beats))
    assert len(peaks["time"]) < len(beats)


def test_yahoo() -> None:
    got = yahoo.main(50_000).to_pandas()
    events = generate.ad_events(50_000, seed=12, rate=2_000)
    assert events.truth is not None
    table = events.table().to_pandas()
    views = table[table["event_type"] == "view"].merge(events.truth.to_pandas(), on="ad")
    expected = views.groupby([views["time"].dt.ceil("10s"), "campaign"], observed=True).size().reset_index(name="views")
    for column in ("time", "campaign", "views"):
        assert got[column].to_list() == expected[column].to_list()


def test_alarm() -> None:
    got = alarm.main()["alarms"].to_pandas()
    table = generate.price_ticks(10_000, seed=13, rate=1.0).table().to_pandas().drop_duplicates("time", keep="last")
    below = (table["price"] < alarm.LIMIT).to_numpy()
    turns = np.flatnonzero(np.diff(below, prepend=False, append=False))
    times = table["time"].to_list()
    tick, length = pd.Timedelta("1us"), pd.Timedelta("10min")
    # The last price holds to the end of the data, which is its own instant.
    runs = [(times[a], times[b] - tick if b < len(times) else times[-1]) for a, b in turns.reshape(-1, 2)]
    # An event's interval does not hold its start.
    expected = [(fell - tick + length, rose) for fell, rose in runs if rose - (fell - tick) > length]
    assert list(zip(got["start"], got["end"], strict=True)) == expected
    assert len(expected) == 2


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_example_prints_and_draws(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLES / f"{name}.py"), "--out", str(tmp_path / "out")])
    picture.show(example.main, example.draw)
    assert (tmp_path / "out" / f"{name}.png").stat().st_size > 10_000
    assert "tilt.Table" in capsys.readouterr().out
    assert f"`{name}.png`" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
