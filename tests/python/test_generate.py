"""Generated data are what their documentation says."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilt as tl
from tilt import generate
from tilt.generate import Generated

ALL: dict[str, Callable[[int], Generated]] = {
    "price_ticks": lambda seed: generate.price_ticks(3_000, seed=seed),
    "eod_prices": lambda seed: generate.eod_prices(20, days=30, seed=seed),
    "ecg": lambda seed: generate.ecg(30, seed=seed),
    "vibration": lambda seed: generate.vibration(0.2, seed=seed),
    "transactions": lambda seed: generate.transactions(3_000, seed=seed),
    "clicks": lambda seed: generate.clicks(3_000, seed=seed),
    "meter_readings": lambda seed: generate.meter_readings(5, days=8, seed=seed),
    "ad_events": lambda seed: generate.ad_events(3_000, seed=seed),
    "quotes": lambda seed: generate.quotes_and_trades(3_000, seed=seed)[0],
    "trades": lambda seed: generate.quotes_and_trades(3_000, seed=seed)[1],
}


@pytest.mark.parametrize("name", ALL)
def test_rows_depend_on_the_seed_alone_and_are_in_order_of_time(name: str) -> None:
    generated = ALL[name](1)
    table = generated.table()
    assert len(table) == generated.rows
    assert table == ALL[name](1).table()
    assert table != ALL[name](2).table()
    times = table.to_numpy()[table.columns[0]]
    assert (np.diff(times) >= np.timedelta64(0)).all()


@pytest.mark.parametrize("name", ALL)
def test_blocks_are_the_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_BLOCK", 1_000)
    generated = ALL[name](3)
    blocks = list(generated)
    assert len(blocks) > 1 or generated.rows < 1_000
    table, first = generated.table(), 0
    for block in blocks:
        assert table[first : first + len(block)] == block
        first += len(block)
    assert first == generated.rows
    times = table.to_numpy()[table.columns[0]]
    assert (np.diff(times) >= np.timedelta64(0)).all()


def test_ticks_coincide_pause_over_night_and_stay_positive() -> None:
    ticks = generate.price_ticks(20_000, seed=5, rate=0.5).table().to_numpy()
    gaps = np.diff(ticks["time"])
    assert (gaps == np.timedelta64(0)).any()
    assert gaps.max() > np.timedelta64(17, "h")
    assert ticks["price"].min() > 0
    hours = (ticks["time"] - ticks["time"].astype("M8[D]")) / np.timedelta64(1, "h")
    assert hours.min() >= 9.5 and hours.max() < 16


def test_beats_are_where_the_truth_says_and_samples_drop_out() -> None:
    signal = generate.ecg(60, seed=2, dropouts=0.0)
    assert signal.truth is not None
    columns = signal.table().to_numpy()
    assert len(columns["mv"]) == 60 * 250
    peaks = signal.truth.to_numpy()["time"]
    at = np.searchsorted(columns["time"], peaks)
    heights = np.array([columns["mv"][max(0, i - 3) : i + 4].max() for i in at])
    assert (heights > 0.75).all()
    assert generate.ecg(60, seed=2, dropouts=0.05).rows < 60 * 250


def test_fault_raises_the_kurtosis() -> None:
    accel = generate.vibration(2, seed=1).table().to_numpy()["accel"].astype(float)
    sound, faulty = accel[:50_000], accel[50_000:]

    def kurtosis(x: np.ndarray) -> float:
        return float(((x - x.mean()) ** 4).mean() / x.var() ** 2)

    assert kurtosis(sound) < 3.5
    assert kurtosis(faulty) > 4


def test_sessions_are_half_an_hour_apart() -> None:
    clicks = generate.clicks(20_000, seed=6).table().to_numpy()
    for user in np.unique(clicks["user"])[:50]:
        own = clicks["user"] == user
        gaps = np.diff(clicks["time"][own])
        changes = np.diff(clicks["session"][own])
        assert ((gaps > np.timedelta64(30, "m")) == (changes == 1)).all()
        assert clicks["session"][own][0] == 0
        assert set(np.unique(changes)) <= {0, 1}


def test_trades_are_at_a_quote_before_them() -> None:
    quotes, trades = (part.table() for part in generate.quotes_and_trades(2_000, seed=8))
    known = {(row["symbol"], price) for row in quotes for price in (row["bid"], row["ask"])}
    assert all((row["symbol"], row["price"]) in known for row in trades)


def test_nothing_is_not_generated() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        generate.price_ticks(0).table()


WRITTEN = """
import resource, sys
from tilt import generate
generate._BLOCK = 1 << 16
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
generate.price_ticks(1 << 17, seed=1).sink_parquet(sys.argv[1], row_group_rows=1 << 16)
before = peak()
rows = 3 << 20
assert generate.price_ticks(rows, seed=1).sink_parquet(sys.argv[1], row_group_rows=1 << 16) == rows
grown = peak() - before
assert grown < 24 * rows / 2, f"{grown / 1e6:.0f} MB"
"""


def test_more_rows_are_written_than_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", WRITTEN, str(tmp_path / "ticks.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    stored = tl.scan_parquet(tmp_path / "ticks.parquet", time="time").collect(part=(0, "2026-01-05 09:31"))
    monkeypatch.setattr(generate, "_BLOCK", 1 << 16)
    expected = next(iter(generate.price_ticks(3 << 20, seed=1)))[: len(stored)]
    assert len(stored) > 100
    assert stored["price"] == expected["price"]
