"""Counts, extremes and sums by key on the cells of a grid: each task adds up its own rows before any are moved.

What it finds for a cell of a key are rows again, one for each such cell, and adding up these gives what adding up all
rows gives, in any order, because the numbers are whole or the extremes of some. So few rows go through the shuffle, and
they need no look for keys with many of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from tilt import _native
from tilt.program import Program
from tilt.run import Query
from tilt.sources import Deferred, Events, Rows
from tilt.spark.boot import shipped
from tilt.spark.cuts import Reach
from tilt.spark.frames import mapped, moved
from tilt.spark.frames import rows as rows_of
from tilt.spark.packing import movable, packed_schema
from tilt.spark.placing import PackTask, gathered
from tilt.spark.schemas import spark_schema
from tilt.spark.task import PartitionTask, QueryTask, TaskInput, in_order
from tilt.streams import Stream
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from tilt.spark.plan import Bound

_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_DEFINITION = re.compile(rf"^  ~({_NAME})\[t[^\]]*\] = (.*)$", re.MULTILINE)
_CELL = re.compile(
    rf"^  ~(?P<name>{_NAME})\[t every (?P<period>\w+)(?P<offset> offset \w+)?\] = "
    rf"reduce (?P<agg>len|sum|min|max) ~(?P<of>{_NAME})\[t-(?P=period) : t\](?P<map> map \(.*\))?$",
    re.MULTILINE,
)
_READ = re.compile(rf"~({_NAME})")
_INPUT = re.compile(r"^  input .*$", re.MULTILINE)
_EXTERN = re.compile(r"^  extern fn .*$", re.MULTILINE)
_LASTS = re.compile(r"\b(every|calendar|sessions|hold)\b")
_TIME, _ROWS, _COUNTED = "tilt cell", "tilt rows", "tilt counted"
_EXACT = {"bool", "i8", "i16", "i32", "u8", "u16", "u32"}
"""Types of which no task has enough rows for a sum that 64 bits do not hold, where all of them together have one."""
_AT_ONCE = 1 << 20
"""Of how many rows a task adds up what is in a cell."""


@dataclass(frozen=True)
class Cells:
    """What a query makes of cells, and what it makes of that."""

    text: str
    """The program that gives a row for each cell of a key."""
    rest: str
    """The program that adds these up, and goes on as the query does."""
    schema: pa.Schema
    """The rows of cells."""
    events: Events
    names: tuple[str, ...]
    """What is added up, as the query calls it."""

    @classmethod
    def of(cls, bound: Bound) -> Cells | None:
        """Find them in the program of a query, ``None`` if it reads rows in another way."""
        whole = str(bound.stream._query().program)
        if not _is_plain(bound, whole):
            return None
        ((name, _),) = bound.inputs.items()
        definitions = {found[1]: found for found in _DEFINITION.finditer(whole)}
        used = _used(whole, definitions)
        if used is None:
            return None
        cells, tail = used
        clocks = {(cell["period"], cell["offset"]) for cell in cells}
        if len(clocks) != 1 or any(not _is_exact(whole, cell) for cell in cells):
            return None
        ((period, offset),) = clocks
        quoted = "~`" + name.replace("`", "``") + "`"
        given = quoted if f"input {quoted}:" in whole else f"~{name}"
        every = f"[t every {period}{offset or ''}]"
        fields = ", ".join(f"r{at}: ~{cell['name']}[t]" for at, cell in enumerate(cells))
        added = f"  ~`{_ROWS}`{every} = reduce len {given}[t-{period} : t]\n"
        added += f"  ~`{_COUNTED}`[t] = if ~`{_ROWS}`[t] > 0 then {{{fields}}} else null\n"
        program = Program.parse(f"{whole[: whole.rindex('  output ')]}{added}\n  output ~`{_COUNTED}`\n}}\n")
        # A row is all that an event of it depends on, and a cell all that is computed of it.
        if not _is_within(program, name, period):
            return None
        found = cls._parsed(bound, program, cells, tail)
        return found if found is not None and _is_within(Program.parse(found.rest), _COUNTED, period) else None

    @classmethod
    def _parsed(cls, bound: Bound, program: Program, cells: list[re.Match[str]], tail: list[str]) -> Cells | None:
        ((name, source),) = bound.inputs.items()
        text, key = str(program), str(source.events.key)
        empty = Rows(Table(source.schema().empty_table()), source.events)
        table = Query(text).run({name: empty}, threads=1, layout="point", progress=False).to_arrow()
        names = [_TIME, key, *(f"r{at}" for at in range(len(cells)))]
        if len(table.schema) != len(names) or table.schema.field(0).type != bound.time_type(name):
            return None
        schema = pa.schema([*zip(names, table.schema.types, strict=True)])
        if not all(map(movable, schema.types)):
            return None
        events = Events(time=_TIME, key=key, unit=source.events.unit, tz=source.events.tz, overlap="bag")
        declared = Stream._input(_COUNTED, Deferred(Table(schema.empty_table()), events))
        (line,) = _INPUT.findall(str(declared._query().program))
        lines = [text.partition("\n")[0], *_EXTERN.findall(text), line, ""]
        for at, cell in enumerate(cells):
            agg = "sum" if cell["agg"] == "len" else cell["agg"]
            left = cell[0].partition(" = ")[0]
            lines.append(f"{left} = reduce {agg} ~`{_COUNTED}`[t-{cell['period']} : t] map (~`{_COUNTED}`[t].r{at})")
        rest = Program.parse("\n".join([*lines, *tail, "}", ""]))
        return cls(text, str(rest), schema, events, tuple(cell["name"] for cell in cells))


def _is_plain(bound: Bound, whole: str) -> bool:
    """Whether a query is of points of one input, by a key, and has results only where a key has rows."""
    if len(bound.inputs) != 1:
        return False
    ((_, source),) = bound.inputs.items()
    events = source.events
    is_plain = (events.valid, events.period) == ("point", None) and events.overlap in {None, "bag"}
    # Nor may anything be called as what is added to the query.
    is_known = any(own in f"{whole} {events.key}" for own in (_TIME, _ROWS, _COUNTED))
    return is_plain and events.key is not None and not is_known and not bound.fills


def _used(whole: str, definitions: dict[str, re.Match[str]]) -> tuple[list[re.Match[str]], list[str]] | None:
    """Give the cells that a program's output depends on, and the lines after them, if it depends on nothing else."""
    (output,) = re.findall(rf"^  output ~({_NAME})$", whole, re.MULTILINE)
    wanted, cells, tail = {output}, [], [f"  output ~{output}"]
    for name, definition in reversed(definitions.items()):
        if name not in wanted:
            continue
        cell = _CELL.fullmatch(definition[0])
        if cell is not None:
            cells.append(cell)
        else:
            if _LASTS.search(definition[0]):
                return None
            tail.insert(0, definition[0])
            # A clock is of a stream, too.
            wanted |= {*_READ.findall(definition[0])}
        wanted.discard(name)
    # What is left is an input.
    return None if wanted or not cells else (cells[::-1], tail)


def _is_within(program: Program, name: str, period: str) -> bool:
    """Whether what a program computes depends on no more than the rows of a cell."""
    length = int(period) if program.unit == "tick" else _native.duration(period, program.unit)
    back, ahead = (Reach.parse(text, program.unit) for text in program.lineage()[name])
    return back is not None and back.events == 0 and back.ticks <= length and ahead == Reach(0)


def _is_exact(whole: str, cell: re.Match[str]) -> bool:
    """Whether what is found of some rows after the other is what is found of all."""
    if cell["agg"] in {"len", "min", "max"}:
        return True
    value = f"~{cell['of']}[t]" if cell["map"] is None else cell["map"][len(" map (") : -1]
    alone = f"{whole[: whole.rindex('  output ')]}  ~`{_ROWS}`[t] = {value}\n\n  output ~`{_ROWS}`\n}}\n"
    return Program.parse(alone).output[1] in _EXACT


@dataclass(frozen=True)
class CountTask:
    """Adds up the rows of a partition cell by cell, some at a time, and makes blocks of what it finds."""

    query: QueryTask
    pack: PackTask

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the blocks."""
        yield from self.pack.run(self._counted(batches))

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (given,) = self.query.inputs
        for batch in gathered(batches, _AT_ONCE):
            rows = in_order(pa.table(batch), str(given.events.times))
            yield from self.query.compute({given.name: rows})


@dataclass(frozen=True)
class Counted:
    """A query that adds up rows of keys on cells of a grid."""

    bound: Bound
    partitions: int
    imports: tuple[str, ...]
    cells: Cells

    def explain(self) -> str:
        """Say how the work is cut."""
        ((name, source),) = self.bound.inputs.items()
        columns = ", ".join(self.bound.columns(name))
        names = ", ".join(f"~{name}" for name in self.cells.names)
        lines = [
            f"{self.partitions} partitions, all keys of one in a task",
            f"{names} by cell where rows are read: what cells have is moved, not rows",
            f"~{name}: by key `{source.events.key}`; {self.bound.reach(name)}; columns {columns}",
        ]
        return "\n".join(lines)

    @cached_property
    def tasks(self) -> tuple[CountTask, PartitionTask]:
        """What runs where rows are read, and after what they find was moved."""
        query, cells = self.bound.task(self.imports), self.cells
        first = QueryTask(cells.text, query.inputs, cells.schema, "point", self.imports)
        given = TaskInput(_COUNTED, cells.events, cells.schema)
        last = QueryTask(cells.rest, (given,), query.schema, query.layout, self.imports, memory=query.memory)
        return CountTask(first, PackTask(0, cells.events, (cells.schema,), self.partitions)), PartitionTask(last)

    def frame(self) -> DataFrame:
        """Give the result."""
        first, last = self.tasks
        (name,) = self.bound.inputs
        functions, schema = self.bound.functions(), packed_schema((self.cells.schema,))
        blocks = mapped(rows_of(self.bound, name), first, schema, functions)
        whole = moved([blocks], self.partitions, self.partitions, {}, {})
        return whole.mapInArrow(shipped(last, functions), spark_schema(self.bound.schema))
