"""The examples of the design page, with results compared to those of pandas, NumPy and SciPy."""

import math
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.signal
import scipy.stats

import tilt as tl

Floats = npt.NDArray[np.float64]


def random_walk(n: int, seed: int = 0) -> Floats:
    return np.cumsum(np.random.default_rng(seed).normal(size=n)) + 1_000


def irregular(n: int, seed: int = 0, mean: float = 1e6) -> npt.NDArray[np.datetime64]:
    """Increasing times, in microseconds."""
    gaps = np.random.default_rng(seed).integers(1, int(2 * mean), n)
    return np.datetime64("2026-01-05", "us") + np.cumsum(gaps).astype("m8[us]")


@pytest.fixture(scope="module")
def ticks() -> dict[str, npt.NDArray[np.generic]]:
    return {"ts": irregular(4_000), "price": random_walk(4_000)}


def rolling(
    columns: dict[str, npt.NDArray[np.generic]], window: str, **options: str
) -> "pd.api.typing.Rolling[pd.Series]":
    series = pd.Series(columns["price"], index=pd.DatetimeIndex(columns["ts"]))
    return series.rolling(window, **options)  # type: ignore[call-overload, no-any-return]


def test_01_trend(ticks: dict[str, npt.NDArray[np.generic]], tmp_path: Path) -> None:
    tl.Table(ticks).write_parquet(tmp_path / "ticks.parquet")
    stock = tl.scan_parquet(tmp_path / "ticks.parquet", time="ts")["price"]
    diff = stock["-10s":].mean() - stock["-20s":].mean()
    trend = diff.filter(diff > 0)
    assert "blocks" in trend.explain()
    assert (trend.lookback, trend.lookahead) == ("20s", "0s")
    df = trend.to_polars()
    expected = rolling(ticks, "10s").mean() - rolling(ticks, "20s").mean()
    expected = expected[expected > 0]
    np.testing.assert_allclose(df["price"].to_numpy(), expected.to_numpy(), rtol=0, atol=1e-9)
    assert (df["ts"].to_numpy() == expected.index.to_numpy()).all()


def test_02_rsi(tmp_path: Path) -> None:
    days = np.datetime64("2026-01-05", "us") + np.arange(200).astype("m8[D]").astype("m8[us]")
    closes = {"A": random_walk(200, 1), "B": random_walk(200, 2)}
    rows = {
        "date": np.repeat(days, 2),
        "symbol": ["A", "B"] * 200,
        "close": np.column_stack([closes["A"], closes["B"]]).ravel(),
    }
    tl.Table(rows).write_parquet(tmp_path / "eod.parquet")
    close = tl.scan_parquet(tmp_path / "eod.parquet", time="date", period="1d").key_by("symbol")["close"]
    d = close - close[-1]
    gain, loss = d.clip(lower_bound=0), (-d).clip(lower_bound=0)
    up = gain[-14:].mean()
    down = loss[-14:].mean()
    rsi = 100 - 100 / (1 + up / down)
    wilder = 100 - 100 / (1 + gain.ewm(alpha=1 / 14) / loss.ewm(alpha=1 / 14))
    got, got_wilder = rsi.to_pandas(), wilder.to_pandas()
    for symbol, prices in closes.items():
        change = pd.Series(prices).diff().iloc[1:]
        up_, down_ = change.clip(lower=0), (-change).clip(lower=0)
        expected = 100 - 100 / (1 + up_.rolling(14, min_periods=1).mean() / down_.rolling(14, min_periods=1).mean())
        mine = got[got["symbol"] == symbol]["close"]
        np.testing.assert_allclose(mine, expected, rtol=1e-9)
        means = [side.ewm(alpha=1 / 14).mean() for side in (up_, down_)]
        expected = 100 - 100 / (1 + means[0] / means[1])
        np.testing.assert_allclose(got_wilder[got_wilder["symbol"] == symbol]["close"], expected, rtol=1e-9)


def test_03_normalisation(ticks: dict[str, npt.NDArray[np.generic]]) -> None:
    sensor = pd.DataFrame({"ts": ticks["ts"], "value": ticks["price"]})
    x = tl.stream(sensor, time="ts")["value"]
    z_roll = (x - x["-10m":].mean()) / x["-10m":].std()
    expected = (ticks["price"] - rolling(ticks, "10min").mean()) / rolling(ticks, "10min").std()
    np.testing.assert_allclose(z_roll.to_numpy()["value"], expected.dropna(), rtol=1e-7)
    block = x.window(tl.tumbling("10m"))
    z_block = (x - block.mean()) / block.std(ddof=0)
    group = pd.Series(ticks["price"]).groupby(pd.Series(pd.DatetimeIndex(ticks["ts"]).ceil("10min")))
    expected = (ticks["price"] - group.transform("mean")) / group.transform(lambda v: v.std(ddof=0))
    np.testing.assert_allclose(z_block.to_numpy()["value"], expected, rtol=1e-7)
    assert z_block.lookahead != "0s"


@pytest.fixture(scope="module")
def ecg() -> dict[str, npt.NDArray[np.generic]]:
    t = np.arange(4_000)
    keep = (t % 97 != 5) & (t % 97 != 6)
    keep[2_000:2_500] = False
    keep[0] = True
    signal = np.sin(t / 15) + 5 * (t % 160 == 80)
    return {"t": (t * 5)[keep], "mv": signal[keep]}


_AROUND: tuple[tuple[Literal["left", "right"], int], ...] = (("right", 1), ("left", 0))
"""How a sorted index is searched for what is at or before, and at or after."""


def test_04_imputation(ecg: dict[str, npt.NDArray[np.generic]]) -> None:
    x = tl.stream(ecg, time="t", unit="ms", period="5ms")["mv"]
    filled = x.every("5ms").fill_null(x["-10s":].mean(), max_gap="2s").to_numpy()
    ffill = x.every("5ms").fill_null(strategy="forward", max_gap="50ms").to_numpy()
    series = pd.Series(ecg["mv"], index=pd.Index(ecg["t"]))
    index = np.arange(0, ecg["t"][-1] + 1, 5)
    full = series.reindex(index)
    # The long gap stays, from its beginning to its end.
    known_before, known_after = (series.index[series.index.searchsorted(index, side) - at] for side, at in _AROUND)
    held = full.ffill()[known_after - known_before <= 50]
    assert len(filled["t"]) == len(held) < len(index)
    np.testing.assert_array_equal(ffill["t"], held.index)
    np.testing.assert_array_equal(ffill["mv"], held)
    limited = x.resample("5ms", method="hold", max_gap="50ms").to_numpy()
    np.testing.assert_array_equal(limited["mv"], full.ffill(limit=10).dropna())
    known = full.dropna()
    at_known = np.isin(filled["t"], known.index)
    np.testing.assert_array_equal(filled["mv"][at_known], known)


def test_05_resampling(ecg: dict[str, npt.NDArray[np.generic]], ticks: dict[str, npt.NDArray[np.generic]]) -> None:
    x = tl.stream(ecg, time="t", unit="ms", period="5ms")["mv"]
    grid = x.resample("4ms", method="linear", max_gap="20ms").to_numpy()
    expected = np.interp(grid["t"], ecg["t"].astype(float), ecg["mv"].astype(float))
    np.testing.assert_allclose(grid["mv"], expected, atol=1e-12)
    assert set(np.diff(grid["t"])) > {4}
    marks = tl.stream({"t": [7, 13, 21], "id": [1, 2, 3]}, time="t", unit="ms")
    onto = x.interpolate("linear", max_gap="20ms").at(marks).to_numpy()
    expected = np.interp([7, 13, 21], ecg["t"].astype(float), ecg["mv"].astype(float))
    np.testing.assert_allclose(onto["mv"], expected, atol=1e-12)
    stock = tl.stream(ticks, time="ts")["price"]
    ohlc = stock.window(tl.tumbling("1m")).agg(
        open=tl.first(), high=tl.max(), low=tl.min(), close=tl.last(), n=tl.len()
    )
    bars = ohlc.to_pandas()
    series = pd.Series(ticks["price"], index=pd.DatetimeIndex(ticks["ts"]))
    resampler = series.resample("1min", closed="right", label="right")
    expected_bars = resampler.ohlc().assign(n=resampler.count())
    expected_bars = expected_bars[expected_bars["n"] > 0]
    np.testing.assert_array_equal(bars[["open", "high", "low", "close", "n"]], expected_bars)
    np.testing.assert_array_equal(bars["ts"], expected_bars.index)


def test_06_pan_tompkins() -> None:
    whole = {
        "t": np.arange(3_000) * 5,
        "mv": 0.1 * np.sin(np.arange(3_000) / 15) + 5.0 * (np.arange(3_000) % 160 == 80),
    }
    x = tl.stream(whole, time="t", unit="ms", period="5ms")["mv"].fill_null(0.0)

    def past(stream: tl.Stream, samples: int) -> tl.Stream:
        return stream[-samples].fill_null(0.0)

    lp = tl.recur(lambda y: 2 * past(y, 1) - past(y, 2) + x - 2 * past(x, 6) + past(x, 12))
    b, a = [1, 0, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0, 1], [1, -2, 1]
    reference = scipy.signal.lfilter(b, a, whole["mv"])
    np.testing.assert_allclose(x.lfilter(b=b, a=a).to_numpy()["mv"], reference, atol=1e-6)
    hp = tl.recur(lambda y: 32 * past(lp, 16) - (past(y, 1) + lp - past(lp, 32)))
    dv = (hp + 2 * past(hp, 1) - 2 * past(hp, 3) - past(hp, 4)) / 8
    mwi = (dv * dv)[-30:].mean()
    delays = np.zeros(33)
    delays[[0, 16, 32]] = [-1, 32, 1]
    high = scipy.signal.lfilter(delays, [1, 1], reference)
    squares = scipy.signal.lfilter([1, 2, 0, -2, -1], [8], high) ** 2
    expected = pd.Series(squares).rolling(30, min_periods=1).mean()
    np.testing.assert_allclose(mwi.to_numpy()["recur"], expected, rtol=1e-6, atol=1e-6)
    qrs = mwi.peaks(min_distance="200ms", threshold=mwi["-8s":].mean() * 1.5)
    assert 10 < len(qrs.collect()) < 30


def test_07_vibration(tmp_path: Path) -> None:
    accel = np.random.default_rng(7).normal(size=50_000)
    times = np.datetime64("2026-01-05", "us") + (np.arange(1, 50_001) * 20).astype("m8[us]")
    tl.Table({"t": times, "accel": accel}).write_parquet(tmp_path / "bearing.parquet")
    vib = tl.scan_parquet(tmp_path / "bearing.parquet", time="t", period="20us")["accel"]
    feat = vib.window(tl.tumbling("100ms")).agg(
        kurtosis=tl.kurtosis(fisher=False), rms=tl.rms(), crest=tl.crest_factor(), p2p=tl.max() - tl.min()
    )
    got = feat.to_numpy()
    blocks = accel.reshape(10, 5_000)
    rms = np.sqrt((blocks**2).mean(axis=1))
    np.testing.assert_allclose(got["kurtosis"], scipy.stats.kurtosis(blocks, axis=1, fisher=False), rtol=1e-9)
    np.testing.assert_allclose(got["rms"], rms, rtol=1e-12)
    np.testing.assert_allclose(got["crest"], np.abs(blocks).max(axis=1) / rms, rtol=1e-12)
    np.testing.assert_array_equal(got["p2p"], np.ptp(blocks, axis=1))


def test_08_fraud(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    times = irregular(2_000, 8, mean=3e9)
    amounts = rng.lognormal(size=2_000).round(2)
    amounts[[700, 1_500]] = 500.0
    cards = rng.choice(["a", "b", "c"], 2_000)
    frame = pd.DataFrame({"ts": times, "card": cards, "amount": amounts})
    tl.Table(frame).write_parquet(tmp_path / "tx.parquet")
    tx = tl.scan_parquet(tmp_path / "tx.parquet", time="ts").key_by("card")
    past = tx["amount"].window("10d", closed="left", min_samples=5)
    fraud = tx.filter(tx["amount"] > past.mean() + 3 * past.std())
    got = fraud.to_pandas()
    expected = []
    for _, group in frame.groupby("card"):
        window = group.set_index("ts")["amount"].rolling("10D", closed="left", min_periods=5)
        limit = (window.mean() + 3 * window.std()).to_numpy()
        expected.append(group[group["amount"].to_numpy() > limit])
    wanted = pd.concat(expected).sort_values("ts")
    assert got["amount"].tolist() == wanted["amount"].tolist()
    assert got["ts"].tolist() == wanted["ts"].tolist()
    assert 500.0 in got["amount"].tolist()


def test_09_yahoo(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    events = pd.DataFrame(
        {
            "event_time": irregular(5_000, 9, mean=5e4),
            "ad_id": rng.integers(0, 100, 5_000),
            "event_type": rng.choice(["view", "click", "purchase"], 5_000),
        }
    )
    ads_df = pd.DataFrame({"ad_id": np.arange(100), "campaign_id": np.arange(100) // 10})
    tl.Table(events[:2_500]).write_parquet(tmp_path / "0.parquet")
    tl.Table(events[2_500:]).write_parquet(tmp_path / "1.parquet")
    ads = tl.table(ads_df, key="ad_id")
    view = (
        tl.scan_parquet(tmp_path / "*.parquet", time="event_time")
        .filter(tl.col("event_type") == "view")
        .lookup(ads, on="ad_id")
    )
    ysb = view.key_by("campaign_id").window(tl.tumbling("10s")).agg(n=tl.len())
    got = ysb.to_pandas()
    views = events[events["event_type"] == "view"].merge(ads_df, on="ad_id")
    expected = views.groupby([views["event_time"].dt.ceil("10s"), "campaign_id"]).size().reset_index(name="n")
    np.testing.assert_array_equal(got["n"], expected["n"])
    np.testing.assert_array_equal(got["campaign_id"], expected["campaign_id"])
    assert "joined with a table of 100 rows" in ysb.explain()


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame, Path]:
    rng = np.random.default_rng(10)
    quotes = pd.DataFrame(
        {"ts": irregular(3_000, 10), "sym": rng.choice(["A", "B"], 3_000), "bid": random_walk(3_000, 10)}
    )
    quotes["ask"] = quotes["bid"] + 0.5
    trades = pd.DataFrame(
        {
            "ts": irregular(1_000, 11, mean=3e6),
            "sym": rng.choice(["A", "B"], 1_000),
            "px": random_walk(1_000, 11),
            "qty": rng.integers(1, 10, 1_000),
        }
    )
    directory = tmp_path_factory.mktemp("market")
    tl.Table(quotes).write_parquet(directory / "quotes.parquet")
    tl.Table(trades).write_parquet(directory / "trades.parquet")
    return quotes, trades, directory


def test_10_joins(market: tuple[pd.DataFrame, pd.DataFrame, Path]) -> None:
    quotes, trades, directory = market
    q = tl.scan_parquet(directory / "quotes.parquet", time="ts").key_by("sym")
    t = tl.scan_parquet(directory / "trades.parquet", time="ts").key_by("sym")
    mid = (q["bid"] + q["ask"]) / 2
    slip = t["px"] - mid.hold(max_age="5s")
    tca = t.with_columns(
        mid=mid.hold("5s"),
        bid_avg=q["bid"]["-1s":"+1s"].mean(),
        m_1m=mid.hold()["+1m"],
        m_5m=mid.hold()["+5m"],
    )
    same = t.join_asof(q, tolerance="5s", strategy="backward", suffix="_q")

    # An age of five seconds is too old already; a tolerance of five seconds is not.
    quotes = quotes.assign(mid=(quotes["bid"] + quotes["ask"]) / 2)
    aged = pd.merge_asof(trades, quotes, on="ts", by="sym", tolerance=pd.Timedelta("5s") - pd.Timedelta("1us"))
    got = slip.to_pandas()
    fresh = aged.dropna()
    np.testing.assert_allclose(got["px"], fresh["px"] - fresh["mid"], rtol=1e-12)

    table = tca.to_pandas()
    np.testing.assert_allclose(table["mid"], aged["mid"], rtol=1e-12)
    shifted = trades.assign(ts=(trades["ts"] + pd.Timedelta("1min")).astype(quotes["ts"].dtype))
    later = pd.merge_asof(shifted, quotes, on="ts", by="sym")
    ended = later["ts"] > max(quotes["ts"].max(), trades["ts"].max())
    np.testing.assert_allclose(table["m_1m"], later["mid"].where(~ended), rtol=1e-12)
    second = np.timedelta64(1, "s")
    averages = [
        quotes[(quotes["sym"] == sym) & (quotes["ts"] > ts - second) & (quotes["ts"] <= ts + second)]["bid"].mean()
        for ts, sym in zip(trades["ts"].to_numpy(), trades["sym"], strict=True)
    ]
    np.testing.assert_allclose(table["bid_avg"], averages, rtol=1e-12)

    tolerated = pd.merge_asof(trades, quotes, on="ts", by="sym", tolerance=pd.Timedelta("5s"))
    joined = same.to_pandas()
    assert joined.columns.tolist() == ["ts", "sym", "px", "qty", "bid", "ask"]
    np.testing.assert_array_equal(joined["bid"], tolerated["bid"])
    prevailing = q["bid"].window("1s", prevailing=True).last().at(t).to_pandas()
    before = pd.merge_asof(trades, quotes, on="ts", by="sym")["bid"].dropna()
    np.testing.assert_array_equal(prevailing["bid"], before)
    with pytest.raises(tl.LookaheadError, match="5m"):
        tca.assert_causal()


def test_11_sessions() -> None:
    rng = np.random.default_rng(11)
    clicks_df = pd.DataFrame(
        {
            "ts": irregular(500, 11, mean=6e8),
            "user": rng.choice(["u", "v"], 500),
            "url": rng.choice(["/a", "/b", "/c"], 500),
        }
    )
    clicks = tl.stream(clicks_df, time="ts").key_by("user")
    sess = clicks.window(tl.session(gap="30m", max_length="2h")).agg(
        start=tl.window_start(), end=tl.window_end(), n=tl.len(), first_url=tl.col("url").first()
    )
    got = sess.to_pandas()
    expected = []
    for user, group in clicks_df.groupby("user"):
        begun, last, number = pd.NaT, pd.NaT, 0
        numbers = []
        for ts in group["ts"]:
            if not (ts - last <= pd.Timedelta("30min") and ts - begun <= pd.Timedelta("2h")):
                begun, number = ts, number + 1
            last = ts
            numbers.append(number)
        expected += [
            (g["ts"].iloc[-1], user, g["ts"].iloc[0], len(g), g["url"].iloc[0]) for _, g in group.groupby(numbers)
        ]
    expected.sort()
    assert len(expected) > len(clicks.window(tl.session(gap="30m")).len().collect())
    found = got[["end", "user", "start", "n", "first_url"]].itertuples(index=False, name=None)
    assert [tuple(row) for row in found] == expected


def test_12_calendars() -> None:
    hours = pd.date_range("2026-03-01", "2026-04-30 23:00", freq="h", tz="Europe/Paris").as_unit("us")
    meter = pd.DataFrame({"ts": hours.tz_convert("UTC"), "kw": np.ones(len(hours))})
    m = tl.stream(meter, time="ts")
    months = m["kw"].window(tl.calendar("1mo", tz="Europe/Paris")).len().to_pandas()
    assert months["kw"].tolist() == [31 * 24 - 1, 30 * 24]
    local = tl.stream(meter.assign(ts=hours), time="ts")["kw"]
    assert local.window(tl.calendar("1mo")).len().to_pandas()["kw"].tolist() == months["kw"].tolist()
    bill = m["kw"].hold().window(tl.calendar("1mo", tz="Europe/Paris")).integral(unit="1h").to_pandas()
    np.testing.assert_allclose(bill["kw"], [31 * 24 - 1, 30 * 24 - 1], rtol=1e-9)
    # As it is spelled: wall times of a zone, and a key.
    wall = pd.date_range("2026-04-01", "2026-05-31 23:00", freq="h")
    sites = pd.concat([pd.DataFrame({"ts": wall, "site": site, "kw": kw}) for site, kw in (("x", 1.0), ("y", 2.0))])
    keyed = tl.stream(sites.sort_values("ts", kind="stable"), time="ts", tz="Europe/Paris").key_by("site")
    per_site = keyed["kw"].hold().window(tl.calendar("1mo")).integral(unit="1h").to_pandas()
    assert per_site["site"].tolist() == ["x", "y", "x", "y"]
    np.testing.assert_allclose(per_site["kw"], [30 * 24, 2 * 30 * 24, 31 * 24 - 1, 2 * (31 * 24 - 1)], rtol=1e-9)


def test_13_custom_reducers(
    ticks: dict[str, npt.NDArray[np.generic]], market: tuple[pd.DataFrame, pd.DataFrame, Path]
) -> None:
    stock = tl.stream(ticks, time="ts")["price"]
    geo = tl.reducer(
        init=lambda: {"s": 0.0, "n": 0},
        acc=lambda st, v: {"s": st.s + tl.log(v), "n": st.n + 1},
        deacc=lambda st, v: {"s": st.s - tl.log(v), "n": st.n - 1},
        merge=lambda a, b: {"s": a.s + b.s, "n": a.n + b.n},
        result=lambda st: tl.exp(st.s / st.n),
    )
    gm = stock["-1h":].reduce(geo).to_numpy()["price"]
    logs = {"ts": ticks["ts"], "price": np.log(ticks["price"].astype(float))}
    np.testing.assert_allclose(gm, np.exp(rolling(logs, "1h").mean()), rtol=1e-9)

    @tl.reducer
    class VWAP:
        pv: float = 0.0
        vol: float = 0.0

        def acc(self, e):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return VWAP(self.pv + e.px * e.qty, self.vol + e.qty)

        def merge(self, o):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return VWAP(self.pv + o.pv, self.vol + o.vol)

        def result(self):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return self.pv / self.vol

    _, trades, _ = market
    t = tl.stream(trades, time="ts")
    vwap = t["-5m":].reduce(VWAP).collect().to_numpy()
    frame = trades.set_index("ts")
    expected = (frame["px"] * frame["qty"]).rolling("5min").sum() / frame["qty"].rolling("5min").sum()
    np.testing.assert_allclose(list(vwap.values())[-1], expected, rtol=1e-9)


def test_12_keyed_windows() -> None:
    rng = np.random.default_rng(12)
    frame = pd.DataFrame(
        {"ts": irregular(1_000, 12, mean=6e7), "site": rng.choice(["x", "y"], 1_000), "kw": rng.random(1_000)}
    )
    m = tl.stream(frame, time="ts").key_by("site")
    hop = m["kw"].window(tl.hopping("1h", every="5m")).mean().to_pandas()
    last = m["kw"].window(tl.count(20, every=5)).max().to_pandas()
    top = m.with_columns(load=m["kw"] / m.unkey()["kw"]["-15m":].sum()).to_pandas()
    for site, group in frame.groupby("site"):
        series = group.set_index("ts")["kw"]
        mine = hop[hop["site"] == site]
        row = mine.iloc[len(mine) // 2]
        inside = series[(series.index > row["ts"] - pd.Timedelta("1h")) & (series.index <= row["ts"])]
        assert math.isclose(row["kw"], inside.mean(), rel_tol=1e-12)
        maxima = series.rolling(20, min_periods=1).max().to_numpy()[4::5]
        np.testing.assert_array_equal(last[last["site"] == site]["kw"], maxima)
    total = frame.set_index("ts")["kw"].rolling("15min").sum().to_numpy()
    np.testing.assert_allclose(top["load"], frame["kw"] / total, rtol=1e-12)


def test_17_looking(ticks: dict[str, npt.NDArray[np.generic]], tmp_path: Path) -> None:
    tl.Table(ticks).write_parquet(tmp_path / "ticks.parquet")
    stock = tl.scan_parquet(tmp_path / "ticks.parquet", time="ts")["price"]
    diff = stock["-10s":].mean() - stock["-20s":].mean()
    trend = diff.filter(diff > 0).alias("trend")
    assert (trend.schema, trend.lookback, trend.lookahead) == ({"trend": "f64"}, "20s", "0s")
    assert trend.assert_causal() is trend
    with pytest.raises(tl.LookaheadError, match="1m ahead"):
        stock["+1m"].assert_causal()
    assert str(trend.show_graph()).startswith("<svg")
    assert "rows in " in trend.explain(stage="loops", analyze=True)
    with pytest.raises(ValueError, match="analyze"):
        trend.explain("llvm", analyze=True)
    assert "flowchart" in trend.explain("logical", format="mermaid")
    assert "digraph" in trend.explain("optimized", format="dot")
    chart = tl.plot(stock, stock["-10s":].mean().alias("ma10"), trend, start="00:30", end="00:45").to_dict()
    assert len(chart["layer"]) == 3
