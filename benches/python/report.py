"""The table and the chart."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benches.python.work import LIBRARIES, RIVALS, THREADS

if TYPE_CHECKING:
    from benches.python.measure import Measured
    from benches.python.startup import Wait

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs/benchmarks_python.md"
_CHART = _ROOT / "docs/_static/benchmarks_python.svg"
_BEGIN = "<!-- make bench-python: begin -->"
_END = "<!-- make bench-python: end -->"
_NOTHING = "\N{EN DASH}"
_COLORS = {"tilt": "#0969da", "pandas": "#8250df", "polars": "#bc4c00", "duckdb": "#9a6700", "numba": "#57606a"}


def markdown(measured: list[Measured], waits: list[Wait], events: int) -> str:
    """Write the tables."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("pandas", "polars", "duckdb", "numpy", "numba"))
    lines = [
        f"{_processor()}; Python {platform.python_version()}, {packages}",
        "",
        f"{events} events, {THREADS} threads, milliseconds.",
        "",
    ]
    if measured:
        lines += [
            f"| query | {' | '.join(LIBRARIES)} | fastest rival ÷ tilt | numba ÷ tilt | bar | met |",
            f"|---|{'--:|' * len(LIBRARIES)}--:|--:|--:|---|",
            *map(_line, measured),
            "",
        ]
        notes = [f"{m.work.name}: {library} {note}." for m in measured for library, note in m.work.notes.items()]
        lines += [f"- {note}" for note in notes] + [""] * bool(notes)
    if waits:
        lines += ["| wait | milliseconds | bar | met |", "|---|--:|--:|---|", *map(_wait, waits), ""]
    return "\n".join(lines)


def _line(measured: Measured) -> str:
    seconds, bar = measured.seconds, measured.work.bar
    figures = [f"{seconds[name] * 1e3:.0f}" if name in seconds else _NOTHING for name in LIBRARIES]
    ratio = min(seconds[name] for name in RIVALS if name in seconds) / seconds["tilt"]
    hand = seconds["numba"] / seconds["tilt"]
    met = "yes" if ratio >= bar else "**no**"
    return f"| {measured.work.name} | {' | '.join(figures)} | {ratio:.2f} | {hand:.2f} | ≥ {bar:g} | {met} |"


def _wait(wait: Wait) -> str:
    if wait.bar is None:
        return f"| {wait.name} | {wait.seconds * 1e3:.3g} |  | {_NOTHING} |"
    met = "yes" if wait.seconds <= wait.bar else "**no**"
    return f"| {wait.name} | {wait.seconds * 1e3:.3g} | ≤ {wait.bar * 1e3:g} | {met} |"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def store(text: str) -> None:
    """Put the tables between the marks of the page.

    Raises
    ------
    ValueError
        If the marks are missing.

    """
    page = _PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        message = f"{_PAGE}: the marks of the tables are missing"
        raise ValueError(message)
    _PAGE.write_text(f"{before}{_BEGIN}\n{text}{_END}{after}", encoding="utf-8")


def chart(measured: list[Measured], events: int) -> None:
    """Draw events per second of each library, one group of bars a query."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    # The same drawing for the same figures.
    mpl.rcParams.update({"svg.hashsalt": "tilt", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(8, 0.75 * len(measured) + 1), layout="constrained")
    thickness = 0.8 / len(LIBRARIES)
    for place, name in enumerate(LIBRARIES):
        rows = [(row, m.seconds[name]) for row, m in enumerate(measured) if name in m.seconds]
        rates = [events / seconds / 1e6 for _, seconds in rows]
        middles = [row + (place - (len(LIBRARIES) - 1) / 2) * thickness for row, _ in rows]
        label = f"{name} (one thread)" if name in {"pandas", "numba"} else name
        bars = axes.barh(middles, rates, thickness, color=_COLORS[name], label=label)
        axes.bar_label(bars, [f"{rate:.3g}" for rate in rates], padding=2, fontsize=6)
    axes.set_yticks(range(len(measured)), [m.work.name for m in measured])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("million events a second, logarithmic")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(LIBRARIES), frameon=False)
    figure.savefig(_CHART, metadata={"Date": None})
