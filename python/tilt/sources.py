"""Where rows come from, and how they become events.

A source is a description: :func:`rows` has them in memory, :func:`files` names files that are read when a query runs,
:func:`deferred` knows only their columns. Each can say how a query declares it, and hand its rows to a run.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from os.path import isdir
from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.config import Config
from tilt.durations import duration_text, instant_ticks
from tilt.errors import suggestion
from tilt.program import Program
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilt.durations import Duration, Instant
    from tilt.progress import Extent


@dataclass(frozen=True, kw_only=True)
class Events:
    """How rows become events.

    >>> from tilt.sources import Events
    >>> Events(time="ts", valid="until_next").times
    'ts'
    >>> Events(valid=("from", "to")).times
    ('from', 'to')
    """

    time: str | None = None
    """The column of times; not needed if ``valid`` names two."""
    valid: Duration | tuple[str, str] = "point"
    """When a row is true: at its time (``"point"``), until the next row (``"until_next"``), for a length of time up to
    it (a sample of a periodic signal), or between the times of two columns."""
    unit: str | None = None
    """What integer times count: ``s``, ``ms``, ``us`` or ``ns``; without it they are plain ticks."""
    tz: str | None = None
    """The time zone of the times. Wall times without a zone are read there; integers and times that have one keep their
    instants."""
    period: Duration | None = None
    """The distance of samples, which may have gaps."""
    key: str | None = None
    """The column that splits the rows into a stream for each of its values."""
    sort: bool = False
    """Whether to sort rows that are not in order of time, instead of refusing them."""
    overlap: str | None = None
    """What it means that several events are active at once: ``"bag"`` (all of them), ``"first"`` or ``"last"``, or
    ``"disjoint"``: it is an error. By default points may coincide and others may not."""
    closed: str = "right"
    """``"left"`` for intervals that hold their start and not their end."""

    def __post_init__(self) -> None:
        time: object = self.time
        if time is not None and not isinstance(time, str):
            message = f"time is the name of a column, not {time!r}; intervals have two: valid=(start, end)"
            raise TypeError(message)
        given: object = self.valid
        if isinstance(given, list):
            object.__setattr__(self, "valid", tuple(given))
        if self.time is None and not isinstance(self.valid, tuple):
            message = "name the column of times: time=..., or valid=(start, end)"
            raise TypeError(message)
        if self.closed not in {"left", "right"}:
            message = f'closed is "right" or "left", not {self.closed!r}'
            raise ValueError(message)

    @property
    def times(self) -> str | tuple[str, str]:
        """The column of times, or those of starts and of ends."""
        if isinstance(self.valid, tuple):
            return self.valid
        return self.time or ""


def _events(given: Mapping[str, Any]) -> Events:
    """Give how rows become events, from the keywords of whoever describes rows."""
    known = [field.name for field in dataclasses.fields(Events)]
    odd = next((name for name in given if name not in known), None)
    if odd is not None:
        message = (
            f"there is no keyword `{odd}`{suggestion(odd, known)}; how rows become events is said by {', '.join(known)}"
        )
        raise TypeError(message)
    return Events(**given)


class Source(ABC):
    """Rows that a query can read."""

    events: Events
    """How the rows become events."""

    @abstractmethod
    def peek(self) -> Table:
        """Give the columns, as a table without rows."""

    @abstractmethod
    def read(self) -> Table:
        """Give all rows."""

    def input(self, value: str | None = None) -> _native.Input:
        """Give the rows to a run; for a scalar input those of column ``value``."""
        return self._input(self._rows(), value)

    def chunks(self, memory: str | int | None = None) -> _native.Input:
        """Give the rows to a run that reads them as it goes; what has to run before that may use ``memory``."""
        return self._input(self._arriving(memory), None)

    def columns_only(self) -> _native.Input:
        """Tell a live session how to read rows that are still to come."""
        return self._input(self._as_given()._handle, None)

    def _as_given(self) -> Table:
        """Give the columns that rows come with, as a table without rows."""
        return self.peek()

    def _rows(self) -> object:
        """Give the rows as native inputs take them."""
        return self.read()._handle

    def _arriving(self, memory: str | int | None) -> object:  # noqa: ARG002
        """Give the rows as native inputs take them, read as they are needed."""
        return self._rows()

    def _lookups(self) -> list[tuple[str, _native.Lookup]]:
        """Give columns with the tables that are looked up by them."""
        return []

    def _bound(self, data: object) -> Source:
        """Give other rows, or another source, in the place of this one."""
        return data if isinstance(data, Source) else Rows(Table(data), self.events)

    @property
    def is_stored(self) -> bool:
        """Whether rows are read when a query runs, and may be more than fit into memory."""
        return False

    def same(self, other: Source) -> bool:
        """Whether both are the same rows and become events in the same way."""
        return self == other

    def to_come(self) -> Source:
        """Give a source of the same columns whose rows are still to come."""
        return Deferred(self.peek(), self.events)

    @property
    def schema(self) -> dict[str, str]:
        """The Arrow type of each column."""
        return self.peek().schema

    @property
    def zone(self) -> str | None:
        """The time zone of the times."""
        times = self.events.times
        column = times if isinstance(times, str) else times[1]
        named = self.schema.get(column, "").partition('"')[2].partition('"')[0]
        return self.events.tz or named or None

    @property
    def is_increasing(self) -> bool:
        """Whether every row is known to be later than the one before it."""
        return False

    def extent(self) -> Extent:
        """Give the first and the last instant, if rows are in memory and in order."""
        return None

    def declare(self, name: str, value: str | None = None) -> Program:
        """Give the program whose result is this source, as an input called ``name``.

        Its values are records of all columns, or those of the column ``value``.

        >>> from tilt.sources import deferred
        >>> source = deferred({"ts": "timestamp(ms)", "price": "f64"}, time="ts")
        >>> print(source.declare("trades"))
        query source unit ms {
          input ~trades: {price: f64} point overlap bag
        <BLANKLINE>
          output ~trades
        }
        <BLANKLINE>
        >>> source.declare("price", "price").inputs
        {'price': 'f64'}

        Raises
        ------
        SchemaError
            If a column is missing or has a type that no stream can have.

        """
        events = self.events
        if events.tz is not None:
            # A zone that nobody knows is told here and not by the first run.
            self.columns_only()
        is_point = events.valid == "point"
        may_coincide = is_point and events.period is None and not self.is_increasing
        handle = _native.declare(
            name,
            self.peek()._handle,
            events.times,
            value=value,
            valid="interval" if isinstance(events.valid, tuple) else duration_text(events.valid),
            unit=events.unit,
            period=None if events.period is None else duration_text(events.period),
            key=events.key,
            overlap=events.overlap or ("bag" if may_coincide else "disjoint"),
        )
        return Program._of(handle)

    def _input(self, rows: object, value: str | None) -> _native.Input:
        events = self.events
        return _native.Input(
            rows,
            events.times,
            value=value,
            tz=events.tz,
            sort=events.sort,
            closed_left=events.closed == "left",
            lookups=self._lookups(),
        )


@dataclass(frozen=True)
class Rows(Source):
    """Rows in memory. See :func:`rows`."""

    table: Table
    events: Events

    def peek(self) -> Table:
        """Give the columns, as a table without rows."""
        return self.table[:0]  # type: ignore[no-any-return]

    def read(self) -> Table:
        """Give all rows."""
        return self.table

    def same(self, other: Source) -> bool:
        """Whether both are the same rows, not only equal ones, and become events in the same way."""
        return isinstance(other, Rows) and self.table is other.table and self.events == other.events

    def extent(self) -> Extent:
        """Give the first and the last instant: those of the first and the last row."""
        times = self.events.times
        start, end = (times, times) if isinstance(times, str) else times
        if len(self.table) == 0 or self.events.sort:
            return None
        first, last = self.table[:1][start][0], self.table[-1:][end][0]
        # Rows may be in order within their key only.
        return None if first is None or last is None or last < first else (first, last)

    @cached_property
    def is_increasing(self) -> bool:
        """Whether every row is later than the one before it: looked up in the rows."""
        times = self.events.times
        return isinstance(times, str) and _native.increasing(self.table._handle, times, Config.threads)


@dataclass(frozen=True)
class Files(Source):
    """Rows in files, which are read when a query runs. See :func:`files`."""

    paths: tuple[str, ...]
    events: Events
    format: str | None = None
    columns: tuple[str, ...] | None = None
    start: Instant | None = None
    end: Instant | None = None

    def scan(self) -> _native.Scan:
        """Open the files."""
        times = self.events.times
        time = times if isinstance(times, str) else times[1]
        extent = None
        if self.start is not None or self.end is not None:
            unit = self.events.unit or "ns"
            limits = [None if t is None else instant_ticks(t, unit) for t in (self.start, self.end)]
            extent = (limits[0], limits[1], unit)
        columns = self.columns
        if columns is not None:
            needed = (times,) if isinstance(times, str) else times
            columns = (*(name for name in needed if name not in columns), *columns)
        return _native.Scan(self.paths, format=self.format, columns=columns, time=time, range=extent)

    def peek(self) -> Table:
        """Give the columns, as a table without rows: only the first file is looked at."""
        return Table(self.scan().schema())

    def _rows(self) -> object:
        return self.scan()

    @property
    def is_stored(self) -> bool:
        """Whether rows are read when a query runs: they are."""
        return True

    def read(self) -> Table:
        """Read all rows."""
        return Table(self.scan().read())


@dataclass(frozen=True)
class Deferred(Source):
    """Columns whose rows come later. See :func:`deferred`."""

    columns: Table
    events: Events

    def peek(self) -> Table:
        """Give the columns, as a table without rows."""
        return self.columns

    def read(self) -> Table:
        """Refuse: there are no rows."""
        message = "this source has no rows yet; bind(name=rows) gives it some"
        raise TypeError(message)

    def to_come(self) -> Source:
        """Give the source itself."""
        return self

    def same(self, other: Source) -> bool:
        """Whether both are one: sources that look the same may get different rows."""
        return self is other or (
            isinstance(other, Deferred) and self.columns is other.columns and self.events == other.events
        )

    def bind(self, data: object) -> Rows:
        """Give a source of rows that become events in the same way.

        >>> from tilt.sources import deferred
        >>> prices = deferred({"t": "i64", "price": "f64"}, time="t")
        >>> len(prices.bind({"t": [1, 2], "price": [9.5, 9.75]}).table)
        2
        """
        return Rows(Table(data), self.events)


def rows(data: object, **events: Any) -> Rows:  # noqa: ANN401
    """Describe rows in memory: anything that :class:`tilt.Table` takes. The keywords are those of :class:`Events`.

    >>> from tilt.sources import rows
    >>> prices = rows({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]}, time="t")
    >>> prices.schema
    {'t': 'Int64', 'price': 'Float64'}
    >>> prices.declare("prices").inputs
    {'prices': '{price: f64}'}
    """
    return Rows(Table(data), _events(events))


def files(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002
    columns: Sequence[str] | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    **events: Any,  # noqa: ANN401
) -> Files:
    """Describe files: names and patterns such as ``"day/*.parquet"``. The other keywords are those of :class:`Events`.

    They are read when a query runs: the columns that it needs, of rows in ``(start, end]``, file after file in order of
    their first times.

    Parameters
    ----------
    paths
        Names and patterns.
    format
        ``parquet``, ``csv``, ``ipc``, ``ipc_stream`` or ``jsonl``; by default what the names end with.
    columns
        Only these columns; those of times are always read.
    start, end
        Only rows after ``start`` and up to ``end``. Integers count ``unit``, or nanoseconds without one.
    **events
        How rows become events.

    >>> import tempfile, tilt as tl
    >>> from tilt.sources import files
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = f"{directory}/prices.parquet"
    ...     tl.Table({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]}).write_parquet(path)
    ...     files(f"{directory}/*.parquet", time="t", unit="s").schema
    {'t': 'Int64', 'price': 'Float64'}

    """
    several = [paths] if isinstance(paths, (str, PathLike)) else paths
    folder = next((path for path in several if isdir(path)), None)  # noqa: PTH112 - pathlib is slow to import
    if folder is not None:
        ending = {"ipc": "arrow", "ipc_stream": "arrows"}.get(format or "parquet", format or "parquet")
        message = f"{fspath(folder)} is a folder; name the files in it: {fspath(folder).rstrip('/')}/*.{ending}"
        raise IsADirectoryError(message)
    return Files(
        tuple(fspath(path) for path in several),
        _events(events),
        format,
        None if columns is None else tuple(columns),
        start,
        end,
    )


def deferred(schema: Mapping[str, str] | object, **events: Any) -> Deferred:  # noqa: ANN401
    """Describe rows that come later, by the types of their columns: names of types as in the IR, or an Arrow schema.

    >>> from tilt.sources import deferred
    >>> deferred({"ts": "timestamp(us)", "user": "utf8"}, time="ts").schema
    {'ts': 'Timestamp(µs)', 'user': 'Utf8'}
    """
    if hasattr(schema, "__arrow_c_schema__"):
        columns = Table(_native.Table.empty(schema))
    else:
        named: Mapping[str, str] = schema  # type: ignore[assignment]
        columns = Table(_native.Table.typed(list(named.items())))
    return Deferred(columns, _events(events))


def as_source(data: object, like: Source | None = None) -> Source:
    """Give a source as it is, or rows as a source whose events are made as those of ``like``."""
    if like is not None:
        return like._bound(data)
    if isinstance(data, Source):
        return data
    message = f"{type(data).__name__} does not say which column has the times; use tilt.sources.rows(data, time=...)"
    raise TypeError(message)


def replace(source: Source, **events: Any) -> Source:  # noqa: ANN401
    """Give the same rows with some of the :class:`Events` changed."""
    changed = dataclasses.replace(source.events, **events)
    return dataclasses.replace(source, events=changed)  # type: ignore[type-var]
