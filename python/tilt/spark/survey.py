"""Where the timeline of data frames is cut.

A pass over the times tells how many rows there are, the first and the last time, and times that have about as many rows
between each other, so that slices have about the same number of rows.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.cuts import Ends, Slices
from tilt.spark.frames import mapped, merged, rows
from tilt.spark.placing import Plan
from tilt.spark.records import named
from tilt.spark.schemas import spark_schema
from tilt.spark.task import as_integers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.packing import Numbers
    from tilt.spark.plan import Bound

AT_ONCE = 1 << 23
"""How many rows a query is run on at once, halo aside: a slice that has more is cut further."""
_POINTS = 16
"""How many times a partition tells for each slice, at least, if it has as many."""
_FEW = 1 << 12
"""How many it tells however few slices there are."""
_TOLD = pa.schema(
    [
        ("input", pa.int32()),
        ("rows", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("points", pa.list_(pa.int64())),
    ]
)
PLANNED = pa.schema(
    [
        ("plan", pa.binary()),
        ("slices", pa.int64()),
        ("lo", pa.list_(pa.int64())),
        ("hi", pa.list_(pa.int64())),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)
"""A :class:`tilt.spark.placing.Plan`, and what partitions have to know of it."""


@dataclass(frozen=True)
class CutInput:
    """What has to be known of an input to cut it."""

    scale: int
    """How many ticks one step of its column of times is."""
    length: int
    """How many ticks an event is long, 0 if each row says it."""
    halo: Halo

    def limits(self, after: int, before: int) -> tuple[int, int]:
        """Give, of ticks after which rows must end and before which they must start, what to compare times with.

        Starts are looked up by the end that an event with this start has, and both limits err on the far side.
        """
        return (after - 1) // self.scale, (before + self.length) // self.scale + 1


@dataclass(frozen=True)
class SurveyTask:
    """Tells of the times of a partition how many there are, the first and the last, and some that are spread as all."""

    input: int
    times: tuple[str, str]
    """The columns of starts and ends, which may be one."""
    points: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row."""
        count = 0
        edges: list[int] = []
        held: list[Numbers] = []
        step = 1
        for batch in batches:
            start, end = (as_integers(pa.chunked_array([batch.column(name).drop_null()])) for name in self.times)
            if not len(end) or not len(start):
                continue
            edges += [int(start.min()), int(end.max())]
            # Every so manieth row, whatever batches they come in.
            held.append(end[-count % step :: step])
            count += len(end)
            while sum(map(len, held)) > 2 * self.points:
                held = [np.concatenate(held)[::2]]
                step *= 2
        if count:
            told = {"input": self.input, "rows": count, "first": min(edges), "last": max(edges)}
            yield row_of({**told, "points": np.sort(np.concatenate(held))}, _TOLD)


@dataclass(frozen=True)
class CutTask:
    """Turns what partitions tell of the times of all inputs into slices, and what each has to see: one row."""

    slices: int
    inputs: tuple[CutInput, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a plan."""
        told = [row for batch in batches for row in batch.to_pylist()]
        yield planned(None, self.inputs, told, dict.fromkeys(range(self.slices), 1 / self.slices))


def planned(
    keys: tuple[int, ...] | None,
    inputs: Sequence[CutInput],
    told: Sequence[Mapping[str, Any]],
    shares: Mapping[int, float],
) -> pa.RecordBatch:
    """Give a plan for what is told of rows: at some places a slice with a share of them. And when all begin and end."""
    ends: list[list[int]] = [[] for _ in inputs]
    spread: list[tuple[int, int, float]] = []
    for part in told:
        ticks = [at * inputs[part["input"]].scale for at in part["points"]]
        ends[part["input"]] += ticks
        spread += [(at, at, part["rows"] / len(ticks)) for at in ticks]
    spread.sort()
    # Rows between two times count to the later one.
    between = [(before, at, rows) for (before, _, _), (at, _, rows) in pairwise([*spread[:1], *spread])]
    cuts = Slices.by_shares(between, [*shares.values()]) if spread else []
    # Where many rows have one time a slice may have none: what follows moves up.
    slices = Slices(tuple(sorted(set(cuts))))
    places = [*shares][: len(slices)]
    limits = tuple(
        tuple(given.limits(*need) for need in slices.needs(given.halo, Ends(known)))
        for given, known in zip(inputs, ends, strict=True)
    )
    starts = [part["first"] * inputs[part["input"]].scale - inputs[part["input"]].length for part in told]
    stops = [part["last"] * inputs[part["input"]].scale for part in told]
    plan = pickle.dumps(Plan(slices, limits, keys, None if keys is None else tuple(places)))
    values: dict[str, Any] = {"plan": plan}
    if told:
        values |= {"slices": len(slices), "start": min(starts), "end": max(stops)}
        for edge, known in (("lo", (None, *slices.cuts)), ("hi", (*slices.cuts, None))):
            of = dict(zip(places, known, strict=True))
            values[edge] = [of.get(place) for place in range(max(places) + 1)]
    return row_of(values, PLANNED)


@dataclass(frozen=True)
class Survey:
    """What has to be known of all times before rows are moved. It is found when the job runs, by a subquery."""

    bound: Bound
    slices: int
    halos: Mapping[str, Halo]

    def plan(self) -> Column:
        """Give the row of :class:`CutTask` as a value."""
        inputs = tuple(cut_input(self.bound, name, halo) for name, halo in self.halos.items())
        told = merged([self._told(at, name) for at, name in enumerate(self.bound.inputs)]).repartition(1)
        found = told.mapInArrow(shipped(CutTask(self.slices, inputs)), spark_schema(PLANNED))
        return found.select(F.struct("*")).scalar()

    def _told(self, at: int, name: str) -> DataFrame:
        times = self.bound.inputs[name].events.times
        both = (times, times) if isinstance(times, str) else times
        columns = rows(self.bound, name).select(*map(named, dict.fromkeys(both)))
        if self.slices == 1:
            # Nothing is cut: Spark finds the first and the last time itself, for less than it takes to hand over all.
            columns = columns.agg(F.min(named(both[0])).alias("first"), F.max(named(both[1])).alias("last"))
            both = ("first", "last")
        task = SurveyTask(at, both, max(_FEW, _POINTS * self.slices))
        return mapped(columns, task, _TOLD)


def row_of(values: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Give a row; values that are not there are null."""
    return pa.record_batch([pa.array([values.get(field.name)], field.type) for field in schema], schema)


def cut_input(bound: Bound, name: str, halo: Halo) -> CutInput:
    """Give what has to be known of an input to cut it."""
    length = bound.length(name)
    return CutInput(bound.scale(name), 1 if length is None else length, halo)
