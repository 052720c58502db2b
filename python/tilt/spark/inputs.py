"""Data frames as inputs of queries."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from tilt import _native
from tilt.errors import QueryError, SchemaError
from tilt.keys import Looked, Staged
from tilt.sources import Deferred, Events
from tilt.spark.parquet import ParquetSource
from tilt.spark.sources import FrameSource
from tilt.streams import Stream
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tilt.sources import Source
    from tilt.spark.plan import Input

_SIDE_KEY = "tilt side key"


Stage: TypeAlias = "Callable[[Stream, Mapping[str, Input]], DataFrame]"
"""What runs a query whose result is an input of another."""


def bound(query: object, data: object, events: Mapping[str, Any], stage: Stage) -> tuple[Stream, dict[str, Input]]:
    """Give the query on sources that have the columns of data frames, and these, by the names of its inputs.

    Raises
    ------
    QueryError
        If inputs have no data, or data are for no input.
    SchemaError
        If a data frame does not have what the query reads.

    """
    if isinstance(query, Stream):
        return _of_stream(query, data, events)
    stream, known = called(query, data, events)
    return stream, {name: input_of(name, source, known, stage) for name, source in stream._sources.items()}


def called(query: object, data: object, events: Mapping[str, Any]) -> tuple[Stream, list[tuple[Deferred, Input]]]:
    """Give what a function of streams makes of those that have the columns of data frames, and both of these."""
    if not callable(query):
        message = f"a query is a Stream or a function of streams, not {type(query).__name__}"
        raise TypeError(message)
    frames: dict[str | None, object] = dict(data) if isinstance(data, dict) else {None: data}
    if not frames:
        message = "the query has no data; give a data frame, or a dictionary that has one for each stream"
        raise QueryError(message)
    known = []
    streams: dict[str | None, Stream] = {}
    for name, frame in frames.items():
        given = _source(frame, events, None)
        columns = _deferred(given)
        known.append((columns, given))
        streams[name] = _stream(name or "stream", columns, given)
    named = {} if None in streams else {str(name): stream for name, stream in streams.items()}
    _refuse_others(query, named)
    stream = query(**named) if named else query(*streams.values())
    if not isinstance(stream, Stream):
        message = f"a query gives a Stream, not {type(stream).__name__}"
        raise TypeError(message)
    return stream, known


def _refuse_others(query: Callable[..., object], given: Mapping[str, object]) -> None:
    """Refuse data by names that are not those of the query's streams, where it says what they are."""
    try:
        wanted = inspect.signature(query)
    except (TypeError, ValueError):
        return
    try:
        wanted.bind(**given) if given else wanted.bind(None)
    except TypeError:
        names = ", ".join(f"`{name}`" for name in wanted.parameters)
        found = f"data are for {', '.join(f'`{name}`' for name in given)}" if given else "there is one data frame"
        message = f"the query is of {names}, but {found}; give a dictionary that has a data frame for each of them"
        raise QueryError(message) from None


def _of_stream(stream: Stream, data: object, events: Mapping[str, Any]) -> tuple[Stream, dict[str, Input]]:
    names = list(stream._sources)
    if not isinstance(data, dict):
        if len(names) > 1:
            message = f"the query has inputs {', '.join(names)}; give a data frame for each: {{name: frame, ...}}"
            raise QueryError(message)
        data = {names[0]: data}
    missing = [name for name in names if name not in data]
    unknown = [name for name in data if name not in names]
    if missing or unknown:
        what = f"input `{missing[0]}` has no data frame" if missing else f"there is no input `{unknown[0]}`"
        message = f"{what}; the inputs are {', '.join(names)}"
        raise QueryError(message)
    for name, source in stream._sources.items():
        if isinstance(source, (Looked, Staged)):
            message = (
                f"input `{name}` is computed before the query runs; write the query as a function of streams "
                "(tl.query), which is then built on the data frame itself"
            )
            raise QueryError(message)
    sources = {name: _source(data[name], events, stream._sources[name].events) for name in names}
    return stream.bind(**{name: _deferred(frame) for name, frame in sources.items()}), sources


def _source(data: object, events: Mapping[str, Any], like: Events | None) -> Input:
    if isinstance(data, (FrameSource, ParquetSource)):
        if like is None and not events:
            return data
        # What is said for all inputs holds unless an input says it itself.
        return replace(data, events=replace(data.events, **{**events, **_told(data.events)}))
    if not hasattr(data, "sparkSession"):
        found = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}".removeprefix("builtins.")
        message = (
            f"a query runs on data frames of Spark, not on {found}; make it one: spark.createDataFrame(...), or "
            "spark.read.parquet(...) for files"
        )
        raise TypeError(message)
    given = Events(**events) if like is None else replace(like, **events)
    return FrameSource.of(data, given)  # type: ignore[arg-type]


def _told(events: Events) -> dict[str, Any]:
    """Give what differs from the defaults."""
    usual = Events(time="-")
    names = [item.name for item in fields(events)]
    return {name: getattr(events, name) for name in names if getattr(events, name) != getattr(usual, name)}


def _deferred(frame: Input) -> Deferred:
    schema = frame.schema()
    times = frame.events.times
    for column in (times,) if isinstance(times, str) else times:
        if column not in schema.names:
            message = f"there is no column `{column}` for the times; the columns are {', '.join(schema.names)}"
            raise SchemaError(message, column=column)
        dtype = schema.field(column).type
        if isinstance(frame, FrameSource) and (pa.types.is_string(dtype) or pa.types.is_floating(dtype)):
            cast = "F.to_timestamp" if pa.types.is_string(dtype) else "F.timestamp_seconds"
            kind = "text" if pa.types.is_string(dtype) else "floats"
            message = (
                f"time column `{column}` is {kind}; make it timestamps: .withColumn({column!r}, {cast}({column!r}))"
            )
            raise SchemaError(message, column=column)
        if frame.events.tz is not None and pa.types.is_timestamp(dtype) and dtype.tz is None:
            message = (
                f"time column `{column}` has wall times, which are put in order only as instants; make them such: "
                f"spark.sql.session.timeZone = {frame.events.tz!r}, then .withColumn({column!r}, "
                f'F.col({column!r}).cast("timestamp"))'
            )
            raise SchemaError(message, column=column)
    return Deferred(Table(_native.Table.empty(schema)), frame.events)


def _stream(name: str, columns: Deferred, given: Input) -> Stream:
    """Give a stream of rows to come."""
    try:
        return Stream._input(name, columns)
    except SchemaError as error:
        times = given.events.times
        needed = [*([times] if isinstance(times, str) else times), given.events.key]
        if error.column in needed or error.column not in given.schema().names or not isinstance(given, ParquetSource):
            raise
        others = [column for column in given.schema().names if column != error.column]
        message = f"{error}: ts.scan_parquet(..., columns={others})"
        raise SchemaError(message, column=error.column) from None


def input_of(name: str, source: Source, known: Sequence[tuple[Deferred, Input]], stage: Stage) -> Input:
    """Give what a source stands for as a data frame."""
    if isinstance(source, Deferred):
        for columns, given in known:
            if source.columns is columns.columns:
                return replace(given, events=source.events)  # type: ignore[type-var]
    if isinstance(source, Looked):
        inner = input_of(name, source.source, known, stage)
        if not isinstance(inner, FrameSource):
            message = f"input `{name}` looks up a table, which Parquet files are not read for; use spark.read.parquet"
            raise QueryError(message)
        return replace(inner, frame=_looked(inner.frame, source), events=source.events)
    if isinstance(source, Staged):
        inputs = {inner: input_of(inner, below, known, stage) for inner, below in source.stream._sources.items()}
        result = stage(source.stream, inputs)
        names = [*source._times, *result.columns[len(source._times) :]]
        # A result is ordered by time and key; partitions of it are not.
        ties = tuple(source._keys)[:1]
        return FrameSource(result.toDF(*names), source.events, ties)
    message = f"input `{name}` has rows in this process; make them a data frame and give it to the query as an input"
    raise QueryError(message)


def records(inputs: Mapping[str, Input]) -> dict[str, StructType]:
    """Give the columns of inputs that were structs."""
    known = (source for source in inputs.values() if isinstance(source, (FrameSource, ParquetSource)))
    return {name: dtype for source in known for name, dtype in source.records}


def _looked(frame: DataFrame, looked: Looked) -> DataFrame:
    """Add the columns of a table, which every task gets."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    side = frame.sparkSession.createDataFrame(looked.table.rows.to_arrow())
    beside = side.withColumnRenamed(looked.table.key, _SIDE_KEY)
    return frame.join(F.broadcast(beside), frame[looked.on] == beside[_SIDE_KEY], "left").drop(_SIDE_KEY)
