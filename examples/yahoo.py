"""Yahoo's streaming benchmark: views of ads, counted for each campaign every ten seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, GREY, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 600_000) -> tl.Table:
    """Give the number of views of each campaign in each ten seconds."""
    events = generate.ad_events(rows, seed=12, rate=2_000)
    assert events.truth is not None  # noqa: S101 - the table of ads
    ads = tl.table(events.truth, key="ad")
    views = tl.stream(events.table(), time="time").filter(tl.col("event_type") == "view").lookup(ads, on="ad")
    return views.key_by("campaign").window(tl.tumbling("10s")).agg(views=tl.len()).collect()


def draw(figure: Figure, table: tl.Table) -> None:
    """Draw the counts of all campaigns over time, and how they differ."""
    columns = table.to_numpy()
    # The first event ends a window in which nothing else was.
    rows = {name: values[columns["time"] > columns["time"][0]] for name, values in columns.items()}
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    for campaign in np.unique(rows["campaign"]):
        one = rows["campaign"] == campaign
        first = campaign == 0
        label = {0: "campaign 0", 1: "the others"}.get(int(campaign))
        colour, above = (BLUE, 3) if first else (GREY, 2)
        left.plot(rows["time"][one], rows["views"][one], color=colour, linewidth=1 + first, zorder=above, label=label)
    left.set(title="Views of each campaign in 10 s", xlabel="time (UTC)", ylabel="views")
    left.legend(loc="lower right")
    clock(left, "%M:%S")
    right.hist(rows["views"], bins=30, orientation="horizontal", color=GREY)
    right.set(title="How often", xlabel="counts")


if __name__ == "__main__":
    show(main, draw)
