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
    """Give the mean of the values.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(mean=tl.mean()).collect()["mean"]
    [3.0]
    """
    return Expr("mean", _WINDOW)


def sum() -> Expr:  # noqa: A001
    """Give the sum of the values.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(sum=tl.sum()).collect()["sum"]
    [9.0]
    """
    return Expr("sum", _WINDOW)


def min() -> Expr:  # noqa: A001
    """Give the least value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(min=tl.min()).collect()["min"]
    [1.0]
    """
    return Expr("min", _WINDOW)


def max() -> Expr:  # noqa: A001
    """Give the largest value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(max=tl.max()).collect()["max"]
    [6.0]
    """
    return Expr("max", _WINDOW)


def first() -> Expr:
    """Give the earliest value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(first=tl.first()).collect()["first"]
    [1.0]
    """
    return Expr("first", _WINDOW)


def last() -> Expr:
    """Give the latest value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(last=tl.last()).collect()["last"]
    [6.0]
    """
    return Expr("last", _WINDOW)


def len() -> Expr:  # noqa: A001
    """Count the events.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(len=tl.len()).collect()["len"]
    [3]
    """
    return Expr("len", _WINDOW)


def std(ddof: int = 1) -> Expr:
    """Give the standard deviation.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [1.0, 1.0, 5.0, 5.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(std=tl.std(ddof=0)).collect()["std"]
    [2.0]
    """
    return Expr("std", _WINDOW, ddof)


def var(ddof: int = 1) -> Expr:
    """Give the variance.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(var=tl.var()).collect()["var"]
    [7.0]
    """
    return Expr("var", _WINDOW, ddof)


def skew(*, bias: bool = True) -> Expr:
    """Give the skewness.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(skew=tl.skew()).collect()["skew"]
    [0.0]
    """
    return Expr("skew", _WINDOW, bias=bias)


def kurtosis(*, fisher: bool = True, bias: bool = True) -> Expr:
    """Give the kurtosis.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [1.0, 1.0, 5.0, 5.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(kurtosis=tl.kurtosis(fisher=False)).collect()["kurtosis"]
    [1.0]
    """
    return Expr("kurtosis", _WINDOW, fisher=fisher, bias=bias)


def median() -> Expr:
    """Give the median.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(median=tl.median()).collect()["median"]
    [2.0]
    """
    return Expr("median", _WINDOW)


def quantile(q: float, method: str = "linear") -> Expr:
    """Give a quantile.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(quantile=tl.quantile(0.25)).collect()["quantile"]
    [1.5]
    """
    return Expr("quantile", _WINDOW, q, method)


def rms() -> Expr:
    """Give the root of the mean square.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [-2.0, 2.0, -2.0, 2.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(rms=tl.rms()).collect()["rms"]
    [2.0]
    """
    return Expr("rms", _WINDOW)


def crest_factor() -> Expr:
    """Give the largest absolute value over the root of the mean square.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [0.0, 0.0, 0.0, -4.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(crest_factor=tl.crest_factor()).collect()["crest_factor"]
    [2.0]
    """
    return Expr("crest_factor", _WINDOW)


def product() -> Expr:
    """Give the product of the values.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(product=tl.product()).collect()["product"]
    [12.0]
    """
    return Expr("product", _WINDOW)


def any() -> Expr:  # noqa: A001
    """Say whether a condition is true at one event.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [True, False, True]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(any=tl.any()).collect()["any"]
    [True]
    """
    return Expr("any", _WINDOW)


def all() -> Expr:  # noqa: A001
    """Say whether a condition is true at all events.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [True, False, True]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(all=tl.all()).collect()["all"]
    [False]
    """
    return Expr("all", _WINDOW)


def mode() -> Expr:
    """Give the most frequent value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [7, 5, 7]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(mode=tl.mode()).collect()["mode"]
    [7]
    """
    return Expr("mode", _WINDOW)


def n_unique() -> Expr:
    """Count the different values.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [7, 5, 7]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(n_unique=tl.n_unique()).collect()["n_unique"]
    [2]
    """
    return Expr("n_unique", _WINDOW)


def arg_min() -> Expr:
    """Give the time of the least value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [7, 5, 7]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(arg_min=tl.arg_min()).collect()["arg_min"]
    [2]
    """
    return Expr("arg_min", _WINDOW)


def arg_max() -> Expr:
    """Give the time of the largest value.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(arg_max=tl.arg_max()).collect()["arg_max"]
    [3]
    """
    return Expr("arg_max", _WINDOW)


def collect() -> Expr:
    """Give a list of the values.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(all=tl.collect()).collect()["all"]
    [[1.0, 2.0, 6.0]]
    """
    return Expr("collect", _WINDOW)


def ewm(
    *,
    alpha: float | None = None,
    half_life: Duration | None = None,
    span: float | None = None,
    com: float | None = None,
) -> Expr:
    """Give the exponentially weighted mean: by event (``alpha``, ``span``, ``com``) or by time (``half_life``).

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(mean=tl.ewm(alpha=0.5)).collect()["mean"]
    [4.142857142857143]
    """
    given = {"alpha": alpha, "half_life": half_life, "span": span, "com": com}
    return Expr("ewm", _WINDOW, **{name: value for name, value in given.items() if value is not None})


def top_k(k: int) -> Expr:
    """Give the largest values, as a list.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(top_k=tl.top_k(2)).collect()["top_k"]
    [[6.0, 2.0]]
    """
    return Expr("top_k", _WINDOW, k)


def twa() -> Expr:
    """Give the mean weighted by how long values were valid.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 3], "x": [10.0, 20.0]}, time="t", valid="until_next")["x"]
    >>> x.window(tl.tumbling(4)).agg(twa=tl.twa()).collect()["twa"]
    [13.333333333333334]
    """
    return Expr("twa", _WINDOW)


def integral(unit: Duration | None = None) -> Expr:
    """Give the sum of values times how long they were valid.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 3], "x": [10.0, 20.0]}, time="t", valid="until_next")["x"]
    >>> x.window(tl.tumbling(4)).agg(integral=tl.integral()).collect()["integral"]
    [40.0]
    """
    return Expr("integral", _WINDOW, unit)


def slope() -> Expr:
    """Give the slope by least squares.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 3.0, 5.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(slope=tl.slope()).collect()["slope"]
    [2.0]
    """
    return Expr("slope", _WINDOW)


def window_start() -> Expr:
    """Give the start of the window.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(window_start=tl.window_start()).collect()["window_start"]
    [0]
    """
    return Expr("start", _WINDOW)


def window_end() -> Expr:
    """Give the end of the window.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.tumbling(4)).agg(window_end=tl.window_end()).collect()["window_end"]
    [4]
    """
    return Expr("end", _WINDOW)
