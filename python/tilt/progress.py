"""How far runs are, on the terminal."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import time
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tilt.table import Table

Extent: TypeAlias = "tuple[Any, Any] | None"
"""The first and the last instant of some rows, if they are known."""

_SECONDS = 0.5
"""A run that takes longer is worth a bar."""


@contextlib.contextmanager
def watched(
    progress: bool | Callable[[float], object] | None,  # noqa: FBT001
    extent: Callable[[], Extent],
) -> Iterator[Callable[[float], object] | None]:
    """Give what is to be called while a query runs over so much time."""
    if progress is None:
        progress = sys.stderr.isatty() and os.environ.get("TILT_PROGRESS") != "0"
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield None
        return
    with contextlib.closing(Bar(extent)) as bar:
        yield bar


class Bar:
    """A bar that shows which time is covered. It appears when a run takes long, if rich is installed.

    >>> from tilt.progress import Bar
    >>> bar = Bar(lambda: (0, 100))
    >>> bar(0.25)
    >>> bar.covered
    '25 of 100'
    >>> bar.close()
    """

    def __init__(self, extent: Callable[[], Extent], seconds: float = _SECONDS) -> None:
        """Begin a bar of a run that has begun."""
        self._due = time.monotonic() + seconds
        self._extent = extent
        self._ends: Extent = None
        self._share: float | None = None
        self._until: Any = None
        self._bars: Any = None
        self._task: Any = None

    def __call__(self, share: float | None) -> None:
        """Show that so much is done; ``None`` if that is not known."""
        self._share = share
        if self._bars is None:
            if time.monotonic() < self._due:
                return
            self._due = float("inf")
            self._bars = _rich()
        if self._bars is not None:
            if self._task is None:
                self._bars.start()
                self._task = self._bars.add_task("tilt", total=None, covered="")
            total = None if share is None else 1.0
            self._bars.update(self._task, total=total, completed=share or 0.0, covered=self.covered)

    def passed(self, part: Table) -> None:
        """Note that this part of the result is there."""
        if len(part) > 0:
            self._until = part[-1:][part.columns[0]][0]

    @property
    def covered(self) -> str:
        """The time that is covered, as text."""
        if self._until is not None:
            return f"until {_text(self._until)}"
        if self._ends is None:
            self._ends = self._extent()
        if self._ends is None or self._share is None:
            return ""
        first, last = self._ends
        at = first + (last - first) * self._share
        return f"{_text(at)} of {_text(last)}"

    def close(self) -> None:
        """Take the bar away."""
        if self._bars is not None:
            self._bars.stop()


def _text(instant: object) -> str:
    """Give an instant to the second, or a number of ticks."""
    if isinstance(instant, dt.datetime):
        return f"{instant:%Y-%m-%d %H:%M:%S}"
    return f"{int(instant):,}" if isinstance(instant, (int, float)) else str(instant)


def _rich() -> Any:  # noqa: ANN401
    try:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    except ImportError:
        return None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[covered]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
