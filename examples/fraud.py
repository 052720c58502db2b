"""Fraud: payments above what the same card paid in the ten days before, by so many standard deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 40_000) -> dict[str, tl.Table]:
    """Give each payment with its score, as far as there is a past, and how good limits are against the labels."""
    payments = tl.stream(generate.transactions(rows, seed=4, cards=200).table(), time="time").key_by("card")
    past = payments["amount"].window("10d", closed="left", min_samples=5)
    score = (payments["amount"] - past.mean()) / past.std()
    scored = payments.with_columns(score=score).filter(score.is_not_null()).drop("merchant").collect()
    columns = scored.to_numpy()
    limits = np.arange(3.0, 13.0)
    alarms = columns["score"] > limits[:, None]
    hits = (alarms & columns["fraud"].astype(bool)).sum(axis=1)
    found = {"precision": hits / np.maximum(alarms.sum(axis=1), 1), "recall": hits / max(columns["fraud"].sum(), 1)}
    return {"payments": scored, "rules": tl.Table({"deviations": limits, "alarms": alarms.sum(axis=1), **found})}


def draw(figure: Figure, result: dict[str, tl.Table]) -> None:
    """Draw the scores of all payments, and beside them what a limit finds."""
    rows, rules = result["payments"].to_numpy(), result["rules"].to_numpy()
    fraud = rows["fraud"].astype(bool)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for which, colour, label, size in ((~fraud, GREY, "payment", 2), (fraud, RED, "fraud", 14)):
        left.scatter(rows["time"][which], rows["score"][which], s=size, color=colour, linewidth=0, label=label)
    left.axhline(3, color=INK, linewidth=0.8)
    left.set(title="Payments against the card's past", xlabel="day", ylabel="standard deviations above the mean")
    left.set_yscale("symlog", linthresh=10)
    left.set(ylim=(-20, 200))
    left.legend(loc="lower left", ncols=2, markerscale=2)
    clock(left, "%d %b")
    right.plot(rules["deviations"], rules["precision"], "o-", color=BLUE, label="precision")
    right.plot(rules["deviations"], rules["recall"], "o-", color=RED, label="recall")
    right.set(title="What a limit finds", xlabel="limit (standard deviations)", ylabel="share", ylim=(0, 1.05))
    right.legend(loc="lower right")


if __name__ == "__main__":
    show(main, draw)
