"""Reductions for :meth:`tilt.Window.agg`: of the window's own events. ``tl.col("px").max()`` is that of a column.

>>> import tilt as tl
>>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
>>> x.window(tl.tumbling(2)).agg(high=tl.max(), range=tl.max() - tl.min(), n=tl.len()).collect().to_pylist()
[{'t': 2, 'high': 2.0, 'range': 1.0, 'n': 2}, {'t': 4, 'high': 6.0, 'range': 0.0, 'n': 1}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilt.expressions import Expr

if TYPE_CHECKING:
    from tilt.durations import Duration

_WINDOW = Expr(None)


def mean() -> Expr:
    """Give the mean of the values."""
    return Expr("mean", _WINDOW)


def sum() -> Expr:  # noqa: A001
    """Give the sum of the values."""
    return Expr("sum", _WINDOW)


def min() -> Expr:  # noqa: A001
    """Give the least value."""
    return Expr("min", _WINDOW)


def max() -> Expr:  # noqa: A001
    """Give the largest value."""
    return Expr("max", _WINDOW)


def first() -> Expr:
    """Give the earliest value."""
    return Expr("first", _WINDOW)


def last() -> Expr:
    """Give the latest value."""
    return Expr("last", _WINDOW)


def len() -> Expr:  # noqa: A001
    """Count the events."""
    return Expr("len", _WINDOW)


def std(ddof: int = 1) -> Expr:
    """Give the standard deviation."""
    return Expr("std", _WINDOW, ddof)


def var(ddof: int = 1) -> Expr:
    """Give the variance."""
    return Expr("var", _WINDOW, ddof)


def skew(*, bias: bool = True) -> Expr:
    """Give the skewness."""
    return Expr("skew", _WINDOW, bias=bias)


def kurtosis(*, fisher: bool = True, bias: bool = True) -> Expr:
    """Give the kurtosis."""
    return Expr("kurtosis", _WINDOW, fisher=fisher, bias=bias)


def median() -> Expr:
    """Give the median."""
    return Expr("median", _WINDOW)


def quantile(q: float, method: str = "linear") -> Expr:
    """Give a quantile."""
    return Expr("quantile", _WINDOW, q, method)


def rms() -> Expr:
    """Give the root of the mean square."""
    return Expr("rms", _WINDOW)


def crest_factor() -> Expr:
    """Give the largest absolute value over the root of the mean square."""
    return Expr("crest_factor", _WINDOW)


def product() -> Expr:
    """Give the product of the values."""
    return Expr("product", _WINDOW)


def any() -> Expr:  # noqa: A001
    """Say whether a condition is true at one event."""
    return Expr("any", _WINDOW)


def all() -> Expr:  # noqa: A001
    """Say whether a condition is true at all events."""
    return Expr("all", _WINDOW)


def mode() -> Expr:
    """Give the most frequent value."""
    return Expr("mode", _WINDOW)


def n_unique() -> Expr:
    """Count the different values."""
    return Expr("n_unique", _WINDOW)


def arg_min() -> Expr:
    """Give the time of the least value."""
    return Expr("arg_min", _WINDOW)


def arg_max() -> Expr:
    """Give the time of the largest value."""
    return Expr("arg_max", _WINDOW)


def top_k(k: int) -> Expr:
    """Give the largest values, as a list."""
    return Expr("top_k", _WINDOW, k)


def twa() -> Expr:
    """Give the mean weighted by how long values were valid."""
    return Expr("twa", _WINDOW)


def integral(unit: Duration | None = None) -> Expr:
    """Give the sum of values times how long they were valid."""
    return Expr("integral", _WINDOW, unit)


def slope() -> Expr:
    """Give the slope by least squares."""
    return Expr("slope", _WINDOW)


def window_start() -> Expr:
    """Give the start of the window."""
    return Expr("start", _WINDOW)


def window_end() -> Expr:
    """Give the end of the window."""
    return Expr("end", _WINDOW)
