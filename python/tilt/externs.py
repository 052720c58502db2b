"""Functions that pickled queries call: those of Python travel with them, native ones are known by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.errors import QueryError
from tilt.run import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DECLARED = re.compile(r"^\s*extern fn (\w+)\(", re.MULTILINE)
_CALLED = re.compile(r"(extern fn |@)(\w+)\(")

_TYPES: dict[str, str] = {}
"""As what functions were declared, by name."""


def called(text: str) -> dict[str, Callable[..., Any] | None]:
    r"""Give the functions of Python that a program calls, and ``None`` for native ones: their addresses stay here.

    >>> import tilt as tl
    >>> from tilt.externs import called
    >>> halved = tl.udf(abs, args=[float], returns=float, name="distance")
    >>> called("query q unit s {\n  extern fn distance(f64) -> f64\n}")
    {'distance': <built-in function abs>}
    """
    found = {name: FUNCTIONS.get(name) for name in _DECLARED.findall(text)}
    return {name: None if isinstance(function, _native.Pointer) else function for name, function in found.items()}


def adopted(text: str, functions: Mapping[str, Callable[..., Any] | None]) -> str:
    """Register functions that came with a program, and give the program with the names that they have here.

    >>> from tilt.externs import adopted
    >>> adopted("~y[t] = @nowhere(~x[t])", {"nowhere": None})
    Traceback (most recent call last):
        ...
    tilt.errors.QueryError: the query calls the native function @nowhere, which this process does not have; import the module that registers it by tl.udf(..., name='nowhere')
    """  # noqa: E501
    here: dict[str, str] = {}
    for name, function in functions.items():
        if function is not None:
            declared = re.search(rf"extern fn {name}(\(.*)", text)
            here[name] = registered(name, function, declared[1] if declared else "")
        elif name not in FUNCTIONS:
            message = (
                f"the query calls the native function @{name}, which this process does not have; "
                f"import the module that registers it by tl.udf(..., name={name!r})"
            )
            raise QueryError(message)
    # All at once: the name that one gets may be that which another had.
    return _CALLED.sub(lambda found: f"{found[1]}{here.get(found[2], found[2])}(", text)


def registered(name: str, function: Callable[..., Any] | _native.Pointer, types: str) -> str:
    """Give the name of a function of some types, which is another one if something else has that already.

    >>> from tilt.externs import registered
    >>> registered("nearest", round, "(f64) -> i64"), registered("nearest", round, "(f64) -> i64")
    ('nearest', 'nearest')
    >>> registered("nearest", round, "(f64) -> f64"), registered("nearest", int, "(f64) -> i64")
    ('nearest_1', 'nearest_2')
    """
    names = (name if n == 0 else f"{name}_{n}" for n in range(len(FUNCTIONS) + 1))
    same = (function, types)
    chosen = next(full for full in names if (FUNCTIONS.get(full, function), _TYPES.get(full, types)) == same)
    FUNCTIONS[chosen], _TYPES[chosen] = function, types
    return chosen
