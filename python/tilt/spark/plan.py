"""What a query needs to know to be run on data frames."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from tilt import _native
from tilt.durations import duration_text
from tilt.errors import QueryError
from tilt.program import Program
from tilt.run import FUNCTIONS
from tilt.sources import Deferred, Rows
from tilt.spark.cuts import Halo, bounded
from tilt.spark.task import QueryTask, TaskInput
from tilt.spark.schemas import widened
from tilt.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilt.sources import Events
    from tilt.spark.inputs import FrameSource

_FIELD = re.compile(r"(`(?:[^`]|``)+`|\w+): [^,}]+")
_SPANNED = re.compile(r"\b(every|calendar|hold|until_next)\b")
_EXTERN = re.compile(r"^\s*extern fn (`(?:[^`]|``)+`|\w+)", re.MULTILINE)
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Bound:
    """A query on inputs whose columns are known."""

    stream: Stream
    inputs: Mapping[str, FrameSource]

    @cached_property
    def program(self) -> Program:
        """The program after all passes, whose inputs have the columns that are read and no other."""
        return Program.parse(self.stream._query().explain("optimized"))

    @cached_property
    def key(self) -> bool:
        """Whether the query runs for each value of a key."""
        return any(frame.events.key is not None for frame in self.inputs.values())

    @cached_property
    def needs_span(self) -> bool:
        """Whether results depend on when the run begins and ends: cells of grids, and events that last until then."""
        return _SPANNED.search(str(self.program)) is not None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result: those of a run without rows."""
        sources = {}
        for name, source in self.stream._sources.items():
            columns = source.columns if isinstance(source, Deferred) else source.peek()
            sources[name] = Rows(columns, source.events)
        stream = Stream._of(self.stream._handle, sources, self.stream._columns, self.stream._name)
        return widened(stream.collect(threads=1, progress=False).to_arrow().schema)

    def columns(self, name: str) -> list[str]:
        """Give the columns of an input that the query reads, those of times first."""
        events = self.inputs[name].events
        times = [events.times] if isinstance(events.times, str) else [*events.times]
        pattern = rf"input ~(?:{re.escape(name)}|`{re.escape(name.replace('`', '``'))}`): {{(.*?)}} "
        declared = re.search(pattern, str(self.program))
        if declared is None:
            # Nothing reads it, yet its rows may decide which keys there are.
            return times + ([events.key] if events.key is not None else [])
        fields = [found[1] for found in _FIELD.finditer(declared[1])]
        names = [field[1:-1].replace("``", "`") if field.startswith("`") else field for field in fields]
        return times + [column for column in names if column not in times]

    def scale(self, name: str) -> int:
        """Give how many ticks of the program one step of an input's column of times is."""
        if self.program.unit == "tick":
            return 1
        events = self.inputs[name].events
        dtype = self.inputs[name].schema().field(events.times if isinstance(events.times, str) else events.times[1]).type
        tick = _NANOSECONDS[self.program.unit]
        if pa.types.is_timestamp(dtype):
            return _NANOSECONDS[dtype.unit] // tick
        if pa.types.is_date(dtype):
            return 86_400 * _NANOSECONDS["s"] // tick
        return _NANOSECONDS[events.unit or self.program.unit] // tick

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
        lineage = self.program.lineage().get(name, ("0", "0"))
        unit = "tick" if name not in self.program.lineage() else self.program.unit
        return bounded(
            lineage, unit, length=self.length(name), warmup=warmup, name=name, output=self.program.output[0]
        )

    def functions(self) -> dict[str, object]:
        """Give the functions of Python that the query calls; native ones are known by name where they were registered."""
        names = [found[1] for found in _EXTERN.finditer(str(self.program))]
        return {name: FUNCTIONS[name] for name in names if not isinstance(FUNCTIONS.get(name), _native.Pointer)}

    def task(self, columns: Mapping[str, Mapping[str, str]], imports: tuple[str, ...]) -> QueryTask:
        """Give what executors run, given where they find the columns of each input."""
        unnamed = [
            found[1]
            for found in _EXTERN.finditer(str(self.program))
            if isinstance(FUNCTIONS.get(found[1]), _native.Pointer)
        ]
        if unnamed and not imports:
            message = (
                f"the query calls the native function @{unnamed[0]}, whose address is that of this process; "
                "name the modules that register it by tl.udf(..., name=...) in executors: imports=[...]"
            )
            raise QueryError(message)
        inputs = tuple(
            TaskInput(name, frame.events, columns[name], has_ties(frame.events)) for name, frame in self.inputs.items()
        )
        return QueryTask(str(self.stream._query().program), inputs, self.schema, self.stream._layout(), imports)


def has_ties(events: Events) -> bool:
    """Whether several rows may have one time, so that their order matters."""
    return events.overlap != "disjoint" if events.overlap else events.valid == "point" and events.period is None
