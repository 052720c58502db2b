"""Lengths of time and instants, as users write them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, TypeAlias

from tilt import _native

if TYPE_CHECKING:
    import numpy as np

    Duration: TypeAlias = "str | int | dt.timedelta | np.timedelta64"
    """A length of time: ``"1h30m"``, a number of ticks, or a ``timedelta``."""
    Instant: TypeAlias = "int | str | dt.datetime | np.datetime64"
    """An instant: ticks since the epoch, a ``datetime``, or a text such as ``"2026-01-05 09:30"``. It counts as UTC if
    it has no time zone."""

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def duration_text(value: Duration) -> str:
    """Give the text of a length of time.

    >>> from datetime import timedelta
    >>> duration_text("1h30m"), duration_text(timedelta(milliseconds=250)), duration_text(7)
    ('1h30m', '250000us', '7')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(microseconds=1)}us"
    if type(value).__module__ == "numpy":
        return f"{int(value.astype('m8[ns]').astype('i8'))}ns"
    message = (
        f"a length of time is a string such as '10s', a number of ticks or a timedelta, not {type(value).__name__}"
    )
    raise TypeError(message)


def length(value: Duration) -> str | int:
    """Give a length of time as the native builder takes it: ticks as integers, all else as text.

    >>> length(7), length("1h")
    (7, '1h')
    """
    return value if isinstance(value, int) and not isinstance(value, bool) else duration_text(value)


def negated(value: str | int) -> str | int:
    """Give the length in the other direction.

    >>> negated(7), negated("1h")
    (-7, '-1h')
    """
    return -value if isinstance(value, int) else f"-{value}"


def duration_ticks(value: Duration, unit: str) -> int:
    """Count the ticks of a length of time.

    >>> duration_ticks("1m30s", "ms")
    90000

    Raises
    ------
    QueryError
        If it is not a whole number of ticks.

    """
    return _native.duration(duration_text(value), unit)


def ticks_in(coarse: str, fine: str) -> int:
    """Count the ticks of a unit in one tick of another that is coarser, or the same.

    >>> ticks_in("s", "ms"), ticks_in("tick", "tick")
    (1000, 1)
    """
    return 1 if coarse == fine else duration_ticks(f"1{coarse}", fine)


def instant_ticks(value: Instant, unit: str) -> int:
    """Count the ticks from the epoch to an instant, rounded down.

    >>> from datetime import datetime
    >>> instant_ticks(datetime(1970, 1, 1, 0, 1), "ms"), instant_ticks("1970-01-01 01:00+01:00", "s")
    (60000, 0)

    Raises
    ------
    TypeError
        If it is no instant, or if the axis has plain integers and the instant is not one.
    ValueError
        If it is a text and no date.

    """
    if isinstance(value, int):
        return value
    if unit not in _TICKS:
        message = f"times here are plain integers; give an int, not {type(value).__name__}"
        raise TypeError(message)
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=_EPOCH.tzinfo)
        micros = (aware - _EPOCH) // dt.timedelta(microseconds=1)
        return micros * _TICKS[unit] // _TICKS["us"]
    if type(value).__module__ == "numpy":
        return int(value.astype(f"M8[{unit}]").astype("i8"))
    message = f"an instant is a number of ticks, a datetime or a text, not {type(value).__name__}"
    raise TypeError(message)


def _parsed(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        message = (
            f"{text!r} is no date; write for example '2026-01-05', '2026-01-05 09:30' or '2026-01-05T09:30:00+01:00'"
        )
        raise ValueError(message) from None
