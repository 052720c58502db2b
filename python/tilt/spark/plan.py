"""What a query needs to know to be run on data frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tilt import _native
from tilt.durations import duration_text
from tilt.errors import QueryError
from tilt.program import Program
from tilt.run import FUNCTIONS
from tilt.sources import Deferred, Rows
from tilt.spark.cuts import Halo, Reach, bounded
from tilt.spark.schemas import widened
from tilt.spark.task import AT_ONCE, QueryTask, TaskInput
from tilt.streams import Stream
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from tilt.run import Layout
    from tilt.sources import Events


_TOKEN = re.compile(r"`((?:[^`]|``)+)`: |(\w+): |[{(\[]|[})\]]")
_SPANNED = re.compile(r"\b(every|calendar|hold|until_next)\b")
_EVERY = re.compile(r"\[t every (\w+)")
_CALENDAR = re.compile(r"\bcalendar (\d+)([a-z]+)")
_DAYS = {"h": 1, "d": 2, "w": 8, "mo": 32, "q": 94, "y": 367}
_EXTERN = re.compile(r"^\s*extern fn (`(?:[^`]|``)+`|\w+)", re.MULTILINE)
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""How many nanoseconds a tick of each unit is."""


class Input(Protocol):
    """Rows that Spark has or reads."""

    @property
    def events(self) -> Events:
        """How they become events."""

    @property
    def ties(self) -> tuple[str, ...]:
        """By which columns rows with one time are ordered first."""

    @property
    def session(self) -> SparkSession:
        """Where they are read."""

    def schema(self) -> pa.Schema:
        """Give the columns."""


@dataclass(frozen=True)
class Bound:
    """A query on inputs whose columns are known."""

    stream: Stream
    inputs: Mapping[str, Input]
    given: Layout | None = None
    """The layout that was asked for."""
    memory: int = AT_ONCE
    """How many bytes of rows the query is run on at once, about."""

    @cached_property
    def layout(self) -> Layout:
        """Which columns of time the result has. It must not depend on the rows, as every task has to give the same."""
        if self.given is not None:
            return self.given
        is_taken = {"start", "end"} & dict(self.stream._handle.schema).keys()
        return "point" if is_taken or _native.events(self.stream._handle)[0] != "interval" else "interval"

    @cached_property
    def program(self) -> Program:
        """The program after all passes, whose inputs have the columns that are read and no other."""
        return Program.parse(self.stream._query().explain("optimized"))

    @property
    def texts(self) -> str:
        """What is run, as text."""
        return str(self.program)

    @property
    def stages(self) -> bytes | None:
        """The query as sessions of streams take it, if it is computed in stages."""
        return None

    @cached_property
    def key(self) -> bool:
        """Whether the query runs for each value of a key."""
        return any(frame.events.key is not None for frame in self.inputs.values())

    @cached_property
    def needs_span(self) -> bool:
        """Whether results depend on when the run begins and ends: cells of grids, and events that last until then."""
        return _SPANNED.search(str(self.program)) is not None

    @cached_property
    def fills(self) -> bool:
        """Whether a key may have events where it has no rows nearby: cells of a grid that are filled.

        Away from its rows a key reads nothing, so one row tells: has it events where that is out of reach?
        """
        cells = self._cells()
        if not cells:
            return False
        lineage = self.program.lineage().values()
        reaches = [Reach.parse(text, self.program.unit) for both in lineage for text in both]
        if None in reaches or any(self.length(name) is None for name in self.inputs):
            return True
        far = 2 * sum(reach.ticks for reach in reaches if reach is not None) + 2 * max(cells)
        sources = {}
        for name, source in self.inputs.items():
            times = source.events.times
            start, end = (times, times) if isinstance(times, str) else times
            moments = {start: -1, end: 0}
            columns = [_column(moments.get(field.name), field.type) for field in source.schema()]
            row = pa.table(columns, source.schema())
            sources[name] = Rows(Table(row), source.events)
        span = (-far - max(cells), far + max(cells))
        parts = [(span[0], -far), (far, span[1])]
        query = self.stream._query()
        # Of a row or two nobody needs machine code.
        how: dict[str, Any] = {"span": span, "threads": 1, "backend": "interpreter", "progress": False}
        return any(len(query.run(sources, part=part, **how)) > 0 for part in parts)

    def _cells(self) -> list[int]:
        """Give about how many ticks the cells of the query's grids are long, not too few."""
        unit = self.program.unit
        every = [found[1] for found in _EVERY.finditer(str(self.program))]
        found = [int(text) if unit == "tick" else _native.duration(text, unit) for text in every]
        days = [int(found[1]) * _DAYS[found[2]] for found in _CALENDAR.finditer(str(self.program))]
        return found + [_native.duration(f"{count}d", unit) for count in days]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result: those of a run without rows."""
        sources = {}
        for name, source in self.stream._sources.items():
            columns = source.columns if isinstance(source, Deferred) else source.peek()
            sources[name] = Rows(columns, source.events)
        stream = Stream._of(self.stream._handle, sources, self.stream._columns, self.stream._name)
        schema = stream.collect(threads=1, progress=False, layout=self.layout).to_arrow().schema
        return widened(pa.schema([self._zoned(field) for field in schema]))

    def _zoned(self, field: pa.Field) -> pa.Field:
        """Give instants the zone that the column of this name has in an input, or else the times of the first input.

        Values of streams are instants without a zone.
        """
        if not pa.types.is_timestamp(field.type) or field.type.tz is not None:
            return field
        for source in self.inputs.values():
            if field.name in source.schema().names:
                dtype = source.schema().field(field.name).type
                return field.with_type(pa.timestamp(field.type.unit, getattr(dtype, "tz", None)))
        dtype = self.time_type(next(iter(self.inputs)))
        return field.with_type(pa.timestamp(field.type.unit, getattr(dtype, "tz", None)))

    def columns(self, name: str) -> list[str]:
        """Give the columns of an input that the query reads, those of times first."""
        events = self.inputs[name].events
        times = [events.times] if isinstance(events.times, str) else [*events.times]
        names = declared(self.program, name)
        if names is None:
            # Nothing reads it, yet its rows may decide which keys there are.
            return list(dict.fromkeys([*times, *([] if events.key is None else [events.key])]))
        return list(dict.fromkeys([*times, *names, *self.inputs[name].ties]))

    def scale(self, name: str) -> int:
        """Give how many ticks of the program one step of an input's column of times is."""
        if self.program.unit == "tick":
            return 1
        events, dtype = self.inputs[name].events, self.time_type(name)
        tick = NANOSECONDS[self.program.unit]
        if pa.types.is_timestamp(dtype):
            return NANOSECONDS[dtype.unit] // tick
        if pa.types.is_date(dtype):
            return 86_400 * NANOSECONDS["s"] // tick
        return NANOSECONDS[events.unit or self.program.unit] // tick

    def time_type(self, name: str) -> pa.DataType:
        """Give the type of an input's column of times, that of ends if there are two."""
        source = self.inputs[name]
        times = source.events.times
        return source.schema().field(times if isinstance(times, str) else times[1]).type

    def length(self, name: str) -> int | None:
        """Give how long events of an input are: ``None`` until the next, 0 if each row says it."""
        valid = self.inputs[name].events.valid
        if valid == "until_next":
            return None
        if isinstance(valid, tuple):
            return 0
        if valid == "point":
            return 1
        text = duration_text(valid)
        return int(text) if text.isdigit() else _native.duration(text, self.program.unit)

    def halo(self, name: str, warmup: int | None) -> Halo:
        """Give what the result depends on of an input."""
        return self.halo_of(name, self.program.lineage(), warmup)

    def halo_of(self, name: str, lineage: Mapping[str, tuple[str, str]], warmup: int | None) -> Halo:
        """Give the halo of an input for a lineage, that of the query or of a part of it."""
        reach = lineage.get(name, ("0", "0"))
        unit = "tick" if name not in lineage else self.program.unit
        return bounded(reach, unit, length=self.length(name), warmup=warmup, name=name, output=self.program.output[0])

    def reach(self, name: str) -> str:
        """Say how far the result looks at an input."""
        back, ahead = self.program.lineage().get(name, ("0", "0"))
        return f"lookback {back}, lookahead {ahead}"

    def functions(self) -> dict[str, object]:
        """Give the functions of Python that the query calls; native ones are known by name in executors."""
        names = [found[1] for found in _EXTERN.finditer(self.texts)]
        return {name: FUNCTIONS[name] for name in names if not isinstance(FUNCTIONS.get(name), _native.Pointer)}

    def task(self, imports: tuple[str, ...]) -> QueryTask:
        """Give what executors run."""
        unnamed = [
            found[1] for found in _EXTERN.finditer(self.texts) if isinstance(FUNCTIONS.get(found[1]), _native.Pointer)
        ]
        if unnamed and not imports:
            message = (
                f"the query calls the native function @{unnamed[0]}, whose address is that of this process; "
                "name the modules that register it by tl.udf(..., name=...) in executors: imports=[...]"
            )
            raise QueryError(message)
        inputs = tuple(
            TaskInput(
                name,
                source.events,
                pa.schema([source.schema().field(column) for column in self.columns(name)]),
                source.ties,
            )
            for name, source in self.inputs.items()
        )
        text = str(self.stream._query().program)
        return QueryTask(text, inputs, self.schema, self.layout, imports, memory=self.memory)


def _column(number: int | None, dtype: pa.DataType) -> pa.Array:
    """Give a number as a time, or a missing value."""
    width = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
    return pa.nulls(1, dtype) if number is None else pa.array([number], width).cast(dtype)


def declared(program: Program, name: str) -> list[str] | None:
    """Give the columns that a program declares of an input, if it has that."""
    pattern = rf"input ~(?:{re.escape(name)}|`{re.escape(name.replace('`', '``'))}`): {{(.*)}} "
    found = re.search(pattern, str(program))
    return None if found is None else _names(found[1])


def _names(fields: str) -> list[str]:
    """Give the names of a record's fields, not those of records inside.

    >>> from tilt.spark.plan import _names
    >>> _names("price: f64, `a b`: {x: i64, y: [f64]}, at: timestamp(us)")
    ['price', 'a b', 'at']
    """
    names = []
    depth = 0
    for token in _TOKEN.finditer(fields):
        if token[0] in "{([":
            depth += 1
        elif token[0] in "})]":
            depth -= 1
        elif depth == 0:
            names.append(token[2] or token[1].replace("``", "`"))
    return names
