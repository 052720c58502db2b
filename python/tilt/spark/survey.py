"""Where the timeline of data frames is cut.

The cut points are approximate quantiles of the event times, so that slices have about the same number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.cuts import FOREVER, Blocks, Slices
from tilt.spark.frames import counted, times
from tilt.spark.schemas import spark_schema
from tilt.spark.task import as_integers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.frames import Slots
    from tilt.spark.plan import Bound

_CELL = "tilt cell"
AT_ONCE = 1 << 23
"""How many rows a query is run on at once, halo aside: a slice that has more is cut further."""
QUANTILES = 4
"""How many quantiles there are for each slice, so that cuts do not depend on rows being spread evenly."""
_CELLS = 16
"""Into how many cells a slice is divided to know where events are, for reaches that count events."""


@dataclass(frozen=True)
class CutInput:
    """What has to be known of an input to cut it."""

    dtype: pa.DataType
    """The type of its column of times."""
    scale: int
    """How many ticks one step of it is."""
    length: int
    """How many ticks an event is long, 0 if each row says it."""
    halo: Halo

    def ticks(self, times: pa.Array) -> list[int]:
        """Give times, or those of a list, in ticks."""
        values = times.values if pa.types.is_list(times.type) else times
        return (as_integers(pa.chunked_array([values.drop_null()])) * self.scale).tolist()  # type: ignore[no-any-return]

    def limits(self, after: int, before: int) -> tuple[int, int]:
        """Give, of ticks after which rows must end and before which they must start, what to compare times with.

        Starts are looked up by the end that an event with this start has, and both limits err on the far side.
        """
        return (after - 1) // self.scale, (before + self.length) // self.scale + 1

    def times(self, steps: list[int]) -> pa.Array:
        """Give numbers as times, as far as the type has such."""
        width, edge = (pa.int32(), (1 << 31) - 1) if self.dtype in {pa.int32(), pa.date32()} else (pa.int64(), FOREVER)
        return pa.array([min(max(step, -edge), edge) for step in steps], width).view(self.dtype)


@dataclass(frozen=True)
class CutTask:
    """Turns what is known of the times of all inputs into slices, and what each has to see: a row into a row."""

    slices: int
    inputs: tuple[CutInput, ...]

    def schema(self) -> pa.Schema:
        """Give the columns of the row.

        ``after_0`` are, for the slices from the second on, the times after which rows of the first input matter;
        ``before_0``, for those up to the last but one, the times at which rows start too late.
        """
        number = pa.int64()
        fields = [("start", number), ("end", number), ("slices", number), ("cuts", pa.list_(number))]
        return pa.schema(fields + limits_schema(self.inputs))

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the row of slices for the row of facts."""
        for batch in batches:
            for row in range(batch.num_rows):
                yield cells(self._sliced(batch.slice(row, 1)), self.schema())

    def _sliced(self, facts: pa.RecordBatch) -> dict[str, Any]:
        starts: list[int] = []
        ends: list[int] = []
        counted: list[tuple[int, int, float]] = []
        for at, given in enumerate(self.inputs):
            rows = facts.column(f"rows_{at}")[0].as_py()
            if rows:
                starts += [ticks - given.length for ticks in given.ticks(facts.column(f"first_{at}"))]
                ends += given.ticks(facts.column(f"last_{at}"))
                points = given.ticks(facts.column(f"quantiles_{at}")) if self.slices > 1 else []
                share = rows / max(len(points) - 1, 1)
                counted += [(a, b, share) for a, b in pairwise(points)]
        if not starts:
            return {}
        slices = Slices.by_counts(counted, self.slices)
        found: dict[str, Any] = {"start": min(starts), "end": max(ends), "slices": len(slices), "cuts": slices.cuts}
        known = []
        for at, given in enumerate(self.inputs):
            edges = []
            if given.halo.counts_events and self.slices > 1:
                edges = given.ticks(facts.column(f"blocks_{at}"))
            known.append(Blocks(list(zip(edges[::2], edges[1::2], strict=True))))
        return found | sliced_limits(slices, self.inputs, known)


@dataclass(frozen=True)
class Survey:
    """What has to be known of all times before rows are moved. It is found when the job runs, by a subquery."""

    bound: Bound
    slots: Slots
    slices: int
    halos: Mapping[str, Halo]

    def plan(self) -> Column:
        """Give the row of :class:`CutTask` as a value."""
        inputs = tuple(cut_input(self.bound, name, halo) for name, halo in self.halos.items())
        cut = CutTask(self.slices, inputs)
        first, *others = (self._facts(at, name, inputs[at]) for at, name in enumerate(self.bound.inputs))
        for other in others:
            first = first.crossJoin(other)
        known = first.coalesce(1).mapInArrow(shipped(cut), spark_schema(cut.schema()))
        return known.select(F.struct("*")).scalar()

    def _facts(self, at: int, name: str, given: CutInput) -> DataFrame:
        """Give what is known of an input's times: a row."""
        start, end = times(self.bound, self.slots, name)
        rows = self.slots.rows(self.bound, name)
        spans = {f"rows_{at}": F.count(end), f"first_{at}": F.min(start), f"last_{at}": F.max(end)}
        if self.slices == 1:
            return rows.agg(*(value.alias(column) for column, value in spans.items()))
        count = self.slices * (_CELLS if given.halo.counts_events else QUANTILES)
        quantiles = F.percentile_approx(end, [i / count for i in range(count + 1)], max(1_000, 20 * count))
        spans[f"quantiles_{at}"] = quantiles
        facts = rows.agg(*(value.alias(column) for column, value in spans.items()))
        if not given.halo.counts_events:
            return facts
        edges = facts.select(f"quantiles_{at}").scalar()
        celled = counted(rows.select(end), {_CELL: (edges, end, False)}, count + 1).groupBy(_CELL)
        blocks = celled.agg(F.min(end).alias("first"), F.max(end).alias("last")).where("first is not null")
        flat = blocks.agg(F.flatten(F.collect_list(F.array("first", "last"))).alias(f"blocks_{at}"))
        return facts.crossJoin(flat)


def limits_schema(inputs: Sequence[CutInput]) -> list[tuple[str, pa.DataType]]:
    """Give the columns that say which rows of each input matter to which slice."""
    return [(f"{side}_{at}", pa.list_(given.dtype)) for at, given in enumerate(inputs) for side in ("after", "before")]


def sliced_limits(slices: Slices, inputs: Sequence[CutInput], blocks: Sequence[Blocks]) -> dict[str, pa.Array]:
    """Give these columns."""
    found = {}
    for at, (given, known) in enumerate(zip(inputs, blocks, strict=True)):
        limits = [given.limits(*need) for need in slices.needs(given.halo, known)]
        found[f"after_{at}"] = given.times([after for after, _ in limits[1:]])
        found[f"before_{at}"] = given.times([before for _, before in limits[:-1]])
    return found


def cells(values: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Give a row; values that are not there are null."""
    return pa.record_batch([_cell(values.get(field.name), field.type) for field in schema], schema)


def _cell(value: Any, dtype: pa.DataType) -> pa.Array:  # noqa: ANN401
    """Give a column of one value."""
    if isinstance(value, pa.Array):
        return pa.ListArray.from_arrays([0, len(value)], value)
    return pa.array([value], dtype)


def cut_input(bound: Bound, name: str, halo: Halo) -> CutInput:
    """Give what has to be known of an input to cut it."""
    length = bound.length(name)
    return CutInput(bound.time_type(name), bound.scale(name), 1 if length is None else length, halo)
