"""What looks at one instant: operators and functions that streams, traced values and deferred expressions share."""

from __future__ import annotations

import datetime as dt
import operator
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Self

    from tilt import _native

    Scalar: TypeAlias = "bool | int | float | str | dt.datetime | dt.date | dt.timedelta | np.generic | None"
    """A value that streams can have; ``None`` is the one that is missing."""


class Pointwise(ABC):
    """Something with a value at every instant: its operators and functions make another.

    Arithmetic and comparisons have no value where an operand has none. ``&`` and ``|`` know that false decides the
    first and true the second. Not a number is a value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 4.0, None]}, time="t")["x"]
    >>> ((x + 1) * 2).collect().to_dict()
    {'t': [1, 2], 'x': [4.0, 10.0]}
    >>> (x.sqrt() > 1.5).collect()["x"]
    [False, True]
    """

    __slots__ = ()

    @abstractmethod
    def _unary(self, op: str) -> Self:
        """Apply a function of one value."""

    @abstractmethod
    def _binary(self, op: str, other: object, *, reversed: bool = False) -> Self:  # noqa: A002
        """Apply an operator to this and another value; ``reversed`` puts the other one on the left."""

    @abstractmethod
    def cast(self, dtype: str | type) -> Self:
        """Give the values another type: ``"f64"``, ``"i32"``, ``"timestamp(ns)"`` ..., or ``float``, ``int``, ``bool``.

        A value that does not fit becomes missing; floats become integers by dropping the fraction.
        """

    @abstractmethod
    def is_null(self) -> Self:
        """Say at each event whether the value is missing.

        It sees events at which this has no value but something beside it has.
        """

    def is_not_null(self) -> Self:
        """Say at each event whether there is a value.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [3.0, None]}, time="t")["x"].is_not_null().collect()["x"]
        [True, False]
        """
        return ~self.is_null()

    def __bool__(self) -> NoReturn:
        message = (
            f"a {type(self).__name__} has no truth value of its own: it differs from instant to instant; "
            "use tl.when(condition).then(a).otherwise(b) for `if`, and `&`, `|`, `~` for `and`, `or`, `not`"
        )
        raise TypeError(message)

    def __float__(self) -> NoReturn:
        message = (
            f"a {type(self).__name__} is no number: it has one at every instant; for functions of math there are those "
            "of tilt, such as tl.sqrt(x), and x.collect() computes the numbers"
        )
        raise TypeError(message)

    def __contains__(self, value: object) -> NoReturn:
        message = f"`in` has one answer and a {type(self).__name__} many; compare: (x == a) | (x == b)"
        raise TypeError(message)

    def __round__(self, digits: int | None = None) -> Self:
        if digits:
            message = f"values are rounded to whole numbers; for {digits} digits scale them: (x * 100).round() / 100"
            raise TypeError(message)
        return self._unary("round")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401
        """Let functions of NumPy be those of streams, and refuse arrays: each of their values would make a stream."""
        array = next((value for value in inputs if getattr(value, "ndim", 0) > 0), None)
        if array is not None:
            return literal(array)
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        function = getattr(operator, name, None) if len(inputs) > 1 else None
        if method == "__call__" and not options and function is not None:
            # Numbers of NumPy would ask NumPy again.
            return function(*(value.item() if hasattr(value, "item") else value for value in inputs))
        if method == "__call__" and not options and hasattr(type(self), name):
            return getattr(self, name)(*inputs[1:])
        called = ufunc.__name__
        if method == "reduce":
            called = _REDUCTIONS.get(called, called)
        elif method == "accumulate":
            called = _TOTALS.get(called, called)
        raise _no_function(type(self).__name__, called)

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:  # noqa: ANN401
        """Refuse functions of NumPy that are no ufuncs: they look for values, and there are none yet."""
        raise _no_function(type(self).__name__, function.__name__)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        message = f"a {type(self).__name__} is a description and has no values yet; to_numpy() computes them"
        raise TypeError(message)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> Self:
        return self._binary("+", other)

    def __radd__(self, other: object) -> Self:
        return self._binary("+", other, reversed=True)

    def __sub__(self, other: object) -> Self:
        return self._binary("-", other)

    def __rsub__(self, other: object) -> Self:
        return self._binary("-", other, reversed=True)

    def __mul__(self, other: object) -> Self:
        return self._binary("*", other)

    def __rmul__(self, other: object) -> Self:
        return self._binary("*", other, reversed=True)

    def __truediv__(self, other: object) -> Self:
        return self._binary("/", other)

    def __rtruediv__(self, other: object) -> Self:
        return self._binary("/", other, reversed=True)

    def __floordiv__(self, other: object) -> Self:
        return self._binary("//", other)

    def __rfloordiv__(self, other: object) -> Self:
        return self._binary("//", other, reversed=True)

    def __mod__(self, other: object) -> Self:
        return self._binary("%", other)

    def __rmod__(self, other: object) -> Self:
        return self._binary("%", other, reversed=True)

    def __pow__(self, other: object) -> Self:
        return self._binary("**", other)

    def __rpow__(self, other: object) -> Self:
        return self._binary("**", other, reversed=True)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary("==", _something(other))

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self._binary("!=", _something(other))

    def __lt__(self, other: object) -> Self:
        return self._binary("<", other)

    def __le__(self, other: object) -> Self:
        return self._binary("<=", other)

    def __gt__(self, other: object) -> Self:
        return self._binary(">", other)

    def __ge__(self, other: object) -> Self:
        return self._binary(">=", other)

    def __and__(self, other: object) -> Self:
        return self._binary("&", other)

    def __rand__(self, other: object) -> Self:
        return self._binary("&", other, reversed=True)

    def __or__(self, other: object) -> Self:
        return self._binary("|", other)

    def __ror__(self, other: object) -> Self:
        return self._binary("|", other, reversed=True)

    def __xor__(self, other: object) -> Self:
        return self._binary("^", other)

    def __rxor__(self, other: object) -> Self:
        return self._binary("^", other, reversed=True)

    def __invert__(self) -> Self:
        return self._unary("~")

    def __neg__(self) -> Self:
        return self._unary("-")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._unary("abs")

    def abs(self) -> Self:
        """Give the absolute value.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [-1.5, 2.0]}, time="t")["x"].abs().collect()["x"]
        [1.5, 2.0]
        """
        return self._unary("abs")

    def sign(self) -> Self:
        """Give -1, 0 or 1.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [-1.5, 2.0]}, time="t")["x"].sign().collect()["x"]
        [-1.0, 1.0]
        """
        return self._unary("sign")

    def sqrt(self) -> Self:
        """Give the square root.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [4.0, 9.0]}, time="t")["x"].sqrt().collect()["x"]
        [2.0, 3.0]
        """
        return self._unary("sqrt")

    def cbrt(self) -> Self:
        """Give the cube root.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [8.0]}, time="t")["x"].cbrt().collect()["x"]
        [2.0]
        """
        return self._unary("cbrt")

    def exp(self) -> Self:
        """Give e to the power of the value.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].exp().collect()["x"]
        [1.0]
        """
        return self._unary("exp")

    def log(self) -> Self:
        """Give the natural logarithm.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [1.0]}, time="t")["x"].log().collect()["x"]
        [0.0]
        """
        return self._unary("log")

    def log2(self) -> Self:
        """Give the logarithm to base 2.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [8.0, 0.5]}, time="t")["x"].log2().collect()["x"]
        [3.0, -1.0]
        """
        return self._unary("log2")

    def log10(self) -> Self:
        """Give the logarithm to base 10.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [100.0]}, time="t")["x"].log10().collect()["x"]
        [2.0]
        """
        return self._unary("log10")

    def log1p(self) -> Self:
        """Give the natural logarithm of one plus the value.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].log1p().collect()["x"]
        [0.0]
        """
        return self._unary("log1p")

    def expm1(self) -> Self:
        """Give e to the power of the value, minus one.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].expm1().collect()["x"]
        [0.0]
        """
        return self._unary("expm1")

    def sin(self) -> Self:
        """Give the sine.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].sin().collect()["x"]
        [0.0]
        """
        return self._unary("sin")

    def cos(self) -> Self:
        """Give the cosine.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].cos().collect()["x"]
        [1.0]
        """
        return self._unary("cos")

    def tan(self) -> Self:
        """Give the tangent.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].tan().collect()["x"]
        [0.0]
        """
        return self._unary("tan")

    def asin(self) -> Self:
        """Give the inverse sine.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].asin().collect()["x"]
        [0.0]
        """
        return self._unary("asin")

    def acos(self) -> Self:
        """Give the inverse cosine.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [1.0]}, time="t")["x"].acos().collect()["x"]
        [0.0]
        """
        return self._unary("acos")

    def atan(self) -> Self:
        """Give the inverse tangent.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].atan().collect()["x"]
        [0.0]
        """
        return self._unary("atan")

    def sinh(self) -> Self:
        """Give the hyperbolic sine.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].sinh().collect()["x"]
        [0.0]
        """
        return self._unary("sinh")

    def cosh(self) -> Self:
        """Give the hyperbolic cosine.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].cosh().collect()["x"]
        [1.0]
        """
        return self._unary("cosh")

    def tanh(self) -> Self:
        """Give the hyperbolic tangent.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].tanh().collect()["x"]
        [0.0]
        """
        return self._unary("tanh")

    def floor(self) -> Self:
        """Round down.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [-1.5, 2.5]}, time="t")["x"].floor().collect()["x"]
        [-2.0, 2.0]
        """
        return self._unary("floor")

    def ceil(self) -> Self:
        """Round up.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [-1.5, 2.5]}, time="t")["x"].ceil().collect()["x"]
        [-1.0, 3.0]
        """
        return self._unary("ceil")

    def trunc(self) -> Self:
        """Round towards zero.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [-1.5, 2.5]}, time="t")["x"].trunc().collect()["x"]
        [-1.0, 2.0]
        """
        return self._unary("trunc")

    def round(self) -> Self:
        """Round to the nearest integer, halves to the even one.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [1.5, 2.5]}, time="t")["x"].round().collect()["x"]
        [2.0, 2.0]
        """
        return self._unary("round")

    def is_nan(self) -> Self:
        """Say whether the value is not a number.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [float("nan"), 1.0]}, time="t")["x"].is_nan().collect()["x"]
        [True, False]
        """
        return self._unary("is_nan")

    def is_finite(self) -> Self:
        """Say whether the value is neither infinite nor not a number.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [float("inf"), 1.0]}, time="t")["x"].is_finite().collect()["x"]
        [False, True]
        """
        return self._unary("is_finite")

    def is_infinite(self) -> Self:
        """Say whether the value is infinite.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [float("inf"), 1.0]}, time="t")["x"].is_infinite().collect()["x"]
        [True, False]
        """
        return self._unary("is_infinite")

    def atan2(self, x: object) -> Self:
        """Give the angle of the point ``(x, self)``.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [0.0]}, time="t")["x"].atan2(1.0).collect()["x"]
        [0.0]
        """
        return self._binary("atan2", x)

    def hypot(self, other: object) -> Self:
        """Give the length of the vector ``(self, other)``.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "x": [3.0]}, time="t")["x"].hypot(4.0).collect()["x"]
        [5.0]
        """
        return self._binary("hypot", other)

    def min_with(self, other: object) -> Self:
        """Give the smaller of both values. The least of a window is ``x["-10s":].min()``.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [3.0, 5.0]}, time="t")["x"].min_with(4.0).collect()["x"]
        [3.0, 4.0]
        """
        return self._binary("min", other)

    def max_with(self, other: object) -> Self:
        """Give the larger of both values. The largest of a window is ``x["-10s":].max()``.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2], "x": [3.0, 5.0]}, time="t")["x"].max_with(4.0).collect()["x"]
        [4.0, 5.0]
        """
        return self._binary("max", other)

    def year(self) -> Self:
        """Give the year of a timestamp, in UTC.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().year().collect()["x"]  # of 2025-06-15 15:06:40
        [2025]
        """
        return self._unary("year")

    def month(self) -> Self:
        """Give the month of a timestamp, from 1.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().month().collect()["x"]  # of 2025-06-15 15:06:40
        [6]
        """
        return self._unary("month")

    def day(self) -> Self:
        """Give the day of the month, from 1.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().day().collect()["x"]  # of 2025-06-15 15:06:40
        [15]
        """
        return self._unary("day")

    def hour(self) -> Self:
        """Give the hour of a timestamp.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().hour().collect()["x"]  # of 2025-06-15 15:06:40
        [15]
        """
        return self._unary("hour")

    def minute(self) -> Self:
        """Give the minute of a timestamp.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().minute().collect()["x"]  # of 2025-06-15 15:06:40
        [6]
        """
        return self._unary("minute")

    def second(self) -> Self:
        """Give the second of a timestamp.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().second().collect()["x"]  # of 2025-06-15 15:06:40
        [40]
        """
        return self._unary("second")

    def millisecond(self) -> Self:
        """Give the millisecond within the second.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_250_125_001], "x": [1]}, time="t", unit="ns")["x"]
        >>> x.time().millisecond().collect()["x"]
        [250]
        """
        return self._unary("millisecond")

    def microsecond(self) -> Self:
        """Give the microsecond within the second.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_250_125_001], "x": [1]}, time="t", unit="ns")["x"]
        >>> x.time().microsecond().collect()["x"]
        [250125]
        """
        return self._unary("microsecond")

    def nanosecond(self) -> Self:
        """Give the nanosecond within the second.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_250_125_001], "x": [1]}, time="t", unit="ns")["x"]
        >>> x.time().nanosecond().collect()["x"]
        [250125001]
        """
        return self._unary("nanosecond")

    def weekday(self) -> Self:
        """Give the day of the week, Monday being 1.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().weekday().collect()["x"]  # of 2025-06-15 15:06:40
        [7]
        """
        return self._unary("weekday")

    def ordinal_day(self) -> Self:
        """Give the day of the year, from 1.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1_750_000_000], "x": [1]}, time="t", unit="s")["x"]
        >>> x.time().ordinal_day().collect()["x"]  # of 2025-06-15 15:06:40
        [166]
        """
        return self._unary("ordinal_day")


def _something(value: object) -> object:
    """Refuse to compare with what is missing, which is never equal."""
    if value is None:
        message = "nothing equals a missing value; x.is_null() and x.is_not_null() ask for it"
        raise TypeError(message)
    return value


_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
"""What ufuncs are called when they reduce an array."""

_TOTALS = {"add": "cumsum", "multiply": "cumprod", "maximum": "maximum.accumulate", "minimum": "minimum.accumulate"}
"""What they are called when they keep what they have come to."""

_INSTEAD = {
    "amax": "x['-10s':].max()",
    "amin": "x['-10s':].min()",
    "around": "x.round()",
    "average": "x['-10s':].mean()",
    "clip": "x.clip(low, high)",
    "cumprod": "x.cum_prod()",
    "cumsum": "x.cum_sum()",
    "diff": "x.diff()",
    "isclose": "(x - y).abs() < 1e-9",
    "max": "x['-10s':].max()",
    "maximum": "x.max_with(y)",
    "maximum.accumulate": "x.cum_max()",
    "mean": "x['-10s':].mean()",
    "median": "x['-10s':].median()",
    "min": "x['-10s':].min()",
    "minimum": "x.min_with(y)",
    "minimum.accumulate": "x.cum_min()",
    "percentile": "x['-10s':].quantile(0.9)",
    "prod": "x['-10s':].product()",
    "quantile": "x['-10s':].quantile(0.9)",
    "rint": "x.round()",
    "round": "x.round()",
    "std": "x['-10s':].std(ddof=0)",
    "sum": "x['-10s':].sum()",
    "var": "x['-10s':].var(ddof=0)",
    "where": "tl.when(condition).then(a).otherwise(b)",
}
"""What does what a function of NumPy does, where there is something."""


def _no_function(kind: str, name: str) -> TypeError:
    instead = _INSTEAD.get(name)
    hint = f"write {instead}" if instead else "tl.udf() makes functions of C callable"
    return TypeError(f"a {kind} is no array of NumPy, which {name} takes; {hint}")


_UFUNCS = {
    "absolute": "abs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "bitwise_and": "and_",
    "bitwise_or": "or_",
    "bitwise_xor": "xor",
    "divide": "truediv",
    "equal": "eq",
    "fmax": "max_with",
    "fmin": "min_with",
    "floor_divide": "floordiv",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "__invert__",
    "isfinite": "is_finite",
    "isinf": "is_infinite",
    "isnan": "is_nan",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "__neg__",
    "not_equal": "ne",
    "power": "pow",
    "remainder": "mod",
    "rint": "round",
    "subtract": "sub",
}
"""What NumPy calls operators and functions, where that is not their name here."""

_MICROSECOND = dt.timedelta(microseconds=1)
_TYPES = {float: "f64", int: "i64", bool: "bool", str: "utf8"}


def dtype_text(dtype: str | type) -> str:
    """Give the name of a type as the IR has it.

    >>> from tilt.pointwise import dtype_text
    >>> dtype_text(float), dtype_text("timestamp(ns)")
    ('f64', 'timestamp(ns)')
    """
    if isinstance(dtype, str):
        return dtype
    if dtype not in _TYPES:
        message = (
            f"{dtype!r} is no type of streams; give float, int, bool, str or a name such as 'f32' or 'timestamp(us)'"
        )
        raise TypeError(message)
    return _TYPES[dtype]


def literal(value: object) -> _native._Literal:
    """Give a constant as the native builder takes it.

    >>> from datetime import timedelta
    >>> from tilt.pointwise import literal
    >>> literal(timedelta(seconds=1)), literal(1.5)
    (('duration', 1000000, 'us'), 1.5)
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dt.datetime):
        zone = dt.timezone.utc if value.tzinfo else None
        return "timestamp", (value - dt.datetime(1970, 1, 1, tzinfo=zone)) // _MICROSECOND, "us"
    if isinstance(value, dt.date):
        return "timestamp", (value - dt.date(1970, 1, 1)).days * 86_400, "s"
    if isinstance(value, dt.timedelta):
        return "duration", value // _MICROSECOND, "us"
    if type(value).__module__ == "numpy":
        return _numpy_literal(value)
    message = (
        f"{type(value).__name__} is neither a stream nor a value that streams can have: "
        "bool, int, float, str, datetime, timedelta or None"
    )
    raise TypeError(message)


def _numpy_literal(value: Any) -> _native._Literal:  # noqa: ANN401
    kind = value.dtype.kind
    if value.ndim == 0 and kind in "mM":
        unit = "ns" if "[ns]" in value.dtype.str else "us"
        ticks = int(value.astype(f"{kind}8[{unit}]").astype("i8"))
        return ("timestamp" if kind == "M" else "duration"), ticks, unit
    if value.ndim == 0 and kind in "biufU":
        return value.item()  # type: ignore[no-any-return]
    message = f"an array of {value.dtype} is no value; make it a stream with tl.stream(...)"
    raise TypeError(message)
