"""Alarm: a price has been below its limit for ten minutes without a break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tilt as tl
from picture import GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT = 99.7


def main(rows: int = 10_000) -> dict[str, tl.Table]:
    """Give the trades, one a second, and when the alarm was on: from ten minutes after the price fell until it rose."""
    trades = generate.price_ticks(rows, seed=13, rate=1.0).table()
    below = tl.stream(trades, time="time")["price"].hold() < LIMIT
    # One event for each price: those that follow each other at once are one alarm.
    alarms = below.held_for("10m").window(tl.session(gap="1us")).agg(prices=tl.len())
    return {"trades": trades, "alarms": alarms.collect()}


def draw(figure: Figure, result: dict[str, tl.Table]) -> None:
    """Draw the price, shaded where the alarm is on."""
    trades, alarms = result["trades"].to_numpy(), result["alarms"].to_numpy()
    axes = figure.subplots()
    for start, end in zip(alarms["start"], alarms["end"], strict=True):
        axes.axvspan(start, end, color=RED, alpha=0.3, linewidth=0)
    axes.step(trades["time"], trades["price"], where="post", color=INK, linewidth=0.7)
    axes.axhline(LIMIT, color=GREY)
    axes.set(title=f"Red: below {LIMIT} $ for ten minutes and more", xlabel="time of day (UTC)", ylabel="price ($)")
    clock(axes, "%H:%M")


if __name__ == "__main__":
    show(main, draw)
