"""Pan and Tompkins (1985): find the beats of an electrocardiogram of 200 samples a second.

Band-pass, derivative, square, moving mean; samples before the first one are zero. The high-pass is written with the
running sum that it subtracts from the delayed signal: in one recurrence it would have a pole that nothing damps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import tilt as tl
from picture import BLUE, GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELAY = np.timedelta64(200, "ms")
"""The filters are late by 23 samples of 5 ms, and the moving mean is highest when it holds all of a complex."""


def main(rows: int = 2_400) -> dict[str, tl.Table]:
    """Give the signal with what becomes of it, the beats that were found, and the true ones."""
    generated = generate.ecg(rows / 200, seed=6, rate=200, dropouts=0.0)
    ecg = tl.stream(generated.table(), time="time", period="5ms")["mv"]

    def past(stream: tl.Stream, samples: int) -> tl.Stream:
        return stream[-samples].fill_null(0.0)

    low = tl.recur(lambda y: 2.0 * past(y, 1) - past(y, 2) + ecg - 2.0 * past(ecg, 6) + past(ecg, 12))
    running = tl.recur(lambda y: past(y, 1) + low - past(low, 32))
    high = 32.0 * past(low, 16) - running
    slope = (high + 2.0 * past(high, 1) - 2.0 * past(high, 3) - past(high, 4)) / 8.0
    energy = (slope * slope)[-30:].sum() / 30.0
    # What is usual is learnt for two seconds, as in the paper; no beat is told before.
    usual = energy.window("8s", min_samples=400).mean()
    beats = energy.peaks(min_distance="200ms", threshold=1.5 * usual)
    signal = tl.struct(mv=ecg, band=high, energy=energy).collect()
    assert generated.truth is not None  # noqa: S101 - an electrocardiogram has beats
    return {"signal": signal, "found": beats.alias("energy").collect(), "truth": generated.truth}


def draw(figure: Figure, result: dict[str, tl.Table]) -> None:
    """Draw the signal with its beats above the two stages that make them stand out."""
    rows, found, truth = (result[name].to_numpy() for name in ("signal", "found", "truth"))
    panels = figure.subplots(3, sharex=True, height_ratios=(2, 1, 1))
    panels[0].plot(rows["time"], rows["mv"], color=INK, linewidth=0.8)
    panels[0].vlines(truth["time"], -0.4, 1.4, color=GREY, linewidth=4, alpha=0.5, label="true beat")
    beats = found["time"] - DELAY
    panels[0].plot(beats, np.full(len(beats), 1.4), "v", color=RED, label="found")
    panels[0].set(title=f"{len(truth['time'])} beats, {len(beats)} found", ylabel="signal (mV)", ylim=(-0.5, 2.0))
    panels[0].legend(loc="upper right", ncols=2)
    for axes, column in zip(panels[1:], ("band", "energy"), strict=True):
        axes.plot(rows["time"], rows[column], color=BLUE, linewidth=0.8)
        axes.set(ylabel=column)
    panels[2].set(xlabel="time (UTC)")
    clock(panels[2])


if __name__ == "__main__":
    show(main, draw)
