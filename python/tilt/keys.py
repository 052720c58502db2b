"""Sources of a query: named apart, split by keys, joined with tables, made of earlier results."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.errors import SchemaError, WholeError
from tilt.sources import Events, Source, replace
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from tilt.streams import Stream


def declaration(name: str, source: Source) -> _native.Stream:
    """Give a source as an input of a query.

    >>> from tilt.keys import declaration
    >>> from tilt.sources import rows
    >>> declaration("x", rows({"t": [1], "x": [1.0]}, time="t")).dtype
    '{x: f64}'
    """
    return _native.Stream.from_text(str(source.declare(name)))


def joined(streams: Sequence[Stream]) -> tuple[list[_native.Stream], dict[str, Source]]:
    """Give streams that can be part of one query: different sources have different names, the same source has one.

    >>> import tilt as tl
    >>> from tilt.keys import joined
    >>> a = tl.stream({"t": [1], "x": [1.0]}, time="t")
    >>> b = tl.stream({"t": [2], "x": [2.0]}, time="t")
    >>> list(joined([a, b, a])[1])
    ['stream', 'stream_2']
    """
    sources = dict(streams[0]._sources)
    handles = []
    for stream in streams:
        names = {}
        for name, source in stream._sources.items():
            known = next((other for other, given in sources.items() if given.same(source)), None)
            new = known or _unused(name, sources)
            sources[new] = source
            if new != name:
                names[name] = new
        handles.append(_renamed(stream._handle, names, sources))
    return handles, sources


def _unused(name: str, sources: Mapping[str, Source]) -> str:
    if name not in sources:
        return name
    return next(new for n in range(2, len(sources) + 3) if (new := f"{name}_{n}") not in sources)


def _renamed(handle: _native.Stream, names: Mapping[str, str], sources: Mapping[str, Source]) -> _native.Stream:
    # By way of names that nothing has, in case two inputs change places.
    for old, new in names.items():
        handle = _native.redeclare(handle, old, declaration(f"{new}\t", sources[new]))
    for new in names.values():
        handle = _native.redeclare(handle, f"{new}\t", declaration(new, sources[new]))
    return handle


class Keyed:
    """What splits streams by keys, and joins them with tables."""

    __slots__ = ()
    _handle: _native.Stream
    _sources: Mapping[str, Source]
    _columns: Mapping[str, str] | None
    _name: str | None

    def key_by(self: Stream, column: str) -> Stream:  # type: ignore[misc]
        """Give a stream for each value of a column; from here on everything is done within each of them.

        Events that were computed from more than their own row are computed first, without the key, and are the source
        of what follows.

        >>> import tilt as tl
        >>> trades = tl.stream({"t": [1, 2, 3], "sym": ["A", "B", "A"], "px": [10.0, 70.0, 12.0]}, time="t")
        >>> trades.key_by("sym")["px"].diff().collect().to_dict()
        {'t': [3], 'sym': ['A'], 'px': [2.0]}
        """
        given: object = column
        if not isinstance(given, str):
            message = (
                f"key_by() takes the name of one column, not {given!r}; for several, make one of them when rows are "
                "read, such as a column of texts or of numbers"
            )
            raise TypeError(message)
        if column not in self.schema:
            self[column]  # Raises, with the columns that there are.
        if self._columns is not None and column in self._columns:
            return self._resourced(key=self._columns[column])
        return staged(self, key=column)

    def unkey(self: Stream) -> Stream:  # type: ignore[misc]
        """Give one stream of all keys.

        >>> import tilt as tl
        >>> rows = {"t": [1, 1, 2], "site": ["a", "b", "a"], "kw": [1.0, 3.0, 2.0]}
        >>> meters = tl.stream(rows, time="t").key_by("site")
        >>> (meters["kw"] / meters.unkey()["kw"].window(1).sum()).collect().to_dict()
        {'t': [1, 1, 2], 'site': ['a', 'b', 'a'], 'kw': [0.25, 0.75, 1.0]}
        """
        if all(source.events.key is None for source in self._sources.values()):
            return self
        return staged(self) if self._columns is None else self._resourced(key=None)

    def lookup(self: Stream, table: SideTable, *, on: str) -> Stream:  # type: ignore[misc]
        """Add the columns of a table that does not change with time: those of the row whose key is in column ``on``.

        Columns of events without such a row are missing.

        >>> import tilt as tl
        >>> views = tl.stream({"t": [1, 2, 3], "ad": [7, 8, 9]}, time="t")
        >>> ads = tl.table({"ad_id": [7, 8], "campaign": ["x", "y"]}, key="ad_id")
        >>> views.lookup(ads, on="ad").collect()["campaign"]
        ['x', 'y', None]
        """
        given: object = table
        if not isinstance(given, SideTable):
            message = (
                f"lookup() takes a table with a key, not {type(given).__name__}; tl.table(rows, key=...) makes one"
            )
            raise TypeError(message)
        if on not in self.schema:
            self[on]  # Raises, with the columns that there are.
        clash = [name for name in table.added if name in self.schema]
        if clash:
            message = f"column `{clash[0]}` is in the stream and in the table; rename one of them"
            raise SchemaError(message, column=clash[0])
        stream = self
        if self._columns is None or on not in self._columns:
            stream = staged(self)
        (name, source), *_ = stream._sources.items()
        columns = dict(stream._columns or {})
        looked = Looked(source, table, columns[on], source.events)
        handle = _native.redeclare(stream._handle, name, declaration(name, looked))
        missing = [(added, added) for added in table.added if added not in dict(handle.schema)]
        own = type(self)._of(handle, {name: looked}, columns)
        whole = type(self)._input(name, looked)
        return own.with_columns(**{added: whole[added] for added, _ in missing})._with_columns_of(looked)

    def _with_columns_of(self: Stream, looked: Looked) -> Stream:  # type: ignore[misc]
        """Know the columns of a table as columns of the source."""
        columns = dict(self._columns or {}) | {name: name for name in looked.table.added}
        return type(self)._of(self._handle, self._sources, columns)

    def _resourced(self: Stream, **events: Any) -> Stream:  # type: ignore[misc]  # noqa: ANN401
        """Give the same query on the same rows, which become events in another way."""
        (name, source), *_ = self._sources.items()
        changed = replace(source, **events)
        handle = _native.redeclare(self._handle, name, declaration(name, changed))
        return type(self)._of(handle, {name: changed}, self._columns, self._name)


@dataclass(frozen=True)
class SideTable:
    """Rows that do not change with time, each with a key. See :func:`tilt.table`."""

    rows: Table
    key: str

    def __post_init__(self) -> None:
        # Refuses keys that two rows have.
        self.lookup  # noqa: B018

    @cached_property
    def lookup(self) -> _native.Lookup:
        """The rows by their keys."""
        return _native.Lookup(self.rows._handle, self.key)

    @property
    def added(self) -> list[str]:
        """The columns besides the key."""
        return [name for name in self.rows.columns if name != self.key]

    def __reduce__(self) -> tuple[type[SideTable], tuple[Table, str]]:
        """Pickle the rows: where keys are is found again."""
        return SideTable, (self.rows, self.key)


@dataclass(frozen=True)
class Looked(Source):
    """Rows with the columns of a table beside them."""

    source: Source
    table: SideTable
    on: str
    events: Events

    def peek(self) -> Table:
        """Give the columns, as a table without rows."""
        return Table(self.table.lookup.beside(self.source.peek()._handle, self.on))

    def read(self) -> Table:
        """Give all rows."""
        return Table(self.table.lookup.beside(self.source.read()._handle, self.on))

    def _as_given(self) -> Table:
        return self.source._as_given()

    def _rows(self) -> object:
        return self.source._rows()

    def _arriving(self, memory: str | int | None) -> object:
        return self.source._arriving(memory)

    def _lookups(self) -> list[tuple[str, _native.Lookup]]:
        return [*self.source._lookups(), (self.on, self.table.lookup)]

    def _bound(self, data: object) -> Source:
        if isinstance(data, Looked):
            return data
        source = self.source._bound(data)
        return Looked(source, self.table, self.on, source.events if isinstance(data, Source) else self.events)

    def to_come(self) -> Source:
        """Give rows that are still to come, which the table is beside."""
        return dataclasses.replace(self, source=self.source.to_come())

    @property
    def is_stored(self) -> bool:
        """Whether rows are read when a query runs."""
        return self.source.is_stored

    @property
    def is_increasing(self) -> bool:
        """Whether every row is known to be later than the one before it."""
        return self.source.is_increasing

    def same(self, other: Source) -> bool:
        """Whether both are the same rows and become events in the same way."""
        return (
            isinstance(other, Looked)
            and self.source.same(other.source)
            and self.table.rows is other.table.rows
            and (self.on, self.events) == (other.on, other.events)
        )


def staged(stream: Stream, key: str | None = None) -> Stream:
    """Give a stream whose source is the result of another, which is computed when the query runs."""
    span, is_bag = _native.events(stream._handle)
    unit = stream._handle.unit
    suffix = "" if unit == "tick" else unit
    spans: dict[str, str | tuple[str, str]] = {"point": "point", "interval": ("start", "end")}
    events = Events(
        time="time",
        valid=spans.get(span, f"{span.removeprefix('fixed ')}{suffix}"),
        unit=suffix or None,
        key=key,
        overlap="bag" if is_bag or any(source.events.key for source in stream._sources.values()) else None,
    )
    return type(stream)._input("stage", Staged(stream, events))


@dataclass(frozen=True, eq=False)
class Staged(Source):
    """The result of a query as the source of another."""

    stream: Stream
    events: Events

    @property
    def _keys(self) -> dict[str, str]:
        """The columns of keys, which a result has beside its values."""
        found = {}
        for name, source in self.stream._sources.items():
            key = source.events.key
            if key is not None and key not in self.stream.schema:
                found[key] = dict(declaration(name, source).schema)[key]
        return found

    @property
    def _times(self) -> list[str]:
        return [*self.events.times] if isinstance(self.events.times, tuple) else [self.events.times]

    def peek(self) -> Table:
        """Give the columns, as a table without rows."""
        unit = self.stream._handle.unit
        time = "i64" if unit == "tick" else f"timestamp({unit})"
        columns = {**dict.fromkeys(self._times, time), **self._keys, **self.stream.schema}
        return Table(_native.Table.typed(list(columns.items())))

    def read(self) -> Table:
        """Run the query."""
        result = self.stream.collect(layout=self._layout)
        names = [*self._times, *result.columns[len(self._times) :]]
        return Table(result._handle.renamed(names))

    @property
    def _layout(self) -> Literal["interval", "point"]:
        return "interval" if len(self._times) > 1 else "point"

    def _arriving(self, memory: str | int | None) -> object:
        try:
            return self.stream._arriving(memory, self._layout, self.peek().columns)
        except WholeError:
            return self._rows()

    @property
    def is_stored(self) -> bool:
        """Whether the query reads rows that may be more than fit into memory."""
        return any(source.is_stored for source in self.stream._sources.values())

    def same(self, other: Source) -> bool:
        """Whether both are one."""
        return self is other
