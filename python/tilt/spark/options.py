"""Options of queries on Spark: which there are, and what they may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from tilt.errors import suggestion
from tilt.sources import Events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    if number is not None and (isinstance(number, bool) or not isinstance(number, Integral)):
        message = f"{name} is a whole number, not {number!r}"
        raise TypeError(message)
    if number is not None and number < 1:
        message = f"{name} must be 1 at least, not {number}"
        raise ValueError(message)
    return None if number is None else int(number)


def ratio_of(options: Mapping[str, Any], name: str, usual: float) -> float | None:
    """Give an option that is a ratio, or ``None`` if that is said."""
    ratio = options.get(name, usual)
    if ratio is None:
        return None
    if isinstance(ratio, bool) or not isinstance(ratio, Real):
        message = f"{name} is a number, not {ratio!r}"
        raise TypeError(message)
    known = float(ratio)
    if not known > 0:
        message = f"{name} must be more than 0, not {ratio}"
        raise ValueError(message)
    return known


def modules_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the modules that executors import first."""
    imports = options.get("imports")
    if isinstance(imports, str):
        message = f"imports are a list of names of modules: [{imports!r}]"
        raise TypeError(message)
    found = () if imports is None else tuple(imports) if isinstance(imports, Iterable) else (imports,)
    for module in found:
        if not isinstance(module, str):
            named = f": [{module.__name__!r}]" if hasattr(module, "__name__") else ""
            message = f"imports are a list of names of modules, not {type(module).__name__}{named}"
            raise TypeError(message)
    return found


def columns_of(columns: Sequence[str] | None, needed: Iterable[str]) -> tuple[str, ...] | None:
    """Give the columns that are read if some are named: those that are needed anyway come first.

    >>> from tilt.spark.options import columns_of
    >>> columns_of(["price", "ts"], ["ts"]), columns_of(None, ["ts"])
    (('ts', 'price'), None)
    """
    if isinstance(columns, str):
        message = f"columns are a list of names: [{columns!r}]"
        raise TypeError(message)
    return None if columns is None else tuple(dict.fromkeys((*needed, *columns)))
