"""Streams: queries under construction."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, cast, final, overload

from tilt import _native
from tilt.durations import duration_text, length
from tilt.errors import SchemaError, suggestion
from tilt.expressions import Expr, kind_of
from tilt.keys import Keyed, declaration, joined
from tilt.pointwise import Pointwise, dtype_text, literal
from tilt.results import Runnable
from tilt.timed import Timed
from tilt.windows import Calls, EventWindow, Window, WindowSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Literal

    from tilt.durations import Duration
    from tilt.sources import Source

_SHOWN_LINES = 16


@final
class Stream(Timed, Keyed, Runnable, Pointwise):
    """A function of time: a value, or none, at every instant. Lazy, immutable and picklable.

    :func:`tilt.stream` and :func:`tilt.scan_parquet` make streams of rows; operators and methods make streams of
    streams. Nothing is computed before :meth:`collect` or one of its companions is called, then all of it at once,
    compiled.

    ``x["price"]`` is a column, ``x["-5s"]`` what was five seconds ago, ``x["-10s":]`` the window of the last ten
    seconds, ``x["-1s":"+1s"]`` one around the instant. On periodic streams ``x[-1]`` is the sample before and
    ``x[-30:]`` are the last thirty.

    >>> import tilt as tl
    >>> price = tl.stream({"t": [0, 4, 8, 12], "price": [1.0, 2.0, 6.0, 5.0]}, time="t", unit="s")["price"]
    >>> trend = price["-5s":].mean() - price["-10s":].mean()
    >>> trend.filter(trend > 0).collect().to_dict()
    {'t': [8, 12], 'price': [1.0, 1.166666666666667]}
    >>> trend.lookback, trend.lookahead
    ('10s', '0s')
    """

    __slots__ = ("_columns", "_handle", "_name", "_sources")
    _handle: _native.Stream
    _name: str | None
    """What users call it, if it is not a record: the name of the first stream that it was made of, or its alias."""
    _sources: Mapping[str, Source]
    _columns: Mapping[str, str] | None
    """If this has an event for each row of its only source, computed from that row alone: which of its columns are
    which of the source's."""

    def __init__(self) -> None:
        """Streams are made by functions such as :func:`tilt.stream`."""
        message = (
            "use tl.stream(rows, time=...), tl.scan_parquet(paths, time=...) or tl.source(name, schema=..., time=...)"
        )
        raise TypeError(message)

    @classmethod
    def _of(
        cls,
        handle: _native.Stream,
        sources: Mapping[str, Source],
        columns: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Stream:
        stream = object.__new__(cls)
        stream._handle = handle
        stream._name = name
        stream._compiled = None
        stream._layout = None
        stream._sources = sources
        stream._columns = columns
        return stream

    @classmethod
    def _input(cls, name: str, source: Source) -> Stream:
        handle = declaration(name, source)
        return cls._of(handle, {name: source}, {column: column for column, _ in handle.schema})

    def _made(
        self, build: Callable[..., _native.Stream], *operands: object, columns: Mapping[str, str] | None = None
    ) -> Stream:
        """Apply a native operation to this stream and operands; all are given to it with inputs named apart.

        ``columns`` are those of the result, if it has an event for each row when the operands do.
        """
        streams = [self, *(operand for operand in operands if isinstance(operand, Stream))]
        handles, sources = joined(streams)
        given = iter(handles[1:])
        natives = [next(given) if isinstance(operand, Stream) else literal(operand) for operand in operands]
        rowwise = len(sources) == 1 and all(stream._columns is not None for stream in streams)
        handle = build(handles[0], *natives)
        is_record = handle.dtype.startswith("{") or self._handle.dtype.startswith("{")
        return self._of(handle, sources, columns if rowwise else None, None if is_record else self.name)

    # What is known about it.

    @property
    def name(self) -> str:
        """The name of its column in a result: that of the first stream it was made of, or what :meth:`alias` gave it.

        >>> import tilt as tl
        >>> px = tl.stream({"t": [1], "px": [2.5]}, time="t")["px"]
        >>> (px * 2).name, (100 - px.diff()).alias("rest").name
        ('px', 'rest')
        """
        return self._name or self._handle.name

    @property
    def dtype(self) -> str:
        """The type of its values, as the IR writes it.

        >>> import tilt as tl
        >>> tl.source("x", {"t": "timestamp(us)", "x": "f32"}, time="t")["x"].dtype
        'f32'
        """
        return self._handle.dtype

    @property
    def schema(self) -> dict[str, str]:
        """The columns with their types.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "px": [2.5], "sym": ["A"]}, time="t").schema
        {'px': 'f64', 'sym': 'utf8'}
        """
        handle = self._handle
        return dict(handle.schema) if handle.dtype.startswith("{") else {self.name: handle.dtype}

    @property
    def lookback(self) -> str:
        """How far into the past the value at an instant depends on the inputs.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
        >>> x["-2s":"+5s"].mean().lookback
        '2s'
        """
        return _reach(self._handle.lookback)

    @property
    def lookahead(self) -> str:
        """How far into the future the value at an instant depends on the inputs.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
        >>> x["-2s":"+5s"].mean().lookahead
        '5s'
        """
        return _reach(self._handle.lookahead)

    def assert_causal(self) -> Stream:
        """Give the stream itself if nothing in it depends on the future.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
        >>> x["-2s":].mean().assert_causal().lookahead
        '0s'

        Raises
        ------
        LookaheadError
            Naming the inputs that are read ahead, and by how much.

        """
        self._handle.assert_causal()
        return self

    def same_plan(self, other: Stream) -> bool:
        """Whether both compute the same from the same sources, whatever their parts are called.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1], "x": [1.0]}, time="t")["x"]
        >>> (x + 1).same_plan((x + 1).alias("y")), (x + 1).same_plan(x + 2)
        (True, False)
        """
        (one, two), _ = joined([self, other])
        return one.same(two)

    if not TYPE_CHECKING:  # Otherwise type checkers take every misspelt method for one.

        def __getattr__(self, name: str) -> NoReturn:
            """Find no such attribute; if it is the name of a column, say how to get that."""
            if name.startswith("_"):
                raise AttributeError(name)
            message = f"a Stream has no attribute {name!r}"
            if name in self.schema:
                message += f"; its column is stream[{name!r}]"
            elif name.startswith("rolling_"):
                message += f"; a rolling window is a slice: stream['-10s':].{name.removeprefix('rolling_')}()"
            elif hasattr(Window, name):
                message += f"; it reduces a window, such as the last ten seconds: stream['-10s':].{name}()"
            else:
                message += suggestion(name, dir(Stream))
            raise AttributeError(message)

    def __setitem__(self, name: object, value: object) -> NoReturn:
        column = name if isinstance(name, str) and name.isidentifier() else "name"
        message = f"a Stream does not change; with_columns({column}=...) gives one that has the column, too"
        raise TypeError(message)

    def __iter__(self) -> NoReturn:
        message = "a Stream is a description and has no events to go through; collect() computes them"
        raise TypeError(message)

    def __len__(self) -> NoReturn:
        message = "how many events a Stream has is known when it was computed; len(x.collect()) counts them"
        raise TypeError(message)

    # Columns.

    @overload
    def __getitem__(self, key: str | int | timedelta) -> Stream: ...
    @overload
    def __getitem__(self, key: slice) -> Window: ...
    def __getitem__(self, key: object) -> Stream | Window:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, str):
            return self._at_offset(key) if key[:1] in {"+", "-"} else self._field(key)
        if isinstance(key, int):
            return self._made(lambda own: own.sample(key))
        if isinstance(key, timedelta):
            return self._at_offset(duration_text(key))
        message = (
            f"a stream is indexed by a column ('price'), an offset ('-5s'), a slice ('-10s':) or a number of samples, "
            f"not by {type(key).__name__}; filter(condition) selects events"
        )
        raise TypeError(message)

    def _field(self, name: str) -> Stream:
        schema = self.schema
        if not self.dtype.startswith("{"):
            message = f"the stream `{self.name}` has no columns: it is a single one"
            if name[:1].isdigit():
                message += f"; x['-{name}'] is its value {name} before, x['+{name}'] after"
            raise SchemaError(message, column=name)
        if name not in schema:
            message = f"there is no column `{name}`{suggestion(name, schema)}; the columns are {', '.join(schema)}"
            raise SchemaError(message, column=name)
        return self._made(lambda own: own.field(name), columns={}).alias(name)

    def _at_offset(self, offset: str) -> Stream:
        return self._made(lambda own: own.at_offset(offset))

    def _slice(self, key: slice) -> Window:
        if key.step is not None:
            message = "a window has no step; window(tl.hopping(length, every=step)) has windows at a distance"
            raise ValueError(message)
        if isinstance(key.start, int) and not isinstance(key.start, bool):
            if key.start >= 0 or key.stop not in {None, 0}:
                message = (
                    f"samples are counted back from now: x[-30:] are the last thirty; not x[{key.start}:{key.stop}]"
                )
                raise ValueError(message)
            return Window(self, Calls.of("samples", -key.start), None, None)
        lo = None if key.start is None else duration_text(key.start)
        if lo is not None and key.stop is None and not lo.startswith("-"):
            message = f"a window that begins {lo} after now is empty; x['-{lo.removeprefix('+')}':] is what came before"
            raise ValueError(message)
        counted = lo is not None and lo.endswith("i")
        hi = ("0i" if counted else 0) if key.stop is None else duration_text(key.stop)
        return Window(self, Calls.of("window", lo, hi), lo, hi)

    def alias(self, name: str) -> Stream:
        """Give the stream another name: the one of its column in results.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1], "x": [1.0]}, time="t")["x"]
        >>> (x * 2).alias("double").collect().columns
        ['t', 'double']
        """
        return self._of(self._handle, self._sources, self._columns, name)

    def select(self, *columns: str | Stream | Expr, **named: object) -> Stream:
        """Keep some columns, or compute some, in the order given.

        >>> import tilt as tl
        >>> trades = tl.stream({"t": [1, 2], "px": [10.0, 11.0], "qty": [1, 5]}, time="t")
        >>> trades.select("qty", value=tl.col("px") * tl.col("qty")).collect().to_dict()
        {'t': [1, 2], 'qty': [1, 5], 'value': [10.0, 55.0]}
        """
        self._refuse_unknown([column for column in columns if isinstance(column, str)])
        computed = self._named([column for column in columns if not isinstance(column, str)], named)
        names = [column if isinstance(column, str) else self._resolved(column).name for column in columns]
        wide = self.with_columns(**computed) if computed else self
        wanted = [*names, *named]
        kept = wide._columns and {name: wide._columns[name] for name in wanted if name in wide._columns}
        return wide._made(lambda own: own.select(wanted), columns=kept or {})

    def drop(self, *names: str) -> Stream:
        """Leave out some columns.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "px": [10.0], "qty": [1]}, time="t").drop("qty").schema
        {'px': 'f64'}
        """
        self._refuse_unknown(names)
        if not self.schema.keys() - set(names):
            message = "drop() leaves one column at least; window(...).len() counts events without any"
            raise SchemaError(message)
        kept = {name: column for name, column in (self._columns or {}).items() if name not in names}
        return self._made(lambda own: own.drop(names), columns=kept)

    def rename(self, names: Mapping[str, str]) -> Stream:
        """Give columns other names.

        >>> import tilt as tl
        >>> tl.stream({"t": [1], "px": [10.0], "qty": [1]}, time="t").rename({"px": "price"}).schema
        {'price': 'f64', 'qty': 'i64'}
        """
        self._refuse_unknown(names)
        kept = {names.get(name, name): column for name, column in (self._columns or {}).items()}
        return self._made(lambda own: own.rename(list(names.items())), columns=kept)

    def with_columns(self, *columns: Stream | Expr, **named: object) -> Stream:
        """Add columns to each event, or replace them: streams by their names, or under the names of keywords.

        Streams of any clock are looked up at the end of each event; no event is added or dropped.

        >>> import tilt as tl
        >>> trades = tl.stream({"t": [1, 2], "px": [10.0, 11.0], "qty": [1, 5]}, time="t")
        >>> more = trades.with_columns(value=trades["px"] * trades["qty"], mean=tl.col("px").window(5).mean())
        >>> more.drop("qty").collect().to_pylist()
        [{'t': 1, 'px': 10.0, 'value': 10.0, 'mean': 10.0}, {'t': 2, 'px': 11.0, 'value': 55.0, 'mean': 10.5}]
        """
        computed = self._named(columns, named)
        kept = {name: column for name, column in (self._columns or {}).items() if name not in computed}
        names = list(computed)
        return self._made(
            lambda own, *values: own.with_columns(list(zip(names, values, strict=True))),
            *computed.values(),
            columns=kept,
        )

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.schema:
                self._field(name)  # Raises, with the columns that there are.

    def _named(self, columns: Sequence[object], named: Mapping[str, object]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for column in columns:
            stream = self._resolved(column)
            if not isinstance(stream, Stream):
                message = f"give {column!r} a name: with_columns(name=...)"
                raise TypeError(message)
            result[stream.name] = stream
        for name, value in named.items():
            if isinstance(value, str) and value in self.schema:
                message = (
                    f"{name}={value!r} would be this text at each event; the column is {name}=tl.col({value!r}), "
                    f"and {name}=tl.lit({value!r}) is the text"
                )
                raise TypeError(message)
            result[name] = self._resolved(value)
        return result

    def _resolved(self, value: object) -> Any:  # noqa: ANN401
        """Give what a deferred expression is on this stream; refuse a window that was not reduced."""
        if isinstance(value, Expr):
            value = value.on(self)
        if isinstance(value, Window):
            message = "a window has no value before it is reduced; call mean(), sum(), last() ... on it"
            raise TypeError(message)
        return value

    def _beside(self, other: Stream) -> Stream:
        given: object = other
        if not isinstance(given, Stream):
            message = f"a stream is joined with a stream, not with {kind_of(given)}"
            raise TypeError(message)
        own, others = ({source.events.key for source in side._sources.values()} for side in (self, other))
        common = [key for key in own & others if key in self.schema and key in other.schema]
        return other.drop(*common) if common and len(other.schema) > len(common) else other

    # Values.

    def _unary(self, op: str) -> Stream:
        return self._made(lambda own: own.unary(op), columns={})

    def _binary(self, op: str, other: object, *, reversed: bool = False) -> Stream:  # noqa: A002
        if isinstance(other, Expr):
            return cast("Stream", Expr("_binary", self, op, other, reversed=reversed))
        other = self._resolved(other)
        return self._made(lambda own, operand: own.binary(op, operand, reversed), other, columns={})

    def cast(self, dtype: str | type) -> Stream:
        """Give the values another type; those that do not fit become missing.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.5, 300.0]}, time="t")["x"]
        >>> x.cast("i8").collect().to_dict()
        {'t': [1], 'x': [1]}
        """
        return self._made(lambda own: own.cast(dtype_text(dtype)), columns={})

    def clip(self, lower_bound: object = None, upper_bound: object = None) -> Stream:
        """Bound the values.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [-1.0, 0.5, 7.0]}, time="t")["x"]
        >>> x.clip(0, 1).collect()["x"]
        [0.0, 0.5, 1.0]
        """
        lo, hi = self._resolved(lower_bound), self._resolved(upper_bound)
        return self._made(
            lambda own, lo_, hi_: own.clip(lo_, hi_),
            lo,
            hi,
            columns={},
        )

    def filter(self, condition: object) -> Stream:
        """Keep the events at which a condition is true.

        >>> import tilt as tl
        >>> trades = tl.stream({"t": [1, 2], "px": [10.0, 11.0], "qty": [1, 5]}, time="t")
        >>> trades.filter(trades["qty"] > 1).collect().to_pylist()
        [{'t': 2, 'px': 11.0, 'qty': 5}]
        """
        if isinstance(condition, str):
            message = f"a condition is no text; write filter(tl.col('price') > 3), not filter({condition!r})"
            raise TypeError(message)
        return self._made(lambda own, value: own.filter(value), self._resolved(condition), columns=self._columns)

    def is_null(self) -> Stream:
        """Say at each event whether the value is missing.

        >>> import tilt as tl
        >>> rows = tl.stream({"t": [1, 2], "x": [1.0, None]}, time="t")
        >>> rows.with_columns(gone=rows["x"].is_null()).collect()["gone"]
        [False, True]
        """
        return self._made(lambda own: own.is_null(), columns={})

    # Windows.

    def window(
        self,
        spec: WindowSpec | Duration,
        *,
        closed: Literal["right", "left", "both", "none"] = "right",
        min_samples: int = 1,
        prevailing: bool = False,
    ) -> Window:
        """Give a window at each instant: the last ``spec`` of time, or one of :func:`tilt.tumbling` and its companions.

        Parameters
        ----------
        spec
            A length of time, or a kind of window.
        closed
            Which ends of the window belong to it; ``"left"`` leaves out the current instant.
        min_samples
            Windows with fewer events have no value.
        prevailing
            Whether the value from before the window counts as well, as in an as-of join.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.window(2, closed="left").mean().collect().to_dict()
        {'t': [2, 3], 'x': [1.0, 1.5]}
        >>> x.window(tl.tumbling(2)).sum().collect().to_dict()
        {'t': [2, 4], 'x': [3.0, 6.0]}

        """
        if isinstance(spec, WindowSpec):
            window = spec.of(self)
        else:
            size = length(spec)
            if str(size)[:1] in {"+", "-"}:
                message = f"window() takes the length of the window, which is positive; x[{size!r}:] is the same"
                raise ValueError(message)
            window = WindowSpec(size).of(self)
        return window._with(closed=closed, min_samples=min_samples, prevailing=prevailing)

    def during(self, other: Stream) -> Window:
        """Give a window for each event of another stream: from its start to its end.

        >>> import tilt as tl
        >>> power = tl.stream({"t": [1, 2, 3, 7, 8], "kw": [5.0, 1.0, 2.0, 8.0, 3.0]}, time="t")["kw"]
        >>> jobs = tl.stream({"begin": [1, 4], "end": [3, 8], "job": ["a", "b"]}, valid=("begin", "end"))
        >>> power.during(jobs).sum().collect().to_dict()
        {'begin': [1, 4], 'end': [3, 8], 'kw': [3.0, 11.0]}
        >>> jobs.with_columns(kwh=power.during(jobs).sum(), n=power.during(jobs).len()).collect()["n"]
        [2, 2]
        """
        given: object = other
        if not isinstance(given, Stream):
            message = f"during() takes a stream whose events are the windows, not {kind_of(given)}"
            raise TypeError(message)
        (own, intervals), sources = joined([self, other])
        both = self._of(own, sources, None, None if self.dtype.startswith("{") else self.name)
        return EventWindow(both, Calls.of("during", intervals))

    def cum_sum(self) -> Stream:
        """Give the sum of all events so far.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1, 2, 6]}, time="t")["x"]
        >>> x.cum_sum().collect().to_dict()
        {'t': [1, 2, 3], 'x': [1, 3, 9]}
        """
        return self[:].sum()

    def cum_max(self) -> Stream:
        """Give the largest value so far.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2, 3], "x": [1, 3, 2]}, time="t")["x"].cum_max().collect()["x"]
        [1, 3, 3]
        """
        return self[:].max()

    def cum_min(self) -> Stream:
        """Give the smallest value so far.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2, 3], "x": [3, 1, 2]}, time="t")["x"].cum_min().collect()["x"]
        [3, 1, 1]
        """
        return self[:].min()

    def cum_count(self) -> Stream:
        """Count the events so far.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2, 3], "x": [5, 5, 5]}, time="t")["x"].cum_count().collect()["x"]
        [1, 2, 3]
        """
        return self[:].len()

    def cum_prod(self) -> Stream:
        """Give the product of all values so far.

        >>> import tilt as tl
        >>> tl.stream({"t": [1, 2, 3], "x": [1, 3, 2]}, time="t")["x"].cum_prod().collect()["x"]
        [1, 3, 6]
        """
        return self[:].product()

    def ewm(
        self,
        *,
        alpha: float | None = None,
        half_life: Duration | None = None,
        span: float | None = None,
        com: float | None = None,
    ) -> Stream:
        """Give the exponentially weighted mean of all events so far: by event, or with ``half_life`` by time.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> x.ewm(alpha=0.5).collect()
        tilt.Table: 3 rows
         t      x
         Int64  Float64
        ────────────────
             1        1
             2  1.66667
             3  4.14286
        """
        if half_life is not None and alpha is span is com is None:
            size = length(half_life)
            return self._made(lambda own: own.ewm_by_time(size))
        return self._slice(slice(None, "0i")).ewm(alpha=alpha, span=span, com=com, half_life=half_life)

    def __repr__(self) -> str:
        lines = [line.strip() for line in self._handle.text().splitlines()[1:-1]]
        shown = [line for line in lines if line and not line.startswith("output")]
        if len(shown) > _SHOWN_LINES:
            shown = [*shown[: _SHOWN_LINES // 2], "…", *shown[-_SHOWN_LINES // 2 :]]
        return "\n  ".join([f"<tilt.Stream {self.name}: {self.dtype}", *shown]) + ">"

    def __reduce__(self) -> tuple[Callable[..., Stream], tuple[Any, ...]]:
        from tilt.externs import called  # noqa: PLC0415

        text = self._handle.text()
        return _restored, (text, dict(self._sources), self._columns, self._name, called(text))


def _restored(
    text: str,
    sources: Mapping[str, Source],
    columns: Mapping[str, str] | None,
    name: str | None,
    functions: Mapping[str, Callable[..., Any] | None] = MappingProxyType({}),
) -> Stream:
    from tilt.externs import adopted  # noqa: PLC0415

    return Stream._of(_native.Stream.from_text(adopted(text, functions)), sources, columns, name)


def _reach(text: str) -> str:
    """Write no time at all in seconds, whatever the unit is."""
    return "0s" if text in {"0ms", "0us", "0ns"} else text
