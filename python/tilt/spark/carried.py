"""Running totals, extremes and last values without a key: what reaches back to the beginning, carried over the cuts.

Of all the rows before the halo of a slice only few matter to a read without a beginning: the last events of a stream,
or that with its extreme. Each partition tells those of its rows that may be such, and adds up integers, between any two
cuts; one task goes through what is told from cut to cut, and gives to each slice the rows that matter there, and the
totals of all others. So a slice sees genuine rows, too few of them only for what has a bounded reach and is not asked
for there, and sums of integers, which have the same value in every order.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tilt.errors import QueryError
from tilt.program import Program
from tilt.run import Query
from tilt.sources import Events, Rows
from tilt.spark.boot import shipped
from tilt.spark.frames import first_of_partition, mapped, merged, rows
from tilt.spark.further import parts_within, times_of
from tilt.spark.packing import OFFSETS, cut_blocks, packed_column, packed_schema
from tilt.spark.placing import PLAN
from tilt.spark.schemas import spark_schema
from tilt.spark.task import PartitionTask, as_integers, between, in_order, partition, ranks
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tilt.spark.packing import Numbers
    from tilt.spark.placing import Plan
    from tilt.spark.plan import Bound
    from tilt.spark.survey import CutInput
    from tilt.spark.task import QueryTask, TaskInput

_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_HELD = re.compile(rf"hold\(~({_NAME})\[(t[^\]]*)\]\)")
_PREVIOUS = re.compile(rf"~({_NAME})\.prev\((\d+)\)")
_COUNTED = re.compile(rf"~({_NAME})\[#-(\d+) : #\]")
_EXTREME = re.compile(rf"(reduce (?:min|max) ~({_NAME})\[)-inf( : t\])(?! map)")
_TOTAL = re.compile(rf"^  ~({_NAME})\[t\] = reduce (sum|len) ~({_NAME})\[-inf : t\]$", re.MULTILINE)
_OUTPUT = re.compile(rf"\n  output ~{_NAME}\n}}\s*\Z")
_OTHER_CLOCK = re.compile(r"\[t (?:on|every|calendar|sessions)\b")
_ROW, _BUCKET, _ORDER = "tilt row", "tilt bucket", "tilt order"
_OFFSETS = "tilt offsets"
_TOLD = pa.schema([("told", pa.binary())])
_MOST = 1 << 10
"""How many last events are carried at most: they go through one task, for every slice."""
_HELD_ROWS = 1 << 18
"""How many rows a partition holds before it leaves out those that do not matter after all."""
_FIRST = -(1 << 40)
"""The number of the first block of carried rows: they are before all others, in time too."""


@dataclass(frozen=True)
class Read:
    """A read of a stream that has no beginning in time."""

    stream: str
    """As the program writes it."""
    input: int
    """The input whose rows the stream is computed from, each event from one row."""
    text: str
    """A program that gives the row of each event of the stream, and its value if that is asked for."""
    last: int = 0
    """How many of the last events matter."""
    extreme: bool = False
    """Whether those with the smallest and the largest value do."""
    total: str | None = None
    """What is added up: ``sum`` of the values or ``len``."""


@dataclass(frozen=True)
class Reads:
    """What a query reads of all the past, if that can be carried."""

    text: str
    """The program that adds what is carried to the totals of the rows that a slice has."""
    reads: tuple[Read, ...]
    lineage: Mapping[str, tuple[str, str]]
    """How far everything else looks."""

    @classmethod
    def of(cls, bound: Bound) -> Reads | None:
        """Find them in the program of a query, ``None`` if there are others."""
        whole = str(bound.stream._query().program)
        tick = "1" if bound.program.unit == "tick" else f"1{bound.program.unit}"
        near = _HELD.sub(rf"hold(~\1[\2], {tick})", whole)
        near = _PREVIOUS.sub(r"~\1[t]", near)
        near = _COUNTED.sub(rf"~\1[t-{tick} : t]", near)
        near = _EXTREME.sub(rf"\1t-{tick}\3", near)
        near = _TOTAL.sub(rf"  ~\1[t] = reduce \2 ~\3[t-{tick} : t]", near)
        lineage = Program.parse(near).lineage()
        if any("unbounded" in both for both in lineage.values()):
            return None
        found: list[Read | None] = []
        for name, _ in _HELD.findall(whole):
            found.append(_read(bound, whole, name, last=1))
        for name, count in [*_PREVIOUS.findall(whole), *_COUNTED.findall(whole)]:
            found.append(_read(bound, whole, name, last=int(count)))
        for _, name, _ in _EXTREME.findall(whole):
            found.append(_read(bound, whole, name, extreme=True))
        totals = list(_TOTAL.finditer(whole))
        text = whole
        for at, (name, what, of) in enumerate(total.groups() for total in totals):
            found.append(_read(bound, whole, of, total=what))
            own = f"  ~`tilt total {at}`[t] = reduce {what} ~{of}[-inf : t]\n"
            added = f"~`tilt total {at}`[t] + hold(~`{_OFFSETS}`[t]).offset{at}"
            text = text.replace(totals[at][0], f"{own}  ~{name}[t at ~{of}] = {added}")
        reads = tuple(read for read in found if read is not None)
        if len(reads) < len(found):
            return None
        if totals:
            fields = ", ".join(f"offset{at}: i64" for at in range(len(totals)))
            text = text.replace("{\n", f"{{\n  input ~`{_OFFSETS}`: {{{fields}}} point\n", 1)
        return cls(str(Program.parse(text)), reads, lineage)

    @property
    def totals(self) -> list[Read]:
        """Those that are added up."""
        return [read for read in self.reads if read.total is not None]

    def explain(self) -> str:
        """Say what is carried."""
        kinds = {
            "totals": self.totals,
            "extremes": [read for read in self.reads if read.extreme],
            "last events": [read for read in self.reads if read.last],
        }
        of = {what: dict.fromkeys(f"~{read.stream}" for read in reads) for what, reads in kinds.items()}
        told = [f"{what} of {', '.join(streams)}" for what, streams in of.items() if streams]
        return f"carried from slice to slice: {', '.join(told)}"


def _read(  # noqa: PLR0913
    bound: Bound, whole: str, name: str, *, last: int = 0, extreme: bool = False, total: str | None = None
) -> Read | None:
    """Describe a read, unless the events of the stream are not each of one row of an input of points."""
    alone = Program.parse(_OUTPUT.sub(lambda _: f"\n  output ~{name}\n}}", whole))
    lineage = alone.lineage()
    if len(lineage) != 1 or last > _MOST or _OTHER_CLOCK.search(str(alone.optimize())):
        return None
    ((given, reach),) = lineage.items()
    here = "0" if alone.unit == "tick" else f"0{alone.unit}"
    if reach != (here, here) or bound.inputs[given].events.valid != "point":
        return None
    quoted = "~`" + given.replace("`", "``") + "`"
    if f"input {quoted}:" not in whole:
        quoted = f"~{given}"
    value = ""
    if extreme or total == "sum":
        dtype = alone.output[1]
        if dtype not in ({"i8", "i16", "i32", "i64"} if total else {"i8", "i16", "i32", "i64", "f32", "f64"}):
            return None
        value = f", value: ~{name}[t]"
    if f"input {quoted}: {{" not in whole or f"input {quoted}: {{}}" in whole:
        return None
    traced = whole.replace(f"input {quoted}: {{", f"input {quoted}: {{`{_ROW}`: i64, ", 1)
    rows = f"  ~`tilt traced`[t at ~{name}] = {{row: {quoted}[t].`{_ROW}`{value}}}"
    text = _OUTPUT.sub(lambda _: f"\n{rows}\n\n  output ~`tilt traced`\n}}", traced)
    return Read(name, list(bound.inputs).index(given), str(Program.parse(text)), last, extreme, total)


@dataclass(frozen=True)
class Carrier:
    """Finds what reads look at in rows of one input."""

    query: QueryTask
    reads: tuple[Read, ...]
    input: int

    @cached_property
    def given(self) -> TaskInput:
        """The input."""
        return self.query.inputs[self.input]

    @cached_property
    def own(self) -> list[tuple[int, Read]]:
        """The reads of this input, with their numbers."""
        return [(at, read) for at, read in enumerate(self.reads) if read.input == self.input]

    def events(self, table: pa.Table) -> dict[int, tuple[Numbers, Numbers | None]]:
        """Give for each read the rows, which are in order of time, that are events of its stream, and their values."""
        self.query.prepare()
        numbered = table.select(self.given.schema.names).append_column(_ROW, pa.array(np.arange(len(table))))
        sources = {one.name: Rows(Table(one.schema.empty_table()), one.events) for one in self.query.inputs}
        sources[self.given.name] = Rows(Table(numbered), self.given.events)
        known: dict[str, pa.Table] = {}
        found: dict[int, tuple[Numbers, Numbers | None]] = {}
        for at, read in self.own:
            if read.text not in known:
                known[read.text] = Query(read.text).run(sources, threads=1, layout="point", progress=False).to_arrow()
            events = known[read.text]
            values = events.column("value").to_numpy() if "value" in events.column_names else None
            found[at] = (events.column("row").to_numpy(), values)
        return found

    def kept(self, events: Mapping[int, tuple[Numbers, Numbers | None]], among: Numbers) -> Numbers:
        """Give which of some rows, in order of time, matter to what is after all of them."""
        found: list[Numbers] = [np.empty(0, np.int64)]
        for at, read in self.own:
            at_rows, values = events[at]
            places = _places(at_rows, among)
            if read.last:
                found.append(at_rows[places[-read.last :]])
            if read.extreme and values is not None and len(places):
                found.append(at_rows[places[_extremes(values[places])]])
        return np.unique(np.concatenate(found))

    def ordered(self, table: pa.Table) -> pa.Table:
        """Give rows in order of time, and where that is the same as a task has them."""
        ties = [ranks(table.column(column)) for column in reversed(self.given.ties)]
        return in_order(table, str(self.given.events.times), [table.column(_ORDER).to_numpy(), *ties])


def _places(numbers: Numbers, among: Numbers) -> Numbers:
    """Give where some numbers are, as far as they are there; both increase."""
    places = np.searchsorted(numbers, among)
    inside = places < len(numbers)
    found: Numbers = places[inside][numbers[places[inside]] == among[inside]]
    return found


def _extremes(values: Numbers) -> Numbers:
    """Give where the first of the smallest and of the largest values are, both signs of zero, and the first of all."""
    found = {0}
    for extreme in (np.fmin.reduce(values), np.fmax.reduce(values)):
        equal = np.flatnonzero(values == extreme)
        for sign in (True, False):
            found.update(equal[np.signbit(values[equal].astype(np.float64)) == sign][:1].tolist())
    return np.array(sorted(found), np.int64)


@dataclass(frozen=True)
class GatherTask:
    """Tells of a partition, between any two cuts, the rows that may matter later, and totals."""

    carrier: Carrier

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row, if there are any here."""
        order = partition() << 33
        plan: Plan | None = None
        held: list[pa.Table] = []
        totals: dict[int, Numbers] = {}
        sizes: dict[int, float] = {}
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if plan is None:
                plan = pickle.loads(batch.column(PLAN)[0].as_py())  # noqa: S301
            table = pa.table(batch.select(self.carrier.given.schema.names))
            table = table.append_column(_ORDER, pa.array(order + np.arange(len(table))))
            order += len(table)
            time = str(self.carrier.given.events.times)
            # Of those that are missing the query itself says what is wrong.
            table = self.carrier.ordered(table.filter(table.column(time).is_valid()))
            ends = as_integers(table.column(time))
            _, buckets = plan.needing(self.carrier.input, ends, ends)
            table = table.append_column(_BUCKET, pa.array(buckets))
            events = self.carrier.events(table)
            held.append(self._thinned(table, events))
            if sum(map(len, held)) > _HELD_ROWS:
                held = [self._whole(held)]
            for at, read in self.carrier.own:
                if read.total is None:
                    continue
                at_rows, values = events[at]
                added = np.ones(len(at_rows), np.int64) if values is None else values.astype(np.int64)
                of = totals.setdefault(at, np.zeros(len(plan.slices), np.int64))
                np.add.at(of, buckets[at_rows], added)
                sizes[at] = sizes.get(at, 0.0) + float(np.abs(added.astype(np.float64)).sum())
        if plan is not None:
            told = (self.carrier.input, len(plan.slices), self._whole(held), totals, sizes)
            yield pa.record_batch([pa.array([pickle.dumps(told)], pa.binary())], schema=_TOLD)

    def _whole(self, held: list[pa.Table]) -> pa.Table:
        """Give what matters of all batches."""
        rows = self.carrier.ordered(pa.concat_tables(held))
        return self._thinned(rows, self.carrier.events(rows))

    def _thinned(self, table: pa.Table, events: Mapping[int, tuple[Numbers, Numbers | None]]) -> pa.Table:
        """Give the rows that matter after those of their bucket, which follow each other."""
        buckets = table.column(_BUCKET).to_numpy()
        edges = [0, *(np.flatnonzero(buckets[1:] != buckets[:-1]) + 1).tolist(), len(buckets)]
        parts = [np.arange(first, last) for first, last in pairwise(edges) if first < last]
        kept = [self.carrier.kept(events, part) for part in parts]
        return table.take(pa.array(np.concatenate([np.empty(0, np.int64), *kept])))


@dataclass(frozen=True)
class CarryTask:
    """Goes through what partitions tell from cut to cut: blocks of the rows that matter to a slice, and its totals."""

    carriers: tuple[Carrier, ...]
    schemas: tuple[pa.Schema, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the blocks."""
        told = [pickle.loads(one) for batch in batches for one in batch.column("told").to_pylist()]  # noqa: S301
        for carrier in self.carriers:
            own = [rest for at, *rest in told if at == carrier.input]
            if own:
                yield from self._carried(carrier, own)

    def _carried(self, carrier: Carrier, told: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        slices = told[0][0]
        table = carrier.ordered(pa.concat_tables([rows for _, rows, _, _ in told]))
        events = carrier.events(table)
        buckets = table.column(_BUCKET).to_numpy()
        # Totals are numbered among totals, not among reads.
        summed = [at for at, read in enumerate(carrier.reads) if read.total is not None]
        totals = {at: 0 for at in summed if carrier.reads[at].input == carrier.input}
        for at in totals:
            if sum(sizes.get(at, 0.0) for _, _, _, sizes in told) >= 2.0**62:
                message = (
                    f"the total of ~{carrier.reads[at].stream} may need more than 64 bits; give a key=, or warmup="
                )
                raise QueryError(message)
        kept = np.empty(0, np.int64)
        for place in range(1, slices):
            # Rows are in order of time, so of buckets, too.
            first, last = np.searchsorted(buckets, [place - 1, place])
            kept = carrier.kept(events, np.concatenate([kept, np.arange(first, last)]))
            yield from self._blocks(carrier, table.take(pa.array(kept)), place)
            for at, before in totals.items():
                whole = before + sum(int(of[at][place - 1]) for _, _, of, _ in told if at in of)
                totals[at] = whole
                at_rows, values = events[at]
                places = _places(at_rows, kept)
                there = len(places) if values is None else int(values[places].astype(np.int64).sum())
                yield self._fact(place, OFFSETS - summed.index(at), whole - there)

    def _blocks(self, carrier: Carrier, rows: pa.Table, place: int) -> Iterator[pa.RecordBatch]:
        if not len(rows):
            return
        (batch,) = rows.select(carrier.given.schema.names).combine_chunks().to_batches()
        of, edges = cut_blocks(np.array([len(rows)]), batch)
        parts = [part for column in batch.columns for part in packed_column(column, None, edges)]
        tags = np.full(len(of), carrier.input + len(self.schemas))
        yield self._batch(np.full(len(of), place), tags, _FIRST + np.arange(len(of)), parts)

    def _fact(self, place: int, tag: int, number: int) -> pa.RecordBatch:
        return self._batch(np.array([place]), np.array([tag]), np.array([number]), [])

    def _batch(self, places: Numbers, tags: Numbers, numbers: Numbers, parts: list[pa.Array]) -> pa.RecordBatch:
        whole = packed_schema(self.schemas)
        columns = [pa.array(places, pa.int32()), pa.array(tags, pa.int32()), pa.array(numbers, pa.int64()), *parts]
        columns += [pa.nulls(len(places), pa.binary())] * (len(whole) - len(columns))
        return pa.record_batch(columns, whole)


@dataclass
class Past:
    """What matters later of the rows of an input that a part of a slice does not see, and totals of those left out."""

    carrier: Carrier
    rows: pa.Table
    seen: int = 0
    """Up to which row of the slice it goes."""
    totals: dict[int, int] = field(default_factory=dict)
    """By the number of the read."""

    def go_on(self, rows: pa.Table, until: int) -> None:
        """Take the rows of the slice up to one of them."""
        if until <= self.seen:
            return
        pool = pa.concat_tables([self.rows, rows.slice(self.seen, until - self.seen)])
        self.seen = until
        events = self.carrier.events(pool)
        kept = self.carrier.kept(events, np.arange(len(pool)))
        for at, read in self.carrier.own:
            if read.total is None:
                continue
            at_rows, values = events[at]
            is_left = ~np.isin(at_rows, kept)
            left = int(is_left.sum()) if values is None else int(values[is_left].astype(np.int64).sum())
            self.totals[at] = self.totals.get(at, 0) + left
        self.rows = pool.take(pa.array(kept))


@dataclass(frozen=True)
class CarriedTask(PartitionTask):
    """Runs a query on a slice, with what was carried there, part by part: from one to the next it carries on itself."""

    text: str = ""
    """The program that adds what is carried to totals: :attr:`Reads.text`."""
    carriers: tuple[Carrier, ...] = ()
    cuts: tuple[CutInput, ...] = ()

    def queries(
        self, rows: dict[str, pa.Table], whole: tuple[int, int], header: Mapping[str, int]
    ) -> Iterator[tuple[QueryTask, dict[str, pa.Table], tuple[int, int]]]:
        """Give the query with the totals of the rows that a part does not have, and the rows that it has."""
        parts = parts_within(self.query, self.cuts, rows, whole)
        if parts is None:
            yield self._added(header, {}), rows, whole
            return
        pasts = {carrier.given.name: Past(carrier, carrier.given.schema.empty_table()) for carrier in self.carriers}
        for part, needs in parts:
            some = {
                given.name: between(rows[given.name], given.events, *needs[given.name]) for given in self.query.inputs
            }
            for name, past in pasts.items():
                ends = as_integers(times_of(past.carrier.given, rows))
                past.go_on(rows[name], int(np.searchsorted(ends, needs[name][0], side="right")))
                some[name] = pa.concat_tables([past.rows, some[name]])
            totals = {at: total for past in pasts.values() for at, total in past.totals.items()}
            yield self._added(header, totals), some, part

    def _added(self, header: Mapping[str, int], totals: Mapping[int, int]) -> QueryTask:
        """Give the query with the totals of the rows that a slice does not have, and of those that a part does not."""
        query = replace(self.query, text=self.text)
        reads = next(iter(self.carriers)).reads
        summed = [at for at, read in enumerate(reads) if read.total is not None]
        if not summed:
            return query
        # It is there from the first instant of the run on.
        row: dict[str, list[int]] = {"at": [header["start"] + 1]}
        row |= {
            f"offset{number}": [header.get(f"offset {number}", 0) + totals.get(at, 0)]
            for number, at in enumerate(summed)
        }
        unit = Query(self.query.text).program.unit
        events = Events(time="at", unit=None if unit == "tick" else unit)
        return replace(query, beside={_OFFSETS: Rows(Table(pa.table(row)), events)})


def carriers_of(query: QueryTask, reads: Reads) -> tuple[Carrier, ...]:
    """Give what finds the reads of each input that has some."""
    return tuple(Carrier(query, reads.reads, at) for at in sorted({read.input for read in reads.reads}))


def carried(bound: Bound, query: QueryTask, reads: Reads, plan: Column) -> DataFrame:
    """Give blocks of what is carried to slices."""
    schemas = tuple(given.schema for given in query.inputs)
    carriers = carriers_of(query, reads)
    told = []
    for carrier in carriers:
        frame = rows(bound, carrier.given.name).withColumn(PLAN, first_of_partition(plan))
        told.append(mapped(frame, GatherTask(carrier), _TOLD, bound.functions()))
    last = shipped(CarryTask(carriers, schemas), bound.functions())
    return merged(told).repartition(1).mapInArrow(last, spark_schema(packed_schema(schemas)))
