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
    for name, function in functions.items():
        if function is None:
            if name not in FUNCTIONS:
                message = (
                    f"the query calls the native function @{name}, which this process does not have; "
                    f"import the module that registers it by tl.udf(..., name={name!r})"
                )
                raise QueryError(message)
            continue
        here = registered(name, function)
        if here != name:
            text = re.sub(rf"(extern fn |@){name}\(", rf"\g<1>{here}(", text)
    return text


def registered(name: str, function: Callable[..., Any] | _native.Pointer) -> str:
    """Give the name of a function, which is another one if a different function has that already.

    >>> from tilt.externs import registered
    >>> registered("nearest", round), registered("nearest", round), registered("nearest", int)
    ('nearest', 'nearest', 'nearest_1')
    """
    names = (name if n == 0 else f"{name}_{n}" for n in range(len(FUNCTIONS) + 1))
    chosen = next(full for full in names if FUNCTIONS.get(full, function) is function)
    FUNCTIONS[chosen] = function
    return chosen
