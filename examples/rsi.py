"""Relative strength index over 14 days, with simple means and with Wilder's exponential ones, for each stock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tilt as tl
from picture import BLUE, GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAYS = 14


def main(rows: int = 1_000) -> tl.Table:
    """Give close and both indices of four stocks; days without trading do not count."""
    prices = generate.eod_prices(4, days=rows // 4, seed=3).table()
    close = tl.stream(prices, time="date").key_by("symbol")["close"]
    change = close.diff()
    gain, loss = change.clip(lower_bound=0.0), (-change).clip(lower_bound=0.0)
    simple = gain[f"-{DAYS}i" :].mean() / loss[f"-{DAYS}i" :].mean()
    wilder = gain.ewm(alpha=1 / DAYS) / loss.ewm(alpha=1 / DAYS)
    indices: tl.Stream = tl.struct(close=close, simple=100 - 100 / (1 + simple), wilder=100 - 100 / (1 + wilder))
    return indices.filter(change.cum_count() >= DAYS).collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw the price of the first stock above its indices."""
    frame = table.to_numpy()
    one = frame["symbol"] == frame["symbol"][0]
    date = frame["date"][one]
    top, below = figure.subplots(2, sharex=True)
    top.plot(date, frame["close"][one], color=INK)
    top.set(title=f"Relative strength of {frame['symbol'][0]}, {DAYS} days", ylabel="close ($)")
    below.axhspan(30, 70, color=GREY, alpha=0.25, linewidth=0)
    below.plot(date, frame["simple"][one], color=BLUE, label="simple")
    below.plot(date, frame["wilder"][one], color=RED, label="Wilder")
    below.set(ylim=(0, 100), yticks=(0, 30, 50, 70, 100), xlabel="date", ylabel="index (%)")
    below.legend(ncols=2, loc="upper right")
    clock(below, "%b %Y")


if __name__ == "__main__":
    show(main, draw)
