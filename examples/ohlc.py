"""Bars of one minute: open, high, low, close, volume and the mean price of a share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 60_000) -> tl.Table:
    """Give one row for each minute in which there were trades, stamped with the end of the minute."""
    trades = tl.stream(generate.price_ticks(rows, seed=11).table(), time="time")
    price, size = tl.col("price"), tl.col("size")
    bars = trades.window(tl.tumbling("1m")).agg(
        open=price.first(),
        high=price.max(),
        low=price.min(),
        close=price.last(),
        volume=size.sum(),
        vwap=(price * size).sum() / size.sum(),
        trades=tl.len(),
    )
    return bars.collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw candles above the volume; a bar is drawn where its minute ends."""
    bars = table.to_numpy()
    time, colours = bars["time"], np.where(bars["close"] >= bars["open"], BLUE, RED)
    top, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    top.vlines(time, bars["low"], bars["high"], color=colours, linewidth=1)
    top.vlines(time, bars["open"], bars["close"], color=colours, linewidth=5)
    top.plot(time, bars["vwap"], color=INK, linewidth=0.8, label="mean price of a share")
    top.set(title="Bars of one minute: blue ones rise, red ones fall", ylabel="price ($)")
    top.legend()
    below.bar(time, bars["volume"] / 1e6, width=np.timedelta64(45, "s"), color=GREY)
    below.set(xlabel="time of day (UTC)", ylabel="volume (10⁶)")
    clock(below, "%H:%M")


if __name__ == "__main__":
    show(main, draw)
