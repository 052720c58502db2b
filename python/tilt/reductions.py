"""Reductions for :meth:`tilt.Window.agg`: of the window's own events. ``tl.col("px").max()`` is that of a column.

>>> import tilt as tl
>>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
>>> x.window(tl.tumbling(2)).agg(high=tl.max(), low=tl.min(), range=tl.max() - tl.min(), n=tl.len()).collect().to_pylist()
[{'t': 2, 'high': 2.0, 'low': 1.0, 'range': 1.0, 'n': 2}, {'t': 4, 'high': 6.0, 'low': 6.0, 'range': 0.0, 'n': 1}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilt.expressions import Expr

if TYPE_CHECKING:
    from tilt.durations import Duration

_WINDOW = Expr(None)


def mean() -> Expr:
    """Mean of the values."""
    return Expr("mean", _WINDOW)


def sum() -> Expr:  # noqa: A001
    """Sum of the values."""
    return Expr("sum", _WINDOW)


def min() -> Expr:  # noqa: A001
    """Least value."""
    return Expr("min", _WINDOW)


def max() -> Expr:  # noqa: A001
    """Largest value."""
    return Expr("max", _WINDOW)


def first() -> Expr:
    """Earliest value."""
    return Expr("first", _WINDOW)


def last() -> Expr:
    """Latest value."""
    return Expr("last", _WINDOW)


def len() -> Expr:  # noqa: A001
    """Number of events."""
    return Expr("len", _WINDOW)


def std(ddof: int = 1) -> Expr:
    """Standard deviation."""
    return Expr("std", _WINDOW, ddof)


def var(ddof: int = 1) -> Expr:
    """Variance."""
    return Expr("var", _WINDOW, ddof)


def skew(*, bias: bool = True) -> Expr:
    """Skewness."""
    return Expr("skew", _WINDOW, bias=bias)


def kurtosis(*, fisher: bool = True, bias: bool = True) -> Expr:
    """Kurtosis."""
    return Expr("kurtosis", _WINDOW, fisher=fisher, bias=bias)


def median() -> Expr:
    """Median."""
    return Expr("median", _WINDOW)


def quantile(q: float, method: str = "linear") -> Expr:
    """A quantile."""
    return Expr("quantile", _WINDOW, q, method)


def rms() -> Expr:
    """Root of the mean square."""
    return Expr("rms", _WINDOW)


def crest_factor() -> Expr:
    """Largest absolute value over the root of the mean square."""
    return Expr("crest_factor", _WINDOW)


def product() -> Expr:
    """Product of the values."""
    return Expr("product", _WINDOW)


def any() -> Expr:  # noqa: A001
    """Whether a condition is true at one event."""
    return Expr("any", _WINDOW)


def all() -> Expr:  # noqa: A001
    """Whether a condition is true at all events."""
    return Expr("all", _WINDOW)


def mode() -> Expr:
    """Most frequent value."""
    return Expr("mode", _WINDOW)


def n_unique() -> Expr:
    """Number of different values."""
    return Expr("n_unique", _WINDOW)


def arg_min() -> Expr:
    """Time of the least value."""
    return Expr("arg_min", _WINDOW)


def arg_max() -> Expr:
    """Time of the largest value."""
    return Expr("arg_max", _WINDOW)


def top_k(k: int) -> Expr:
    """The largest values, as a list."""
    return Expr("top_k", _WINDOW, k)


def twa() -> Expr:
    """Mean weighted by how long values were valid."""
    return Expr("twa", _WINDOW)


def integral(unit: Duration | None = None) -> Expr:
    """Sum of values times how long they were valid."""
    return Expr("integral", _WINDOW, unit)


def slope() -> Expr:
    """Slope by least squares."""
    return Expr("slope", _WINDOW)


def window_start() -> Expr:
    """Start of the window."""
    return Expr("start", _WINDOW)


def window_end() -> Expr:
    """End of the window."""
    return Expr("end", _WINDOW)
