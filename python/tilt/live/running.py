"""What runs of a query in stages: the session of each stage, and the streams that feed them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilt.durations import instant_ticks, ticks_in
from tilt.table import Table

if TYPE_CHECKING:
    from tilt import _native
    from tilt.live.stages import Stage

_ROUNDED = 999
"""Nanoseconds that Python's times, which count microseconds, may leave out."""


@dataclass
class Running:
    """A stage, its session, and the inputs that read its results. Instants are in ticks of the whole query."""

    stage: Stage
    core: _native.Session
    columns: Table = field(default_factory=lambda: Table({}))
    """Of its results, as others read them."""
    readers: list[tuple[Running, str]] = field(default_factory=list)
    end: int | None = None
    """Where the last result has ended, if it matters for those to come; rounded down."""
    is_told: bool = False
    """Whether others know the columns as they are, and not only as they were declared."""
    is_closed: bool = False

    def tells_columns(self, rows: _native.Table) -> bool:
        """Whether results, of which there may be none, have the columns that all others will have.

        All inputs have to be known, also to what computes results: if times are as they would be if nothing were known,
        they may not be, and if they are there is nothing to tell.
        """
        usual = self.stage.usual
        return rows.schema[: len(usual)] != usual and all(
            self.core.columns(name)[0] for name in self.stage.plan.sources
        )

    def named(self, rows: _native.Table) -> _native.Table:
        """Give results as others read them."""
        times = self.stage.times
        return rows.renamed([*times, *(name for name, _ in rows.schema[len(times) :])])

    def progress(self) -> dict[str, _native._Progress]:
        """Tell how far each input has come."""
        return {told[0]: told for told in self.core.status()[1]}

    def instant(self, name: str, moment: Any) -> int:  # noqa: ANN401
        """Give an instant that the session tells of an input, rounded down."""
        _, times = self.core.columns(name)[1].schema[0]
        unit = self.stage.plan.sources[name].events.unit
        if isinstance(moment, int) and times.startswith(("Int", "UInt")):
            # Integers count the unit of their own stream.
            return moment * ticks_in(unit or "tick", self.stage.unit)
        return instant_ticks(moment, self.stage.plan.unit) * self.stage.scale

    def reached(self, rows: _native.Table) -> int | None:
        """Give the time that no result still to come is before, after these.

        That of an interval is its start: intervals that do not overlap begin where those before them have ended.
        """
        stage = self.stage
        if rows.num_rows and (stage.period is not None or len(stage.times) > 1):
            last = rows.slice(rows.num_rows - 1, 1).column(rows.schema[len(stage.times) - 1][0])
            self.end = instant_ticks(last.to_pylist()[0], stage.plan.unit) * stage.scale
        if len(stage.times) > 1:
            return self.end
        until, ((first, *_), *_), *_ = self.core.status()
        if until is None:
            return None
        # Told in the unit of the first stream, which may be a coarser one: at least this far.
        t = self.instant(first, until)
        if stage.period is None or self.end is None:
            return t + stage.scale
        # No cell that has ended by then is still to come. Where cells end is known as exactly as their ends are.
        t -= _ROUNDED if stage.plan.unit == "ns" else 0
        return t - (t - self.end) % stage.period + stage.period


@dataclass
class Feed:
    """A stream: where its rows go, and whether others wait for it."""

    places: list[tuple[Running, str]]
    """The inputs of stages that read it."""
    gate: tuple[Running, str] | None
    """What takes rows before they do, if there are several."""
    idle_after: int | None
    is_idle: bool = False
    touched: int | None = None
    """By the clock, when it had rows last."""

    @property
    def all(self) -> list[tuple[Running, str]]:
        """All that its rows go to, in order."""
        return self.places if self.gate is None else [self.gate, *self.places]

    @property
    def covered(self) -> int | None:
        """No event that is still to come starts before this; in ticks of the whole query."""
        running, name = self.places[0]
        watermark = running.progress()[name][1]
        return None if watermark is None else running.instant(name, watermark) - running.stage.offset(name)

    def advance(self, t: int) -> None:
        """Tell all that rows of an earlier time count no more."""
        for running, name in self.all:
            running.core.advance_input(name, running.stage.ticks(t))

    def promise(self, start: int) -> None:
        """Tell all that events which start earlier count no more."""
        running, name = self.places[0]
        self.advance(start + running.stage.offset(name))
