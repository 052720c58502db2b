"""Where the timeline of data frames is cut.

A pass over the times tells how many rows there are, the first and the last time, and times that have about as many rows
between each other, so that slices have about the same number of rows.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.cuts import FOREVER, Ends, Slices
from tilt.spark.frames import mapped, merged, rows
from tilt.spark.placing import Plan
from tilt.spark.records import named
from tilt.spark.schemas import spark_schema
from tilt.spark.task import as_integers, partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.packing import Numbers
    from tilt.spark.plan import Bound

_POINTS = 16
"""How many times all partitions together tell for each slice, at least."""
_FEW, _LEAST = 1 << 12, 1 << 8
"""How many times each of the first partitions tells however few slices there are, and each of those after many."""
_FIRST = 1 << 10
"""How many the first partitions are."""
_HELD = 1 << 22
"""How many times of an input the task that cuts holds: of more, it keeps those that have as many rows between them."""
_CUT = 1 << 20
"""How many times of all inputs it cuts by: for each it needs some 300 bytes."""
_SPREAD = 0x9E3779B97F4A7C15
"""What makes partitions tell rows that stand at different places."""
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


def points_of(number: int, slices: int) -> int:
    """Give how many times a partition with a number tells, if it has as many.

    There are more partitions than its number says, so it tells the fewer the greater that is. Together they tell some
    ten million times of ten thousand partitions, forty of a hundred thousand, and up to twice as many.

    >>> from tilt.spark.survey import points_of
    >>> [points_of(number, 200) for number in (0, 1000, 10_000, 100_000)]
    [4096, 4096, 419, 256]
    >>> [points_of(number, 40_000) for number in (0, 1000, 10_000, 100_000)]
    [640000, 4096, 419, 256]
    """
    return max(_FEW * _FIRST // max(number + 1, _FIRST), _LEAST, _POINTS * slices // (number + 1))


@dataclass(frozen=True)
class SurveyTask:
    """Tells of the times of a partition how many there are, the first and the last, and some that are spread as all."""

    input: int
    times: tuple[str, str]
    """The columns of starts and ends, which may be one."""
    slices: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row."""
        number = partition()
        points = points_of(number, self.slices)
        # Rows are told of which the place is a multiple of the step, counted from before the first: where partitions
        # have rows of the same times, they tell different ones.
        before = number * _SPREAD
        count = 0
        edges: list[int] = []
        held: list[Numbers] = []
        step, at = 1, before
        for batch in batches:
            start, end = (as_integers(pa.chunked_array([batch.column(name).drop_null()])) for name in self.times)
            if not len(end) or not len(start):
                continue
            edges += [int(start.min()), int(end.max())]
            held.append(end[-(before + count) % step :: step])
            count += len(end)
            while sum(map(len, held)) > 2 * points:
                first = at // step % 2
                held = [np.concatenate(held)[first::2]]
                at += first * step
                step *= 2
        if count:
            told = {"input": self.input, "rows": count, "first": min(edges), "last": max(edges)}
            yield row_of({**told, "points": np.sort(np.concatenate(held))}, _TOLD)


@dataclass
class Told:
    """What partitions tell of the times of an input, in ticks."""

    given: CutInput
    points: list[Numbers] = field(default_factory=list)
    weights: list[Numbers] = field(default_factory=list)
    """How many rows each point stands for."""
    start: int = FOREVER
    end: int = -FOREVER

    def add(self, told: pa.RecordBatch) -> None:
        """Take what some partitions tell."""
        if not told.num_rows:
            return
        rows, first, last = (told.column(name).to_numpy() for name in ("rows", "first", "last"))
        lengths = told.column("points").value_lengths().to_numpy()
        self.points.append(told.column("points").flatten().to_numpy() * self.given.scale)
        self.weights.append(np.repeat(rows / lengths, lengths))
        self.start = min(self.start, int(first.min()) * self.given.scale - self.given.length)
        self.end = max(self.end, int(last.max()) * self.given.scale)
        if sum(map(len, self.points)) > _HELD:
            self.thin(_HELD // 4)

    def thin(self, number: int) -> None:
        """Keep so many points, if there are more."""
        if sum(map(len, self.points)) > number:
            points, weights = thinned(np.concatenate(self.points), np.concatenate(self.weights), number)
            self.points, self.weights = [points], [weights]


def thinned(points: Numbers, weights: Numbers, number: int) -> tuple[Numbers, Numbers]:
    """Keep so many points, between which there are about as many rows, each with the rows since the one before.

    >>> import numpy as np
    >>> from tilt.spark.survey import thinned
    >>> thinned(np.array([3, 1, 2, 4]), np.array([1.0, 1.0, 1.0, 3.0]), 2)
    (array([3, 4]), array([3., 3.]))
    """
    order = np.argsort(points, kind="stable")
    before = np.cumsum(weights[order])
    wanted = before[-1] * np.arange(1, number + 1) / number
    kept = np.unique(np.minimum(np.searchsorted(before, wanted), len(order) - 1))
    return points[order][kept], np.diff(before[kept], prepend=0.0)


@dataclass(frozen=True)
class CutTask:
    """Turns what partitions tell of the times of all inputs into slices, and what each has to see: one row."""

    slices: int
    inputs: tuple[CutInput, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a plan."""
        told = [Told(given) for given in self.inputs]
        for batch in batches:
            of = batch.column("input").to_numpy()
            for at, known in enumerate(told):
                known.add(batch.filter(pa.array(of == at)))
        yield planned(None, told, dict.fromkeys(range(self.slices), 1 / self.slices))


def planned(keys: tuple[int, ...] | None, told: Sequence[Told], shares: Mapping[int, float]) -> pa.RecordBatch:
    """Give a plan for what is told of rows: at some places a slice with a share of them. And when all begin and end."""
    for one in told:
        one.thin(_CUT // len(told))
    known = [np.concatenate([np.empty(0, np.int64), *one.points]) for one in told]
    spread = np.concatenate(known)
    weights = np.concatenate([weights for one in told for weights in one.weights]) if len(spread) else np.empty(0)
    order = np.lexsort((weights, spread))
    spread, weights = spread[order], weights[order]
    # A time stands for its own row, and for others that are as many before as after it.
    others = np.append((weights - 1) / 2, 0.0)
    counts = np.append(others[-1:], others[:-1]) + others + np.append(np.ones(len(weights)), 0.0)
    edges = (np.append(spread[:1], spread), np.append(spread, spread[-1:]))
    cuts = Slices.by_shares(*edges, counts, [*shares.values()]) if len(spread) else []
    # Where many rows have one time a slice may have none: what follows moves up.
    slices = Slices(tuple(sorted(set(cuts))))
    places = [*shares][: len(slices)]
    limits = tuple(
        tuple(one.given.limits(*need) for need in slices.needs(one.given.halo, Ends(ends)))
        for one, ends in zip(told, known, strict=True)
    )
    plan = pickle.dumps(Plan(slices, limits, keys, None if keys is None else tuple(places)))
    values: dict[str, Any] = {"plan": plan}
    if len(spread):
        start, end = min(one.start for one in told), max(one.end for one in told)
        values |= {"slices": len(slices), "start": start, "end": end}
        for edge, at in (("lo", (None, *slices.cuts)), ("hi", (*slices.cuts, None))):
            of = dict(zip(places, at, strict=True))
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
        task = SurveyTask(at, both, self.slices)
        return mapped(columns, task, _TOLD)


def row_of(values: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Give a row; values that are not there are null."""
    return pa.record_batch([pa.array([values.get(field.name)], field.type) for field in schema], schema)


def cut_input(bound: Bound, name: str, halo: Halo) -> CutInput:
    """Give what has to be known of an input to cut it."""
    length = bound.length(name)
    return CutInput(bound.scale(name), 1 if length is None else length, halo)
