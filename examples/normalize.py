"""Normalisation (TiLT, table 2): z-scores of a drifting price, over the last five minutes and block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tilt as tl
from picture import BLUE, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 30_000) -> tl.Table:
    """Give each trade with both scores. A block's mean holds in all of the block, so its score looks ahead."""
    trades = tl.stream(generate.price_ticks(rows, seed=11).table(), time="time")
    price = trades["price"]
    last, block = price.window("5m", min_samples=30), price.window(tl.tumbling("5m"))
    # Trades may share an instant, where a price less a block's mean has many values: the mean is added to each first.
    known = trades.with_columns(mean=block.mean(), std=block.std(ddof=0))
    scores = known.with_columns(
        rolling=(price - last.mean()) / last.std(), block=(known["price"] - known["mean"]) / known["std"]
    )
    return scores.drop("size", "mean", "std").collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw the price above its scores, in which the drift is gone."""
    rows = table.to_numpy()
    panels = figure.subplots(3, sharex=True)
    lines = (("price", "price ($)", INK), ("rolling", "z, last 5 min", BLUE), ("block", "z, block of 5 min", RED))
    for axes, (column, label, colour) in zip(panels, lines, strict=True):
        axes.plot(rows["time"], rows[column], color=colour, linewidth=0.8)
        axes.set(ylabel=label)
    for axes in panels[1:]:
        axes.axhline(0, color=INK, linewidth=0.6)
        axes.set(ylim=(-4.5, 4.5), yticks=(-3, 0, 3))
    panels[0].set(title="A drifting price, and how unusual it is (in standard deviations)")
    panels[2].set(xlabel="time of day (UTC)")
    clock(panels[2], "%H:%M")


if __name__ == "__main__":
    show(main, draw)
