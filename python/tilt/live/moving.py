"""A picture that moves with the results of a session."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from tilt.plots import instant_text, number, svg

if TYPE_CHECKING:
    from os import PathLike

    from tilt.plots import Series
    from tilt.table import Table

_BARS = "▁▂▃▄▅▆▇█"


@final
class Plot:
    """The latest results of a session, drawn as they come: in a notebook, on a terminal, or as a page for a browser.

    It is called with results, so it can be the ``on_result`` of a session. Columns of numbers are drawn, those of text
    tell them apart, and changes of results (``mode="updates"``) change what was drawn.

    >>> import tilt as tl
    >>> x = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"]
    >>> plot = tl.live.Plot(last=10, show=False)
    >>> with x.window(3).mean().session(on_result=plot) as live:
    ...     for t in range(40):
    ...         table = live.push({"t": t, "x": float(t % 8)})
    >>> print(plot.text(width=40))
    x ▇█▆▃▁▂▄▅▇█ 6
      from 30 to 39
    >>> str(plot).startswith("<svg")
    True
    """

    def __init__(  # noqa: PLR0913
        self,
        *,
        last: float = 60.0,
        page: str | PathLike[str] | None = None,
        every: float = 0.1,
        width: int = 760,
        height: int = 220,
        show: bool = True,
    ) -> None:
        """Make a picture without anything in it.

        Parameters
        ----------
        last
            How much time it shows: seconds, or ticks where times are plain integers.
        page
            A file that a browser shows, and loads again every second: it is written anew whenever there are results.
        every
            How many seconds are between two drawings at least; :meth:`draw` shows the last results when no more come.
        width, height
            The size in pixels.
        show
            Whether to draw in the notebook or on the terminal that this runs in.

        """
        self._last = last
        self._page = None if page is None else os.fspath(page)
        self._every = every
        self._size = (width, height)
        self._show = show
        self._series: dict[str, dict[float, float]] = {}
        self._drawn = float("-inf")
        self._display: Any = None
        self._lines = 0
        self._lock = threading.RLock()

    def __call__(self, table: Table) -> None:
        """Add results, and draw if it is time."""
        with self._lock:
            self._add(table)
            now = time.monotonic()
            if now - self._drawn >= self._every:
                self._drawn = now
                self.draw()

    def _add(self, table: Table) -> None:
        schema, columns = table.schema, table.to_dict()
        ops = columns.pop("op") if next(iter(schema), "") == "op" else None
        names = [name for name in schema if name in columns]
        both = [schema[name].startswith("Timestamp") for name in names[:2]]
        is_interval = names[:2] == ["start", "end"] or both == [True, True]
        at, rest = columns[names[int(is_interval)]], names[1 + int(is_interval) :]
        numbers = [name for name in rest if schema[name].startswith(("Int", "UInt", "Float", "Bool"))]
        texts = [name for name in rest if "Utf8" in schema[name]]
        for row, instant in enumerate(at):
            where = number(instant)
            for name in numbers:
                value = columns[name][row]
                title = " ".join([name, *(str(columns[text][row]) for text in texts)])
                series = self._series.setdefault(title, {})
                if (ops is not None and ops[row] == "delete") or value is None or value != value:  # noqa: PLR0124
                    series.pop(where, None)
                else:
                    series[where] = float(value)
        newest = max((max(series, default=0.0) for series in self._series.values()), default=0.0)
        for title, series in list(self._series.items()):
            kept = {where: value for where, value in series.items() if where > newest - self._last}
            if kept:
                self._series[title] = kept
            else:
                del self._series[title]

    def draw(self) -> None:
        """Draw now, where it is shown."""
        with self._lock:
            if self._page is not None:
                self._write(self._page)
            if not self._show:
                return
            if self._is_notebook():
                if self._display is None:
                    self._display = import_module("IPython.display").display(self, display_id=True)
                else:
                    self._display.update(self)
            elif sys.stderr.isatty():
                lines = self.text(shutil.get_terminal_size().columns).splitlines()
                back = f"\x1b[{self._lines}F" if self._lines else ""
                sys.stderr.write(back + "".join(f"\x1b[2K{line}\n" for line in lines))
                sys.stderr.flush()
                self._lines = len(lines)

    @staticmethod
    def _is_notebook() -> bool:
        shell = sys.modules.get("IPython")
        found = None if shell is None else shell.get_ipython()
        return found is not None and hasattr(found, "kernel")

    def text(self, width: int = 80) -> str:
        """Give the picture in letters: a line of bars for each series, with its last value."""
        with self._lock:
            rows = [row for series in self._series.values() for row in series]
            if not rows:
                return "no results yet"
            left, right = min(rows), max(rows)
            titled = max(map(len, self._series))
            room = max(8, width - titled - 12)
            lines = []
            for title, series in sorted(self._series.items()):
                low, high = min(series.values()), max(series.values())
                bars: dict[int, float] = {}
                # As wide as there are results, at most.
                across = min(room, max(map(len, self._series.values())))
                for where, value in sorted(series.items()):
                    bars[round((where - left) / ((right - left) or 1) * (across - 1))] = value
                shown = "".join(_bar(bars.get(place), low, high) for place in range(across))
                lines.append(f"{title:<{titled}} {shown} {series[max(series)]:.5g}")
            return "\n".join([*lines, f"{'':<{titled}} from {instant_text(left)} to {instant_text(right)}"])

    def __str__(self) -> str:
        with self._lock:
            drawn: list[Series] = [
                (title, "line", [(at, at, value, value) for at, value in sorted(series.items())])
                for title, series in sorted(self._series.items())
            ]
            return svg(drawn, *self._size)

    def _repr_html_(self) -> str:
        return str(self)

    def _write(self, page: str) -> None:
        """Write the page under its name once it is whole: a browser may load it at any moment."""
        text = (
            '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="1"><title>tilt</title>'
            f"<body>{self}</body>"
        )
        beside = f"{page}.new"
        with open(beside, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        with contextlib.suppress(PermissionError):
            os.replace(beside, page)  # noqa: PTH105


def _bar(value: float | None, low: float, high: float) -> str:
    if value is None:
        return " "
    return _BARS[round((value - low) / ((high - low) or 1) * (len(_BARS) - 1))]
