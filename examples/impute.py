"""Imputation (TiLT, table 2): fill the gaps of a signal with the mean of its last second, or hold its last value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tilt as tl
from picture import BLUE, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def main(rows: int = 3_000) -> dict[str, tl.Table]:
    """Give the samples, and the signal with gaps filled by the mean, or for their first 100 ms by holding."""
    samples = generate.ecg(rows / 250, seed=1, dropouts=0.2).table()
    ecg = tl.stream(samples, time="time", period="4ms")["mv"]
    grid = ecg.every("4ms")
    mean = grid.fill_null(ecg["-1s":].mean(), max_gap="2s")
    held = ecg.resample("4ms", method="hold", max_gap="100ms")
    return {"samples": samples, "mean": mean.alias("mv").collect(), "held": held.alias("mv").collect()}


def draw(figure: Figure, result: dict[str, tl.Table]) -> None:
    """Draw what was filled in beside the samples."""
    samples, mean, held = (result[name].to_numpy() for name in ("samples", "mean", "held"))
    axes = figure.subplots()
    axes.plot(mean["time"], mean["mv"], ".", color=RED, markersize=2.5, label="mean of the last second")
    axes.plot(held["time"], held["mv"], ".", color=BLUE, markersize=2.5, label="held for 100 ms")
    axes.plot(samples["time"], samples["mv"], ".", color=INK, markersize=1.5, label="sample")
    axes.set(title="Gaps of a signal, filled", xlabel="time (UTC)", ylabel="signal (mV)")
    axes.legend(loc="upper right", ncols=3, markerscale=4)
    axes.margins(y=0.15)
    clock(axes)


if __name__ == "__main__":
    show(main, draw)
