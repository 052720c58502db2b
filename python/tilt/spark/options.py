"""Options of queries on Spark: which there are, and what they may be."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tilt.errors import suggestion
from tilt.sources import Events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_EVENTS = tuple(item.name for item in fields(Events) if item.name != "sort")


def events_of(function: str, options: Mapping[str, Any], others: Iterable[str]) -> dict[str, Any]:
    """Give the options that say how rows become events, and refuse those that are about nothing.

    >>> from tilt.spark.options import events_of
    >>> events_of("run", {"time": "ts", "slices": 3}, ["slices"])
    {'time': 'ts'}
    >>> events_of("run", {"slice": 3}, ["slices"])
    Traceback (most recent call last):
    TypeError: run() has no option `slice`, did you mean `slices`?
    """
    known = [*_EVENTS, *others]
    for name in options:
        if name not in known:
            message = f"{function}() has no option `{name}`{suggestion(name, known)}"
            raise TypeError(message)
    key = options.get("key")
    if key is not None and not isinstance(key, str):
        message = f"a key is the name of one column, not {key!r}; make one of several: F.concat_ws('|', ...)"
        raise TypeError(message)
    return {name: value for name, value in options.items() if name in _EVENTS}


def number_of(options: Mapping[str, Any], name: str) -> int | None:
    """Give an option that is a number of things, if it is given."""
    number = options.get(name)
    if number is not None and not isinstance(number, int):
        message = f"{name} is a whole number, not {number!r}"
        raise TypeError(message)
    if number is not None and number < 1:
        message = f"{name} must be 1 at least, not {number}"
        raise ValueError(message)
    return number


def ratio_of(options: Mapping[str, Any], name: str, usual: float) -> float | None:
    """Give an option that is a ratio, or ``None`` if that is said."""
    ratio = options.get(name, usual)
    if ratio is None:
        return None
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)):
        message = f"{name} is a number, not {ratio!r}"
        raise TypeError(message)
    if not ratio > 0:
        message = f"{name} must be more than 0, not {ratio}"
        raise ValueError(message)
    return ratio


def modules_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the modules that executors import first."""
    imports = options.get("imports", ())
    if isinstance(imports, str):
        message = f"imports are a list of names of modules: [{imports!r}]"
        raise TypeError(message)
    return tuple(imports)
