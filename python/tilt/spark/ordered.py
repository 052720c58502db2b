"""Data frames whose partitions are already ranges of time, one after the other: rows stay where they are.

A job finds the first and last time of each partition, another fetches the rows of all halos by a filter on the time,
which files can skip by; tasks get them along with the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.errors import InternalError, QueryError, SchemaError
from tilt.spark.cuts import Ends, Slices
from tilt.spark.frames import mapped
from tilt.spark.frames import rows as rows_of
from tilt.spark.records import named
from tilt.spark.sliced import SlicedTask
from tilt.spark.survey import cut_input
from tilt.spark.task import as_integers, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from tilt.spark.plan import Bound

_PARTITION = "tilt partition"
_FILTERED = 64
"""How many gaps Spark filters by."""


@dataclass(frozen=True)
class Stretch:
    """A partition: the slice that it is, its times, and the rows around it that it has to see."""

    part: tuple[int, int]
    first: int
    last: int
    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class OrderedTask(SlicedTask):
    """Runs a query on partitions that are ranges of time."""

    span: tuple[int, int] = (0, 0)
    stretches: dict[int, Stretch] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the result of a partition."""
        from pyspark import TaskContext  # noqa: PLC0415

        (given,) = self.query.inputs
        found = list(batches)
        if not any(batch.num_rows for batch in found):
            return
        own = pa.Table.from_batches(found)
        context = TaskContext.get()
        number = context.partitionId() if context is not None else -1
        stretch = (self.stretches or {}).get(number)
        _refuse_missing(str(given.events.times), {number: own.column(str(given.events.times)).null_count})
        times = as_integers(own.column(str(given.events.times))) * self.cuts[0].scale
        if stretch is None or times.min() < stretch.first or times.max() > stretch.last:
            message = "partitions are not what they were when the query was planned; leave out ordered=True"
            raise InternalError(message)
        around = [stretch.before, in_order(own, str(given.events.times)), stretch.after]
        rows = pa.concat_tables([table.cast(given.schema) for table in around])
        for some, part in self.parts({given.name: rows}, stretch.part):
            yield from self.query.compute(some, span=self.span, part=part)


@dataclass(frozen=True)
class Ordered:
    """A query on a data frame whose partitions follow each other in time."""

    bound: Bound
    warmup: int | None
    imports: tuple[str, ...]

    def explain(self) -> str:
        """Say how the work is cut."""
        (name,) = self.bound.inputs
        columns = ", ".join(self.bound.columns(name))
        return (
            f"partitions are slices of the timeline, as they are; rows are not moved\n"
            f"~{name}: {self.bound.reach(name)}, fetched by a filter on the time; columns {columns}"
        )

    def frame(self) -> DataFrame:
        """Give the result. Two small jobs run at once: the times of partitions, and the rows of halos."""
        bound = self.bound
        if len(bound.inputs) > 1 or not isinstance(next(iter(bound.inputs.values())).events.times, str):
            message = "ordered=True is for one input with one column of times; leave it out"
            raise QueryError(message)
        (name,) = bound.inputs
        rows = rows_of(bound, name)
        time = str(bound.inputs[name].events.times)
        cut = cut_input(bound, name, bound.halo(name, self.warmup))
        known = self._stretched(rows, time, cut.scale)
        slices = Slices(tuple(last for _, _, last in known[:-1]))
        needs = slices.needs(cut.halo, Ends(edge for stretch in known for edge in stretch[1:]))
        limits = [cut.limits(*need) for need in needs]
        own = [(first // cut.scale, last // cut.scale) for _, first, last in known]
        halo = in_order(self._halo(rows, own, limits).toArrow(), str(bound.inputs[name].events.times))
        times = as_integers(halo.column(str(bound.inputs[name].events.times)))
        stretches = {}
        for at, (number, first, last) in enumerate(known):
            early, late = (
                halo.filter(pa.array((times > lo) & (times < hi)))
                for lo, hi in ((limits[at][0], own[at][0]), (own[at][1], limits[at][1]))
            )
            stretches[number] = Stretch(slices.part(at), first, last, early, late)
        span = (known[0][1] - cut.length, known[-1][2]) if known else (0, 0)
        task = OrderedTask(bound.task(self.imports), cuts=(cut,), span=span, stretches=stretches)
        return mapped(rows, task, bound.schema, bound.functions())

    @staticmethod
    def _stretched(rows: DataFrame, column: str, scale: int) -> list[tuple[int, int, int]]:
        """Give number, first and last time of each partition, in order of time, or refuse."""
        by, time = rows.groupBy(F.spark_partition_id().alias(_PARTITION)), named(column)
        found = by.agg(F.min(time).alias("first"), F.max(time).alias("last"), F.count_if(time.isNull())).toArrow()
        _refuse_missing(column, dict(zip(found.column(0).to_pylist(), found.column(3).to_pylist(), strict=True)))
        edges = [(as_integers(found.column(name)) * scale).tolist() for name in ("first", "last")]
        known = sorted(zip(found.column(0).to_pylist(), *edges, strict=True), key=lambda one: (one[1], one[2]))
        for (one, _, last), (other, first, _) in pairwise(known):
            if first <= last:
                message = f"partitions {one} and {other} overlap in time; leave out ordered=True, and rows are moved"
                raise QueryError(message)
        return known

    def _halo(self, rows: DataFrame, own: list[tuple[int, int]], limits: list[tuple[int, int]]) -> DataFrame:
        """Give the rows that some partition has to see of others, in the order of partitions and as they stand there.

        Files skip by the filter. Of many gaps it has some that cover all, as each takes time for every row; then a task
        finds the rows.
        """
        (name,) = self.bound.inputs
        time = str(self.bound.inputs[name].events.times)
        dtype = rows.select(named(time).alias("t")).schema["t"].dataType.simpleString()
        # Nothing is before the first partition or after the last.
        gaps = [(limits[at][0], own[at][0]) for at in range(1, len(own))]
        gaps += [(own[at][1], limits[at][1]) for at in range(len(own) - 1)]
        gaps = merged_gaps(gaps)
        if not gaps:
            return rows.limit(0)
        column, covering = named(time), covering_gaps(gaps, _FILTERED)
        wanted = [(column > _literal(lo, dtype)) & (column < _literal(hi, dtype)) for lo, hi in covering]
        near = rows.where(reduce(or_, wanted))
        if len(covering) == len(gaps):
            return near
        (given,) = self.bound.task(self.imports).inputs
        return mapped(near, NearTask(time, tuple(gaps)), given.schema)


def _refuse_missing(column: str, missing: Mapping[int, int]) -> None:
    """Refuse times that are null, of which partitions have some."""
    having = sorted(number for number, count in missing.items() if count)
    if not having:
        return
    first, *others = having
    more = f", and in {len(others)} others" if others else ""
    message = (
        f"time column `{column}` is null in {sum(missing.values())} rows, {missing[first]} of them in partition "
        f"{first}{more}; drop such rows or give them a time"
    )
    raise SchemaError(message, column=column)


@dataclass(frozen=True)
class NearTask:
    """Keeps the rows whose time is within a gap."""

    time: str
    gaps: tuple[tuple[int, int], ...]
    """Each of the numbers between two; they are in order and do not overlap."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the rows."""
        after, before = (np.array(edges, np.int64) for edges in zip(*self.gaps, strict=True))
        for batch in batches:
            times = as_integers(pa.chunked_array([batch.column(self.time)]))
            at = np.searchsorted(after, times) - 1
            yield batch.filter(pa.array((at >= 0) & (times < before[at])))


def merged_gaps(gaps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give gaps, each of the numbers between two, with one for those that overlap and none for those without numbers.

    >>> from tilt.spark.ordered import merged_gaps
    >>> merged_gaps([(20, 30), (3, 9), (5, 12), (40, 41), (29, 35)])
    [(3, 12), (20, 35)]
    """
    found: list[tuple[int, int]] = []
    for lo, hi in sorted(gaps):
        if hi - lo <= 1:
            continue
        if found and lo < found[-1][1]:
            lo, hi = found[-1][0], max(found.pop()[1], hi)  # noqa: PLW2901
        found.append((lo, hi))
    return found


def covering_gaps(gaps: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Give so many gaps at most that cover all of some, which are in order: those that are nearest are taken together.

    >>> from tilt.spark.ordered import covering_gaps
    >>> covering_gaps([(3, 12), (20, 35), (37, 39), (90, 99)], 3)
    [(3, 12), (20, 39), (90, 99)]
    """
    apart = [after - before for (_, before), (after, _) in pairwise(gaps)]
    widest = sorted(sorted(range(len(apart)), key=lambda at: -apart[at])[: most - 1])
    starts, ends = [0, *(at + 1 for at in widest)], [*widest, len(gaps) - 1]
    return [(gaps[first][0], gaps[last][1]) for first, last in zip(starts, ends, strict=True)]


def _literal(step: int, dtype: str) -> Any:  # noqa: ANN401
    """Give a number as a time of a type, as far as that has such."""
    edge = (1 << 31) - 1 if dtype in {"int", "date"} else 1 << 60
    number = F.lit(min(max(step, -edge), edge))
    if dtype == "timestamp":
        return F.timestamp_micros(number)
    if dtype == "timestamp_ntz":
        year_9999 = 253_402_300_799_000_000
        text = np.array(min(max(step, -year_9999 // 5), year_9999)).astype("datetime64[us]")
        return F.expr(f"timestamp_ntz'{str(text).replace('T', ' ')}'")
    if dtype == "date":
        return F.date_from_unix_date(number)
    return number.cast(dtype)
