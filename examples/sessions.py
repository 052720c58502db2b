"""Sessions: clicks of a user that are at most half an hour apart, for at most six hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, INK, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 8_000) -> tl.Table:
    """Give each visit with its first and last click, how many there were, and whether something was bought."""
    clicks = tl.stream(generate.clicks(rows, seed=2, users=100).table(), time="time").key_by("user")
    visits = clicks.window(tl.session(gap="30m", max_length="6h")).agg(
        first=tl.window_start(),
        last=tl.window_end(),
        clicks=tl.len(),
        landing=tl.col("url").first(),
        paid=(tl.col("url") == "/pay").any(),
    )
    return visits.collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw each visit as a line from its first click to its last, and how many clicks visits have."""
    visits = table.to_numpy()
    paid = visits["paid"].astype(bool)
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    for which, colour, label in ((~paid, INK, "looked"), (paid, BLUE, "paid")):
        user, first, last = (visits[name][which] for name in ("user", "first", "last"))
        left.hlines(user, first, last, color=colour, linewidth=2, label=label)
    left.set(title=f"{len(table):,} visits, {paid.mean():.0%} with a purchase", xlabel="time (UTC)", ylabel="user")
    clock(left, "%a %H:%M")
    bins = np.arange(0, visits["clicks"].max() + 5, 5)
    clicks = [visits["clicks"][~paid], visits["clicks"][paid]]
    right.hist(clicks, bins=bins.tolist(), stacked=True, color=[INK, BLUE], label=["looked", "paid"])
    right.set(title="Their size", xlabel="clicks", ylabel="visits")
    right.margins(y=0.25)
    right.legend(loc="upper left")


if __name__ == "__main__":
    show(main, draw)
