"""Queries that are computed in stages: the plan of each stage, and where rows and results go."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilt.durations import duration_ticks, ticks_in
from tilt.errors import QueryError
from tilt.keys import Looked, Staged, staged
from tilt.live.options import Disorder
from tilt.live.plan import single, to_come
from tilt.live.relay import Relay
from tilt.sources import Deferred, replace
from tilt.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tilt import _native
    from tilt.live.plan import Given, Plan
    from tilt.sources import Events, Source
    from tilt.table import Table


@dataclass(frozen=True)
class Stage:
    """A query that is one program: it reads streams, and results of other stages."""

    plan: Plan
    streams: Mapping[str, str]
    """The stream that each input reads."""
    results: Mapping[str, int]
    """The stage whose results each other input reads."""
    usual: Sequence[tuple[str, str]]
    """The columns of time where its results are read, as they are if nothing is known of the streams."""
    period: int | None
    """How long its results are, if they have one length; ticks of the whole query. They are on a grid then."""
    unit: str
    """What a tick of the whole query is."""

    @cached_property
    def times(self) -> list[str]:
        """What the columns of time are called where its results are read."""
        return [name for name, _ in self.usual]

    @cached_property
    def scale(self) -> int:
        """How many ticks of the whole query one of its own is."""
        return ticks_in(self.plan.unit, self.unit)

    def ticks(self, t: int) -> int:
        """Give an instant of the whole query as its own first one that is not earlier."""
        return -(-t // self.scale)

    def offset(self, stream: str) -> int:
        """Give by how much the time of a row is after the start of its event, in ticks of the whole query."""
        events = self.plan.sources[stream].events
        if _has_length(events):
            return self.scale * duration_ticks(events.valid, self.plan.unit)  # type: ignore[arg-type]
        return 0 if isinstance(events.valid, tuple) and events.closed == "right" else self.scale

    def begin(
        self,
        columns: Mapping[str, Table],
        *,
        disorder: Mapping[str, Disorder],
        **options: Any,  # noqa: ANN401
    ) -> _native.Session:
        """Begin a session of it alone. Results that it reads have these columns, and come in order."""
        sources = {name: _with_columns(self.plan.sources[name], given) for name, given in columns.items()}
        plan = dataclasses.replace(self.plan, sources={**self.plan.sources, **sources})
        own = dict.fromkeys(self.results, Disorder())
        return plan.begin(own | {name: disorder[stream] for name, stream in self.streams.items()}, **options)


@dataclass(frozen=True)
class Stages:
    """A query that is computed in stages, each after those whose results it reads; the last gives the results."""

    stages: Sequence[Stage]
    sources: Mapping[str, Source]
    """The streams: what the rows of each are, without a key."""

    @property
    def unit(self) -> str:
        """What a tick is."""
        return self.stages[-1].plan.unit

    def begin(self, disorder: Mapping[str, Disorder], **options: Any) -> Relay:  # noqa: ANN401
        """Begin a session.

        Raises
        ------
        QueryError
            If results would be revised, or the run is to start elsewhere than with its first event.

        """
        if options.get("mode") == "updates":
            message = (
                "this query is computed in stages, and what one stage has given the next is not taken back; "
                'leave out mode="updates", so that results come when they are certain'
            )
            raise QueryError(message)
        revised = next((stream for stream, given in disorder.items() if given.late == "revise"), None)
        if revised is not None:
            message = (
                f"this query is computed in stages, and late rows of `{revised}` would revise what one stage has given "
                'the next; allow a larger lateness, or say late="drop" or "adjust"'
            )
            raise QueryError(message)
        if options.pop("start", None) is not None:
            message = (
                "this query is computed in stages, each of which starts with the first of its own events, "
                "as it does in collect(); leave out start="
            )
            raise QueryError(message)
        return Relay(self, {name: self._exact(given) for name, given in disorder.items()}, **options)

    def _exact(self, given: Disorder) -> Disorder:
        """Say what ticks are, which a stage of its own unit counts otherwise."""
        if self.unit == "tick" or not isinstance(given.lateness, int):
            return given
        return dataclasses.replace(given, lateness=f"{given.lateness}{self.unit}")

    def gate(self, stream: str, columns: Sequence[str], keys: AbstractSet[str | None]) -> Stage:
        """Plan a session that takes the rows of a stream, and refuses those that any of its readers would refuse.

        Whether rows are late depends on their times only; whether they fit, on the columns that are read, and, if they
        have a period, on the key within which they have it: if there are several, on none.
        """
        source = self.sources[stream]
        valid, period = source.events.valid, source.events.period
        changes: dict[str, Any] = {"overlap": "bag", "key": None if len(keys) > 1 else next(iter(keys))}
        if not isinstance(valid, tuple):
            # All are of one length, or have no end yet: where they start tells as much.
            changes["valid"] = "point"
            changes["period"] = valid if period is None and _has_length(source.events) else period
        if len(keys - {None}) > 1:
            changes["period"] = None
        whole = Stream._input(stream, replace(source, **changes))
        plan = single(to_come(whole.select(*(name for name in whole.schema if name in columns)), {}, {}))
        return Stage(plan, {stream: stream}, {}, [], None, self.unit)


def is_staged(source: Source) -> bool:
    """Whether the rows of a source are the result of another query."""
    return isinstance(_origin(source), Staged)


def stages(query: Stream, events: Given) -> Stages:
    """Plan the stages of a query.

    >>> import tilt as tl
    >>> x = tl.source("x", {"t": "i64", "k": "utf8", "x": "f64"}, time="t")
    >>> mean = x.key_by("k").with_columns(d=tl.col("x").diff()).unkey()["d"].window(10).mean()
    >>> planned = stages(mean - x["x"].window(10).mean(), {})
    >>> [(dict(stage.streams), dict(stage.results)) for stage in planned.stages]
    [({'x': 'x'}, {}), ({'x': 'x'}, {'stage': 0})]

    Raises
    ------
    QueryError
        If nothing that reads the results of a stage could be certain before the end.

    """
    planned: list[Stage] = []
    numbers: dict[int, int] = {}
    overlaps: list[str | None] = []
    sources: dict[str, Source] = {}
    unit = query._handle.unit

    def known(name: str, source: Source) -> str:
        """Give the name of a stream. Those of the same rows are one, also if they become events by another key."""
        origin = replace(_origin(source), key=None)
        found = next((other for other, given in sources.items() if given.same(origin)), None)
        names = (name, *(f"{name}_{n}" for n in range(2, len(sources) + 3)))
        new = found or next(new for new in names if new not in sources)
        sources.setdefault(new, origin)
        return new

    def add(stream: Stream) -> int:
        """Plan a stage after those that it reads, once."""
        if id(stream) in numbers:
            return numbers[id(stream)]
        results, streams = {}, {}
        for name, source in stream._sources.items():
            origin = _origin(source)
            if isinstance(origin, Staged):
                results[name] = add(origin.stream)
            else:
                streams[name] = known(name, source)
        whole = to_come(stream, events, {name: overlaps[number] for name, number in results.items()})
        numbers[id(stream)] = len(planned)
        usual: list[tuple[str, str]] = []
        period = None
        if stream is not query:
            read = _as_read(whole)
            usual = read.peek()._handle.schema[: len(read._times)]
            overlaps.append(read.events.overlap)
            if _has_length(read.events):
                period = duration_ticks(read.events.valid, unit)  # type: ignore[arg-type]
        planned.append(Stage(single(whole), streams, results, usual, period, unit))
        return numbers[id(stream)]

    add(query)
    return Stages(planned, sources)


def _as_read(query: Stream) -> Staged:
    """Give the results of a stage as a source of others."""
    read: Staged = staged(query)._sources["stage"]  # type: ignore[assignment]
    if isinstance(read.events.valid, tuple) and read.events.overlap == "bag":
        message = (
            f"`{query.name}` is read by a later stage of this query and has intervals that may overlap, of which one "
            "that is still to come may have begun at any time, so that nothing would be certain before the end; read "
            'them at the events of a stream, .at(stream), or on a grid, .every("1m")'
        )
        raise QueryError(message)
    return read


def _has_length(events: Events) -> bool:
    """Whether all events have a length that is declared."""
    return not isinstance(events.valid, tuple) and events.valid not in {"point", "until_next"}


def _origin(source: Source) -> Source:
    """Give the rows that tables are beside."""
    while isinstance(source, Looked):
        source = source.source
    return source


def _with_columns(source: Source, columns: Table) -> Source:
    """Give a source of rows to come, and the tables beside it, that has these columns."""
    if isinstance(source, Looked):
        return dataclasses.replace(source, source=_with_columns(source.source, columns))
    return Deferred(columns, source.events)
