"""Resampling (TiLT, table 2): a signal with gaps at another rate, and at the times of marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tilt as tl
from picture import BLUE, INK, RED, show
from tilt import generate

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.figure import Figure


def main(rows: int = 500) -> dict[str, tl.Table]:
    """Give the samples at 250 Hz, the line between them at 200 Hz, and its value at each true beat."""
    generated = generate.ecg(rows / 250, seed=26, dropouts=0.2)
    samples = generated.table()
    ecg = tl.stream(samples, time="time")["mv"]
    assert generated.truth is not None  # noqa: S101 - an electrocardiogram has beats
    beats = tl.stream({"time": generated.truth["time"], "beat": range(len(generated.truth))}, time="time")
    grid = ecg.resample("5ms", method="linear", max_gap="20ms")
    peaks = ecg.interpolate("linear", max_gap="20ms").at(beats)
    return {"samples": samples, "grid": grid.collect(), "peaks": peaks.collect()}


def draw(figure: Figure, result: dict[str, tl.Table]) -> None:
    """Draw the samples, the grid and the marks on the line between them."""
    samples, grid, peaks = (result[name].to_numpy() for name in ("samples", "grid", "peaks"))
    axes = figure.subplots()

    def seconds(rows: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        return np.asarray((rows["time"] - samples["time"][0]) / np.timedelta64(1, "s"))

    axes.plot(seconds(samples), samples["mv"], "o", color=INK, markersize=3.5, label="sample, 250 Hz")
    axes.plot(seconds(grid), grid["mv"], ".", color=BLUE, markersize=3, label="grid, 200 Hz")
    axes.plot(seconds(peaks), peaks["mv"], "x", color=RED, markersize=9, markeredgewidth=2, label="beat")
    axes.set(title="One line, read at two clocks; nothing is read in gaps", xlabel="time (s)", ylabel="signal (mV)")
    axes.legend(loc="upper right", ncols=3)
    axes.margins(y=0.15)


if __name__ == "__main__":
    show(main, draw)
