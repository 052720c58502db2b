"""Windows: the events around an instant, to be reduced to a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tilt.durations import duration_text, negated
from tilt.durations import length as _length
from tilt.errors import QueryError, suggestion
from tilt.expressions import Expr

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from tilt import _native
    from tilt.durations import Duration
    from tilt.reducers import Reducer
    from tilt.streams import Stream


@dataclass(frozen=True)
class Calls:
    """What makes a native window of a native stream: methods that are called one after the other."""

    calls: tuple[tuple[str, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, name: str, *args: object) -> Calls:
        """Begin with a method of the stream."""
        return cls(((name, args),))

    def then(self, name: str, *args: object) -> Calls:
        """Go on with a method of the window."""
        return Calls((*self.calls, (name, args)))

    @property
    def maps(self) -> bool:
        """Whether events get other values."""
        return any(name == "map" for name, _ in self.calls)

    def __call__(self, own: _native.Stream) -> _native.Window:
        """Give the window of a stream."""
        made: Any = own
        for name, args in self.calls:
            made = getattr(made, name)(*args)
        return cast("_native.Window", made)


class Window:
    """The events of a stream around each instant, such as ``x["-10s":]``; a reduction makes a stream of it.

    Without events in a window there is no value, for ``len`` neither. Unless a kind of window says when, a reduction
    has a value at every instant: on its own it is looked at the events of the stream, combined with other streams at
    theirs.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(2).mean().collect().to_dict()
    {'t': [1, 2, 3], 'x': [1.0, 1.5, 4.0]}
    """

    __slots__ = ("_build", "_hi", "_lo", "_stream")
    _stream: Stream
    _build: Calls
    _lo: str | int | None
    _hi: str | int | None

    def __init__(self, stream: Stream, build: Calls, lo: str | int | None, hi: str | int | None) -> None:
        """Windows are made by slicing a stream, or by :meth:`tilt.Stream.window`."""
        self._stream = stream
        self._build = build
        self._lo = lo
        self._hi = hi

    @property
    def stream(self) -> Stream:
        """The stream whose events are in the window.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).stream is x
        True
        """
        return self._stream

    def _then(self, name: str, *args: object) -> Window:
        """Give the window after a call of one of its native methods."""
        return Window(self._stream, self._build.then(name, *args), self._lo, self._hi)

    def _with(self, *, closed: str = "right", min_samples: int = 1, prevailing: bool = False) -> Window:
        window = self
        if closed != "right":
            window = window._then("closed", closed)
        if min_samples != 1:
            window = window._then("min_samples", min_samples)
        return window._then("prevailing") if prevailing else window

    def _reduced(self, reduction: str, *params: object) -> Stream:
        return self._named(self._stream._made(lambda own: self._build(own).reduce(reduction, *params)), reduction)

    def _named(self, result: Stream, reduction: str) -> Stream:
        """Call a reduction of records after what was done, as they have no name of their own."""
        return result.alias(reduction) if self._stream.dtype.startswith("{") else result

    def __getitem__(self, column: str) -> Window:
        """Give the window of a column."""
        return self.map(lambda event: event[column])

    def map(self, function: Callable[[Stream], Stream]) -> Window:
        """Give each event of the window another value: the function is called once, with the stream.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).map(lambda v: v * v).sum().collect().to_dict()
        {'t': [1, 2, 3], 'x': [1.0, 5.0, 40.0]}
        """

        def traced(event: _native.Stream) -> _native.Stream:
            result = function(type(self._stream)._of(event, self._stream._sources))
            if result._sources.keys() - self._stream._sources.keys():
                message = "an event of a window is mapped by itself alone; add what it needs by with_columns() first"
                raise QueryError(message)
            return result._handle

        return self._then("map", traced)

    def mean(self) -> Stream:
        """Give the mean of the values.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).mean().collect()["x"]
        [1.0, 1.5, 4.0]
        """
        return self._reduced("mean")

    def sum(self) -> Stream:
        """Give the sum of the values.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).sum().collect()["x"]
        [1.0, 3.0, 8.0]
        """
        return self._reduced("sum")

    def min(self) -> Stream:
        """Give the least value.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).min().collect()["x"]
        [1.0, 1.0, 2.0]
        """
        return self._reduced("min")

    def max(self) -> Stream:
        """Give the largest value.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).max().collect()["x"]
        [1.0, 2.0, 6.0]
        """
        return self._reduced("max")

    def std(self, ddof: int = 1) -> Stream:
        """Give the standard deviation.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).std(ddof=0).collect()["x"]
        [0.0, 0.5, 2.0]
        """
        return self._reduced("std", ddof)

    def var(self, ddof: int = 1) -> Stream:
        """Give the variance.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).var().collect()["x"]
        [0.5, 8.0]
        """
        return self._reduced("var", ddof)

    def skew(self, *, bias: bool = True) -> Stream:
        """Give the skewness, as :func:`scipy.stats.skew` does; without ``bias`` none of fewer than three events.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, time="t")["x"]
        >>> x.window(3).skew().collect().to_pylist()[-1:]
        [{'t': 3, 'x': 0.0}]
        """
        return self._reduced("skew", bias)

    def kurtosis(self, *, fisher: bool = True, bias: bool = True) -> Stream:
        """Give the kurtosis as :func:`scipy.stats.kurtosis` does: 0 for a normal distribution, or 3.

        Without ``bias`` fewer than four events have none.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [1.0, 1.0, 5.0, 5.0]}, time="t")["x"]
        >>> x.window(4).kurtosis(fisher=False).collect().to_pylist()[-1:]
        [{'t': 4, 'x': 1.0}]
        """
        return self._reduced("kurtosis", fisher, bias)

    def median(self) -> Stream:
        """Give the median.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).median().collect()["x"]
        [1.0, 1.5, 4.0]
        """
        return self._reduced("median")

    def quantile(
        self, q: float, method: Literal["linear", "lower", "higher", "nearest", "midpoint"] = "linear"
    ) -> Stream:
        """Give a quantile.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).quantile(0.25).collect()["x"]
        [1.0, 1.25, 3.0]
        """
        return self._reduced("quantile", q, method)

    def first(self) -> Stream:
        """Give the earliest value.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).first().collect()["x"]
        [1.0, 1.0, 2.0]
        """
        return self._reduced("first")

    def last(self) -> Stream:
        """Give the latest value.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).last().collect()["x"]
        [1.0, 2.0, 6.0]
        """
        return self._reduced("last")

    def len(self) -> Stream:
        """Count the events.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).len().collect()["x"]
        [1, 2, 2]
        """
        return self._reduced("len")

    def rms(self) -> Stream:
        """Give the root of the mean square.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [-2.0, 2.0, 2.0]}, time="t")["x"]
        >>> x.window(2).rms().collect()["x"]
        [2.0, 2.0, 2.0]
        """
        return self._reduced("rms")

    def crest_factor(self) -> Stream:
        """Give the largest absolute value over the root of the mean square.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [0.0, 0.0, 0.0, -4.0]}, time="t")["x"]
        >>> x.window(4).crest_factor().collect().to_pylist()[-1:]
        [{'t': 4, 'x': 2.0}]
        """
        return self._reduced("crest_factor")

    def product(self) -> Stream:
        """Give the product of the values.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).product().collect()["x"]
        [1.0, 2.0, 12.0]
        """
        return self._reduced("product")

    def any(self) -> Stream:
        """Say whether a condition is true at one event at least.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [True, False, True]}, time="t")["x"]
        >>> x.window(2).any().collect()["x"]
        [True, True, True]
        """
        return self._reduced("any")

    def all(self) -> Stream:
        """Say whether a condition is true at all events.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [True, False, True]}, time="t")["x"]
        >>> x.window(2).all().collect()["x"]
        [True, False, False]
        """
        return self._reduced("all")

    def mode(self) -> Stream:
        """Give the most frequent value, of several the one that came first.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [7, 5, 7]}, time="t")["x"]
        >>> x.window(2).mode().collect()["x"]
        [7, 7, 5]
        """
        return self._reduced("mode")

    def n_unique(self) -> Stream:
        """Count the different values.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [7, 5, 7]}, time="t")["x"]
        >>> x.window(2).n_unique().collect()["x"]
        [1, 2, 2]
        """
        return self._reduced("n_unique")

    def arg_min(self) -> Stream:
        """Give the time of the least value.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).arg_min().collect()["x"]
        [1, 1, 2]
        """
        return self._reduced("arg_min")

    def arg_max(self) -> Stream:
        """Give the time of the largest value.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).arg_max().collect()["x"]
        [1, 2, 3]
        """
        return self._reduced("arg_max")

    def collect(self) -> Stream:
        """Give a list of the values.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).collect().collect()["x"]
        [[1.0], [1.0, 2.0], [2.0, 6.0]]
        """
        return self._reduced("collect")

    def top_k(self, k: int) -> Stream:
        """Give a list of the largest values, the largest first.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).top_k(1).collect()["x"]
        [[1.0], [2.0], [6.0]]
        """
        return self._reduced("top_k", k)

    def twa(self) -> Stream:
        """Give the mean of the values, weighted by how long they were valid: see :meth:`tilt.Stream.hold`.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 3], "x": [10.0, 20.0]}, time="t", valid="until_next")["x"]
        >>> x.window(4).twa().collect()["x"]
        [10.0, 13.333333333333334]
        """
        return self._reduced("twa")

    def integral(self, unit: Duration | None = None) -> Stream:
        """Give the sum of values times how long they were valid, counted in ticks or in ``unit``.

        >>> import tilt as tl
        >>> kw = tl.stream({"t": [1, 1801], "kw": [2.0, 4.0]}, time="t", unit="s", valid="until_next")["kw"]
        >>> kw.window("1h").integral(unit="1h").round().collect()["kw"]
        [1.0, 1.0]
        """
        return self._reduced("integral", None if unit is None else duration_text(unit))

    def slope(self) -> Stream:
        """Give the slope of the line through the values by least squares, per tick.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).slope().collect()["x"]
        [1.0, 4.0]
        """
        return self._reduced("slope")

    def ewm(
        self,
        *,
        alpha: float | None = None,
        half_life: Duration | None = None,
        span: float | None = None,
        com: float | None = None,
    ) -> Stream:
        """Give the exponentially weighted mean: by event (``alpha``, ``span``, ``com``) or by time (``half_life``).

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).ewm(alpha=0.5).round().collect()["x"]
        [1.0, 2.0, 5.0]
        """
        given = [
            name
            for name, value in (("alpha", alpha), ("half_life", half_life), ("span", span), ("com", com))
            if value is not None
        ]
        if len(given) != 1:
            message = f"ewm() takes one of alpha, half_life, span and com, not {' and '.join(given) or 'none'}"
            raise TypeError(message)
        if half_life is not None:
            return self._reduced("ewm_by_time", duration_text(half_life))
        weight = alpha if alpha is not None else 2 / (span + 1) if span is not None else 1 / (1 + (com or 0.0))
        return self._reduced("ewm", float(weight))

    def reduce(self, reducer: Reducer | type[Any]) -> Stream:
        """Reduce by functions of your own: see :func:`tilt.reducer`.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> total = tl.reducer(init=lambda: {"s": 0.0}, acc=lambda st, v: {"s": st.s + v}, result=lambda st: st.s)
        >>> x.window(2).reduce(total).collect()["x"]
        [1.0, 3.0, 8.0]
        """
        traced = getattr(reducer, "_traced", None)
        if traced is None:
            message = f"reduce() takes what tl.reducer(...) makes, not {reducer!r}"
            raise TypeError(message)

        def build(own: _native.Stream) -> _native.Stream:
            window = self._build(own)
            # Events that were mapped have the type of any of them.
            dtype = window.reduce("last").dtype if self._build.maps else own.dtype
            return window.reduce_with(traced(dtype, own.unit))

        return self._named(self._stream._made(build), cast("Reducer", reducer).name)

    def agg(self, *unnamed: NoReturn, **named: Expr | Stream) -> Stream:
        """Give a record of several reductions, where the window is not empty.

        >>> import tilt as tl
        >>> trades = tl.stream({"t": [1, 2, 3], "px": [10.0, 11.0, 9.0], "qty": [1, 5, 2]}, time="t")
        >>> bars = trades.window(tl.tumbling(2)).agg(
        ...     high=tl.col("px").max(),
        ...     vwap=(tl.col("px") * tl.col("qty")).sum() / tl.col("qty").sum(),
        ...     n=tl.len(),
        ... )
        >>> bars.collect().to_pylist()
        [{'t': 2, 'high': 11.0, 'vwap': 10.833333333333334, 'n': 2}, {'t': 4, 'high': 9.0, 'vwap': 9.0, 'n': 1}]
        """
        if unnamed:
            message = "name every reduction, as its column will be called: agg(mean=tl.mean(), n=tl.len())"
            raise TypeError(message)
        names = list(named)
        given: dict[str, object] = dict(named)
        for name, other in given.items():
            if isinstance(other, (str, tuple)):
                message = f"{name}={other!r} is no reduction; write {name}={_reduction_of(other)}"
                raise TypeError(message)
        columns = [value.over(self) if isinstance(value, Expr) else value for value in named.values()]
        return self._stream._made(
            lambda own, *values: self._build(own).agg(list(zip(names, values, strict=True))), *columns
        )

    def start(self) -> Stream:
        """Give the start of the window.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).start().collect()["x"]
        [-1, 0, 1]
        """
        return self._edge(self._lo)

    def end(self) -> Stream:
        """Give the end of the window.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2).end().collect()["x"]
        [1, 2, 3]
        """
        return self._edge(self._hi)

    def _edge(self, offset: str | int | None) -> Stream:
        from tilt.durations import duration_ticks  # noqa: PLC0415

        if offset is None or str(offset).endswith("i"):
            message = "only windows of a length of time have a start and an end"
            raise TypeError(message)
        unit = self._stream._handle.unit
        ticks = duration_ticks(offset, unit)
        return _moved(self.len().time(), ticks, unit)

    if not TYPE_CHECKING:  # Otherwise type checkers take every misspelt reduction for one.

        def __getattr__(self, name: str) -> NoReturn:
            """Find no such reduction; name a similar one."""
            message = f"a Window has no reduction {name!r}{suggestion(name, dir(Window))}"
            raise AttributeError(message)

    def __bool__(self) -> NoReturn:
        message = "a window has no truth value; reduce it to a stream first"
        raise TypeError(message)

    def _refuse(self, *_: object) -> NoReturn:
        message = "a window is many values at every instant; reduce it to one first, as in window.mean() + 1"
        raise TypeError(message)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __invert__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    # Otherwise a comparison would be the false that objects of two kinds give, and a filter by it would keep nothing.
    __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<tilt.Window of {self._stream!r}>"


class EventWindow(Window):
    """A window that is an event of its own, as sessions and days of a calendar are."""

    __slots__ = ("_after",)
    _after: int

    def __init__(self, stream: Stream, build: Calls, after: int = 0) -> None:
        """Windows are made by :meth:`tilt.Stream.window`."""
        super().__init__(stream, build, None, None)
        self._after = after

    def _then(self, name: str, *args: object) -> Window:
        return EventWindow(self._stream, self._build.then(name, *args), self._after)

    def start(self) -> Stream:
        """Give the first instant of the window."""
        return _moved(self.len().start(), 1, self._stream._handle.unit)

    def end(self) -> Stream:
        """Give the end of the window."""
        return _moved(self.len().time(), self._after, self._stream._handle.unit)


def _moved(edge: Stream, ticks: int, unit: str) -> Stream:
    """Give instants that are so many ticks later."""
    return edge._made(lambda own: own.binary("+", ("duration", ticks, unit))) if ticks else edge


_NAMED = ("any", "all", "first", "last", "len", "max", "mean", "median", "min", "mode", "n_unique", "std", "sum", "var")
"""Reductions that other libraries name by texts, and that are called so here."""


def _reduction_of(named: str | tuple[Any, ...]) -> str:
    """Write what other libraries name by texts: ``"mean"``, or a column and ``"mean"``."""
    parts = [part for part in ([named] if isinstance(named, str) else named) if isinstance(part, str)]
    *column, reduction = parts or [""]
    if reduction not in _NAMED:
        return f"tl.col({column[0]!r}).mean()" if column else "tl.col(name).mean()"
    of = f"tl.col({column[0]!r})." if column else "tl."
    return f"{of}{reduction}()"


@dataclass(frozen=True)
class WindowSpec:
    """A kind of window: made by :func:`tumbling`, :func:`hopping`, :func:`sliding` or :func:`count`.

    >>> import tilt as tl
    >>> tl.hopping("1h", every="5m")
    WindowSpec(length='1h', every='5m', offset=None, step=None)
    """

    length: str | int
    every: str | int | None = None
    offset: str | int | None = None
    step: int | None = None

    def of(self, stream: Stream) -> Window:
        """Give the window of a stream."""
        lo: str | int = negated(self.length)
        hi: str | int = "0i" if str(self.length).endswith("i") else 0
        build = Calls.of("window", lo, hi)
        if self.every is not None:
            build = build.then("every", self.every, self.offset)
        if self.step is not None:
            build = build.then("each_nth", self.step)
        return Window(stream, build, lo, hi)


def _positive(value: Duration, *, is_length: bool = True) -> str | int:
    """Give the length of a window, or the time between two, which is not negative."""
    given = _length(value)
    if str(given).startswith("-"):
        message = f"windows end a positive time apart, not {given!r}: every="
        if is_length:
            message = f"a window has a positive length, not {given!r}; x[{given!r}:] is written with a sign"
        raise ValueError(message)
    return given


def tumbling(length: Duration, *, offset: Duration | None = None) -> WindowSpec:
    """Windows side by side: one ends at each multiple of their length, counted from ``offset``.

    The value of a window is valid for all of it.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [1.0, 2.0, 6.0, 7.0]}, time="t")["x"]
    >>> (x - x.window(tl.tumbling(2)).mean()).collect().to_dict()
    {'t': [1, 2, 3, 4], 'x': [-0.5, 0.5, -0.5, 0.5]}
    """
    return hopping(length, every=length, offset=offset)


def hopping(length: Duration, *, every: Duration, offset: Duration | None = None) -> WindowSpec:
    """Windows of one length, one of which ends at each multiple of ``every``.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [1.0, 2.0, 6.0, 7.0]}, time="t")["x"]
    >>> x.window(tl.hopping(4, every=2)).sum().collect().to_dict()
    {'t': [2, 4, 6], 'x': [3.0, 16.0, 13.0]}
    """
    return WindowSpec(_positive(length), _positive(every, is_length=False), None if offset is None else _length(offset))


@dataclass(frozen=True)
class Around(WindowSpec):
    """The time from ``length`` before an instant to ``after`` behind it: made by :func:`sliding`."""

    after: str | int = 0

    def of(self, stream: Stream) -> Window:
        """Give the window of a stream."""
        lo = negated(self.length)
        return Window(stream, Calls.of("window", lo, self.after), lo, self.after)


def sliding(length: Duration, *, after: Duration | None = None) -> WindowSpec:
    """Take the last ``length`` of time at every instant, and with ``after`` what follows within that time.

    ``x.window(tl.sliding("10s", after="5s"))`` is ``x["-10s":"+5s"]``, and can be given ``closed``, ``min_samples`` and
    ``prevailing``.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> x.window(tl.sliding(2)).max().collect().to_dict()
    {'t': [1, 2, 3], 'x': [1.0, 2.0, 6.0]}
    >>> x.window(tl.sliding(2, after=1), closed="both").len().collect()["x"]
    [2, 3, 3]
    """
    size = _positive(length)
    return WindowSpec(size) if after is None else Around(size, after=_length(after))


def count(n: int, *, every: int | None = None) -> WindowSpec:
    """Take the last ``n`` events, at each event or at each ``every``-th.

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 5, 6, 9], "x": [1.0, 2.0, 6.0, 7.0]}, time="t")["x"]
    >>> x.window(tl.count(2)).sum().collect().to_dict()
    {'t': [1, 5, 6, 9], 'x': [1.0, 3.0, 8.0, 13.0]}
    >>> x.window(tl.count(2, every=2)).sum().collect().to_dict()
    {'t': [5, 9], 'x': [3.0, 13.0]}
    """
    return WindowSpec(f"{n}i", step=every)


@dataclass(frozen=True)
class Sessions(WindowSpec):
    """Runs of events, ``length`` apart at most: made by :func:`session`."""

    max_length: str | None = None

    def of(self, stream: Stream) -> Window:
        """Give the window of a stream."""
        return EventWindow(stream, Calls.of("sessions", self.length, self.max_length))


@dataclass(frozen=True)
class Calendar(WindowSpec):
    """Cells of a calendar: made by :func:`calendar`."""

    tz: str | None = None
    closed: str = "left"

    def of(self, stream: Stream) -> Window:
        """Give the window of a stream; without a zone that of its times."""
        build = Calls.of("calendar", self.length, self.tz or _zone(stream))
        if self.closed != "left":
            build = build.then("closed", self.closed)
        if self.offset is not None:
            build = build.then("offset", self.offset)
        # The end that people mean follows the last instant of a cell that holds its start.
        return EventWindow(stream, build, after=1 if self.closed == "left" else 0)


def _zone(stream: Stream) -> str | None:
    """Give the time zone of a stream's times, if all of its sources have the same."""
    zones = {source.zone for source in stream._sources.values()}
    return zones.pop() if len(zones) == 1 else None


def session(gap: Duration, *, max_length: Duration | None = None) -> WindowSpec:
    """Take runs of events that are at most ``gap`` apart: one window each, from the first event to the last.

    An event that would make a session longer than ``max_length`` begins another one. A session is known when nothing
    has followed for ``gap``, so a query looks that far ahead.

    >>> import tilt as tl
    >>> clicks = tl.stream({"t": [1, 3, 5, 20, 22], "url": ["a", "b", "c", "d", "e"]}, time="t")
    >>> visits = clicks.window(tl.session(gap=4)).agg(
    ...     first=tl.window_start(), last=tl.window_end(), n=tl.len(), landing=tl.col("url").first()
    ... )
    >>> visits.collect().to_pylist()  # doctest: +NORMALIZE_WHITESPACE
    [{'start': 0, 'end': 5, 'first': 1, 'last': 5, 'n': 3, 'landing': 'a'},
     {'start': 19, 'end': 22, 'first': 20, 'last': 22, 'n': 2, 'landing': 'd'}]
    """
    return Sessions(duration_text(gap), max_length=None if max_length is None else duration_text(max_length))


def calendar(
    length: str,
    *,
    tz: str | None = None,
    offset: Duration | None = None,
    closed: Literal["left", "right"] = "left",
) -> WindowSpec:
    """Hours, days, weeks, months, quarters or years of a calendar, right across changes of the clocks.

    Parameters
    ----------
    length
        ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"``, ``"1y"``, or several of them.
    tz
        A name of the tz database; by default the zone of the stream's times, or UTC.
    offset
        How long after midnight, in local time, a day begins.
    closed
        Whether the instant at which a window begins belongs to it, as people say it, or the one at which it ends.

    >>> import datetime as dt
    >>> import tilt as tl
    >>> hours = [dt.datetime(2024, 3, 30, 23) + dt.timedelta(hours=h) for h in range(48)]
    >>> load = tl.stream({"t": hours, "kw": [1.0] * 48}, time="t", tz="UTC")["kw"]
    >>> load.window(tl.calendar("1d", tz="Europe/Paris")).len().collect().to_dict()["kw"]
    [23, 24, 1]

    """
    moved = None if offset is None else duration_text(offset)
    return Calendar(length, offset=moved, tz=tz, closed=closed)
