"""Trend query (TiLT, figure 2): a price rises while its mean over one minute is above its mean over five."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 30_000) -> tl.Table:
    """Give each trade with both means, and by how much the short one is higher where it is."""
    trades = tl.stream(generate.price_ticks(rows, seed=11).table(), time="time")
    price = trades["price"]
    short, long = price["-1m":].mean(), price["-5m":].mean()
    rise = short - long
    return trades.with_columns(short=short, long=long, trend=rise.filter(rise > 0)).collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw the price with its means, shaded where it rises."""
    rows = table.to_numpy()
    axes = figure.subplots()
    axes.plot(rows["time"], rows["price"], color=GREY, linewidth=0.5, label="trades")
    axes.plot(rows["time"], rows["long"], color=INK, label="mean of 5 min")
    axes.plot(rows["time"], rows["short"], color=BLUE, label="mean of 1 min")
    rises = ~np.isnan(rows["trend"])
    axes.fill_between(
        rows["time"], rows["long"], rows["short"], where=rises, color=RED, alpha=0.35, linewidth=0, label="trend"
    )
    axes.set(title="Where the short mean is above the long one", xlabel="time of day (UTC)", ylabel="price ($)")
    axes.legend(ncols=4)
    clock(axes, "%H:%M")


if __name__ == "__main__":
    show(main, draw)
