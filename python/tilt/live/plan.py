"""What a session runs: a compiled query, and the columns of its streams."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.errors import QueryError
from tilt.keys import declaration
from tilt.live.options import each, known_stream, listed
from tilt.queries import QueryFunction
from tilt.run import FUNCTIONS, Query
from tilt.sources import Deferred, Events, Source, deferred, replace
from tilt.streams import Stream
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilt.live.options import Disorder
    from tilt.live.stages import Stages
    from tilt.run import Layout

    Given = Mapping[str, Any]
    """Keywords about how rows become events."""


@dataclass(frozen=True)
class Plan:
    """A query and its streams."""

    query: Query
    sources: Mapping[str, Source]
    layout: Layout | None = None
    column: str | None = None
    """What the last column of results is called, if the program cannot call it so."""

    @property
    def unit(self) -> str:
        """What a tick is."""
        return self.query._handle.program.unit

    def begin(self, disorder: Mapping[str, Disorder], **options: Any) -> _native.Session:  # noqa: ANN401
        """Begin a session."""
        functions = FUNCTIONS | dict(options.pop("functions", None) or {})
        if options.get("layout") is None:
            options["layout"] = self.layout
        return _native.Session(
            self.query._handle,
            {name: source.columns_only() for name, source in self.sources.items()},
            {name: given.ticks(self.unit) for name, given in disorder.items()},
            column=self.column,
            functions=functions,
            **options,
        )


@singledispatch
def plan(query: object, columns: Mapping[str, Table], events: Given) -> Plan | Stages:
    """Plan a session of a query; ``columns`` are those of streams that the query does not know itself."""
    del columns, events
    message = f"a session runs a Stream, a Query or a function made by tl.query, not {type(query).__name__}"
    raise TypeError(message)


@plan.register(Stream)
def _(query: Stream, columns: Mapping[str, Table], events: Given) -> Plan | Stages:
    from tilt.live.stages import is_staged, stages  # noqa: PLC0415

    del columns
    if any(map(is_staged, query._sources.values())):
        return stages(query, events)
    return single(to_come(query, events, {}))


def to_come(query: Stream, events: Given, results: Mapping[str, str | None]) -> Stream:
    """Give a query of rows that are still to come.

    ``results`` are the inputs that other queries give, each with what it means that several events are active at once.
    """
    handle, sources = query._handle, dict(query._sources)
    for name, source in sources.items():
        if name in results:
            sources[name] = replace(source.to_come(), overlap=results[name])
        else:
            _same_events(name, source, events)
            sources[name] = source.to_come()
        handle = _native.redeclare(handle, name, declaration(name, sources[name]))
    return Stream._of(handle, sources, query._columns, query._name)


def single(query: Stream) -> Plan:
    """Plan a session of a query that is one program."""
    compiled, title = query._query(), query._name
    return Plan(compiled, query._sources, query._layout, None if title == compiled.program.output[0] else title)


@plan.register(Query)
def _(query: Query, columns: Mapping[str, Table], events: Given) -> Plan:
    del columns
    names = list(query.program.inputs)
    by_stream = {name: events_of(name, names, events) for name in names}
    return Plan(
        query,
        {name: Deferred(Table(query._handle.columns(name, own.times)), own) for name, own in by_stream.items()},
    )


@plan.register(QueryFunction)
def _(query: QueryFunction[Any], columns: Mapping[str, Table], events: Given) -> Plan | Stages:
    names = parameters(query)
    streams = {name: Stream._input(name, Deferred(columns[name], events_of(name, names, events))) for name in names}
    return plan(query(**streams), {}, {})


def events_of(name: str, names: list[str], events: Given) -> Events:
    """Give what is said about how the rows of one stream become events."""
    found = {key: each(key, value, names, None)[name] for key, value in events.items()}
    found = {key: value for key, value in found.items() if value is not None}
    time = found.get("time")
    if isinstance(time, (tuple, list)):
        found["valid"] = found.pop("time")
    if isinstance(found.get("valid"), list):
        found["valid"] = tuple(found["valid"])
    if "time" not in found and not isinstance(found.get("valid"), tuple):
        message = f'name the column that has the times of stream `{name}`: session(time="ts")'
        raise TypeError(message)
    return Events(**found)


def _same_events(name: str, source: Source, events: Given) -> None:
    """Refuse what contradicts the source, which says itself how its rows become events."""
    for key, value in events.items():
        given = each(key, value, [name], None)[name] if not isinstance(value, dict) else value.get(name)
        own = source.events.times if key == "time" else getattr(source.events, key)
        if given is not None and given != own:
            message = (
                f"stream `{name}` has {key}={own!r}, not {given!r}; "
                f"say how rows become events where the stream is made: tl.source({name!r}, ..., {key}={given!r})"
            )
            raise QueryError(message)


def parameters(query: QueryFunction[Any]) -> list[str]:
    """Give the names of the streams that a query is a function of.

    >>> import tilt as tl
    >>> @tl.query
    ... def spread(bids: tl.Stream, asks: tl.Stream) -> tl.Stream:
    ...     return asks["px"] - bids["px"]
    >>> parameters(spread)
    ['bids', 'asks']
    """
    found = inspect.signature(query).parameters.values()
    return [parameter.name for parameter in found if parameter.default is parameter.empty]


def schemas(query: QueryFunction[Any], schema: object) -> dict[str, Table]:
    """Give the columns of the streams that are known before rows come."""
    names = parameters(query)
    if schema is None:
        return {}
    if isinstance(schema, dict) and schema and all(not isinstance(value, str) for value in schema.values()):
        by_stream = {known_stream(name, names, "schema="): value for name, value in schema.items()}
    elif len(names) == 1:
        by_stream = {names[0]: schema}
    else:
        message = f"say which stream the columns are of: schema={{{names[0]!r}: ...}}; {listed(names)}"
        raise TypeError(message)
    return {name: deferred(value, time="").columns for name, value in by_stream.items()}
