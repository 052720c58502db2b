"""Cost of trades: the quote that held, the quotes around it, and where the price went in the second after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, GREY, INK, RED, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HORIZONS = (10, 50, 100, 500, 1_000)
"""Milliseconds after a trade."""


def main(rows: int = 40_000) -> tl.Table:
    """Give each trade with the middle of the quote, its cost, the mean bid around it and markouts."""
    quotes, trades = (side.table() for side in generate.quotes_and_trades(rows, seed=9))
    quote, trade = (tl.stream(table, time="time").key_by("symbol") for table in (quotes, trades))
    mid = (quote["bid"] + quote["ask"]) / 2
    known = trade.with_columns(mid=mid.hold(max_age="1s"))
    later = {f"m_{horizon}ms": mid.hold()[f"+{horizon}ms"] for horizon in HORIZONS}
    return known.with_columns(
        cost=(known["price"] - known["mid"]).abs(), bid_near=quote["bid"]["-50ms":"+50ms"].mean(), **later
    ).collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw what trades cost, and how far the price moved in the direction of the trade afterwards."""
    rows = table.to_numpy()
    side = np.sign(rows["price"] - rows["mid"])
    left, right = figure.subplots(1, 2)
    left.hist(100 * rows["cost"], bins=np.arange(-0.25, 6, 0.5).tolist(), color=BLUE)
    left.set(title="Cost against the quote that held", xlabel="distance of price and middle (¢)", ylabel="trades")
    moves = np.array([100 * side * (rows[f"m_{horizon}ms"] - rows["mid"]) for horizon in HORIZONS])
    middle, spread = np.nanmean(moves, axis=1), np.nanstd(moves, axis=1)
    right.fill_between(HORIZONS, middle - spread, middle + spread, color=GREY, alpha=0.4, label="standard deviation")
    right.plot(HORIZONS, middle, "o-", color=RED, label="mean")
    right.axhline(0, color=INK, linewidth=0.8)
    right.set(title="Markout: the middle, later", xlabel="after the trade (ms)", ylabel="move the way of the trade (¢)")
    right.set_xscale("log")
    right.legend(loc="upper left")


if __name__ == "__main__":
    show(main, draw)
