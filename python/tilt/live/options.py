"""What a session does about disorder, stream by stream."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from tilt.durations import duration_text, duration_ticks
from tilt.errors import QueryError, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tilt.durations import Duration
    from tilt.table import Table

T = TypeVar("T")

Late: TypeAlias = Literal["raise", "drop", "adjust", "revise"]
"""What becomes of a row that is later than the lateness allows."""
Mode: TypeAlias = Literal["final", "updates"]
"""Whether results wait until they are certain, or are given early and revised."""
Completion: TypeAlias = Literal["drop", "flush", "end"]
"""What becomes of the rest when a session ends."""


@dataclass(frozen=True)
class Disorder:
    """What is done about the disorder of one stream: as users write it."""

    lateness: Duration = 0
    late: Late = "raise"
    horizon: Duration | None = None
    edges: bool = False
    idle_after: Duration | float | None = None

    def ticks(self, unit: str) -> dict[str, Any]:
        """Give it with lengths of time in ticks, as native sessions take it.

        >>> Disorder(lateness="2s").ticks("ms")["lateness"]
        2000
        """
        return asdict(self) | {
            "lateness": _ticks("lateness", self.lateness, unit),
            "horizon": None if self.horizon is None else _ticks("horizon", self.horizon, unit),
            "idle_after": None if self.idle_after is None else nanoseconds(self.idle_after),
        }


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a session is run, as users say it: each keyword is for all streams, or a dictionary by stream."""

    disorder: Mapping[str, Any]
    events: Mapping[str, Any]
    """How rows become events, where the query does not say it."""
    mode: Mode = "final"
    run: Mapping[str, Any]
    on_result: Callable[[Table], object] | None = None
    clock: Callable[[], float] = time.monotonic
    elapsed: float = 0.0
    """How many seconds the session had run before it was restored."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Setup:
        """Sort keywords by what they are about, and refuse those that are about nothing.

        >>> Setup.of({"lateness": "2s", "time": "ts", "threads": 1}).events
        {'time': 'ts'}
        """
        for name in options:
            if name not in _KNOWN:
                message = f"session() has no option `{name}`{suggestion(name, _KNOWN)}"
                raise TypeError(message)
        given = {name: value for name, value in options.items() if value is not None}
        _check(given)
        named = {name: given[name] for name in ("mode", "on_result", "clock") if name in given}
        return cls(
            disorder={name: value for name, value in given.items() if name in _DISORDER},
            events={name: value for name, value in given.items() if name in _EVENTS},
            run={name: value for name, value in given.items() if name in _RUN},
            **named,
        )

    @property
    def has_timeouts(self) -> bool:
        """Whether the clock matters."""
        return self.disorder.get("idle_after") is not None or self.run.get("latency") is not None


_DISORDER = tuple(field.name for field in fields(Disorder))
_EVENTS = ("time", "valid", "unit", "tz", "period", "key", "overlap", "closed")
_RUN = ("start", "max_batch", "latency", "layout", "threads", "backend", "functions")
_KNOWN = ("mode", "on_result", "clock", *_DISORDER, *_EVENTS, *_RUN)


def _check(given: Mapping[str, Any]) -> None:
    """Refuse values that mean nothing."""
    rows = given.get("max_batch", 1)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        message = f"max_batch is a number of rows, at least 1, not {rows!r}"
        raise ValueError(message)
    for name in ("on_result", "clock"):
        if name in given and not callable(given[name]):
            message = f"{name} is a function, not {given[name]!r}"
            raise TypeError(message)


def plain(value: Any) -> Any:  # noqa: ANN401
    """Give an option as JSON can hold it: lengths of time as text.

    >>> from datetime import timedelta
    >>> plain({"lateness": timedelta(seconds=2), "valid": ("a", "b")})
    {'lateness': '2000000us', 'valid': ['a', 'b']}
    """
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return duration_text(value)


def nanoseconds(value: Duration | float) -> int:
    """Count the nanoseconds of a length of time by the clock; numbers are seconds.

    >>> nanoseconds("2s") == nanoseconds(2) == nanoseconds(2.0)
    True
    """
    if isinstance(value, (int, float)):
        return round(value * 1e9)
    return duration_ticks(value, "ns")


def _ticks(name: str, value: Duration, unit: str) -> int:
    # Numbers are ticks, as everywhere in a query.
    ticks = value if isinstance(value, int) and not isinstance(value, bool) else duration_ticks(value, unit)
    if ticks < 0:
        message = f"{name} is a length of time, which is not negative; not {value!r}"
        raise ValueError(message)
    return ticks


def each(name: str, value: object, streams: Iterable[str], default: object) -> dict[str, Any]:
    """Give an option for each stream: the same for all, or by name, where those left out have the default.

    >>> each("late", "drop", ["a", "b"], "raise")
    {'a': 'drop', 'b': 'drop'}
    >>> each("late", {"a": "drop"}, ["a", "b"], "raise")
    {'a': 'drop', 'b': 'raise'}
    """
    streams = list(streams)
    if not isinstance(value, Mapping):
        return dict.fromkeys(streams, value)
    for given in value:
        known_stream(given, streams, f"{name}=")
    return {stream: value.get(stream, default) for stream in streams}


def disorders(streams: Iterable[str], options: Mapping[str, object]) -> dict[str, Disorder]:
    """Give what is done about each stream.

    >>> disorders(["a", "b"], {"lateness": {"a": "2s"}, "late": "drop"})["a"]
    Disorder(lateness='2s', late='drop', horizon=None, edges=False, idle_after=None)
    """
    streams = list(streams)
    usual = asdict(Disorder())
    found = {name: each(name, value, streams, usual[name]) for name, value in options.items() if value is not None}
    for edges in found.get("edges", {}).values():
        if not isinstance(edges, bool):
            message = f"edges is True or False, not {edges!r}"
            raise TypeError(message)
    each_of = {stream: Disorder(**{name: values[stream] for name, values in found.items()}) for stream in streams}
    has_horizon = any(given.horizon is not None for given in each_of.values())
    if has_horizon and all(given.late != "revise" for given in each_of.values()):
        message = 'a horizon is how late a row may be that revises results; say so: late="revise"'
        raise ValueError(message)
    return each_of


def known_stream(stream: object, streams: Iterable[str], where: str) -> str:
    """Give the name of a stream, or refuse it.

    >>> known_stream("tick", ["ticks", "news"], "push")
    Traceback (most recent call last):
        ...
    tilt.errors.QueryError: push: there is no stream `tick`, did you mean `ticks`?; the streams are ticks and news
    """
    names = list(streams)
    if isinstance(stream, str) and stream in names:
        return stream
    message = f"{where}: there is no stream `{stream}`{suggestion(str(stream), names)}; {listed(names)}"
    raise QueryError(message)


def listed(names: Iterable[str]) -> str:
    """Say which streams there are.

    >>> listed(["a"]), listed(["a", "b"])
    ('the stream is a', 'the streams are a and b')
    """
    *others, last = names
    return f"the streams are {', '.join(others)} and {last}" if others else f"the stream is {last}"
