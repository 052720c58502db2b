"""What the examples share: their command line, and how their pictures look."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from matplotlib import dates, rc_context
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

Result = TypeVar("Result")

INK, BLUE, RED, GREY = "#222222", "#2b6cb0", "#c53030", "#a0aec0"
_LOOK = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
}


def save(path: Path, result: Result, draw: Callable[[Figure, Result], None]) -> None:
    """Draw a result into a file."""
    with rc_context(_LOOK):  # type: ignore[arg-type]
        figure = Figure(figsize=(9, 4.5), layout="constrained")
        draw(figure, result)
        figure.savefig(path, dpi=110)


def show(main: Callable[[], Result], draw: Callable[[Figure, Result], None]) -> None:
    """Print the result of an example and draw it, into the folder that ``--out`` names or a temporary one."""
    script = Path(sys.argv[0])
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--out", type=Path, help="folder of the picture (default: a temporary one)")
    out = parser.parse_args().out or Path(tempfile.mkdtemp(prefix="tilt-"))
    result = main()
    for name, part in result.items() if isinstance(result, dict) else [(script.stem, result)]:
        print(f"{name}: {part}" if isinstance(part, (int, float)) else f"{name}\n{part}\n")
    out.mkdir(parents=True, exist_ok=True)
    save(out / f"{script.stem}.png", result, draw)
    print(out / f"{script.stem}.png")


def clock(axes: Axes, form: str = "%H:%M:%S") -> None:
    """Label an axis of times by the time of day, in UTC as the data is."""
    axes.xaxis.set_major_locator(dates.AutoDateLocator(maxticks=8))  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(dates.DateFormatter(form))  # type: ignore[no-untyped-call]
