"""Vibration of a bearing: features of each tenth of a second, in which a damaged ring shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tilt as tl
from picture import BLUE, GREY, INK, RED, clock, show
from tilt import generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATE = 50_000
BLOCKS = tl.tumbling("100ms", offset="99980us")
"""The first sample is at zero, so a block ends with the sample before a full tenth of a second."""


def main(rows: int = 500_000) -> dict[str, tl.Table]:
    """Give the features, and when the damage begins."""
    generated = generate.vibration(rows / RATE, seed=8, rate=RATE)
    accel = tl.stream(generated.table(), time="time", period="20us")["accel"]
    features = accel.window(BLOCKS).agg(
        kurtosis=tl.kurtosis(fisher=False), rms=tl.rms(), crest=tl.crest_factor(), peak_to_peak=tl.max() - tl.min()
    )
    assert generated.truth is not None  # noqa: S101 - there is a fault in it
    return {"features": features.collect(), "truth": generated.truth}


def draw(figure: Figure, result: dict[str, tl.Table]) -> None:
    """Draw each feature over time, and the beginning of the damage."""
    rows, fault = result["features"].to_numpy(), result["truth"].to_numpy()["fault"][0]
    panels = figure.subplots(2, 2, sharex=True).ravel()
    features = (
        ("rms", "rms (g)", INK),
        ("peak_to_peak", "peak to peak (g)", INK),
        ("kurtosis", "kurtosis", BLUE),
        ("crest", "crest factor", BLUE),
    )
    for axes, (column, label, colour) in zip(panels, features, strict=True):
        axes.axvline(fault, color=RED, linewidth=1, label="damage begins")
        axes.plot(rows["time"], rows[column], color=colour)
        axes.set(ylabel=label)
    panels[2].axhline(3, color=GREY, linewidth=1)
    panels[0].set(title="A bearing that breaks, every 100 ms")
    panels[0].legend(loc="upper left")
    for axes in panels[2:]:
        axes.set(xlabel="time (UTC)")
        clock(axes, "%M:%S")


if __name__ == "__main__":
    show(main, draw)
