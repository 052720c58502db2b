"""Queries with a key: rows go to partitions by their key, and a task runs all keys of its partition at once.

Keys that have many rows are cut by time, if the query can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tilt.errors import QueryError
from tilt.spark.boot import shipped
from tilt.spark.cuts import Halo, Reach
from tilt.spark.frames import PLACE, Slots, merged, placed, times
from tilt.spark.records import named
from tilt.spark.schemas import spark_schema
from tilt.spark.skew import Skew
from tilt.spark.sliced import SEARCHED, SlicedTask, needed
from tilt.spark.survey import Survey, cut_input
from tilt.spark.task import PartitionTask

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tilt.spark.plan import Bound


@dataclass(frozen=True)
class Keyed:
    """A query that runs for each key."""

    bound: Bound
    partitions: int
    imports: tuple[str, ...]
    skew: float | None = None
    """How many times the rows of an average partition a key must have to be cut by time; ``None``: none is."""

    @cached_property
    def halos(self) -> dict[str, Halo] | None:
        """What the result depends on of each input, if keys can be cut by time."""
        try:
            found = {name: self.bound.halo(name, None) for name in self.bound.inputs}
        except QueryError:
            return None
        return None if any(halo.counts_events for halo in found.values()) or self.bound.fills else found

    @property
    def splits(self) -> bool:
        """Whether keys with many rows are cut by time."""
        return self.skew is not None and self.halos is not None

    def explain(self) -> str:
        """Say how the work is cut."""
        lines = [f"{self.partitions} partitions, all keys of one in a task"]
        if self.splits:
            lines.append(
                f"keys that have more rows than {self.skew:g} of these on average are cut by time when the job runs"
            )
        for name, source in self.bound.inputs.items():
            key = source.events.key
            how = f"by key `{key}`" if key is not None else "all rows to every task, as it has no key"
            lines.append(f"~{name}: {how}; columns {', '.join(self.bound.columns(name))}")
        if self.bound.needs_span:
            lines.append("first and last time are found first, as results depend on when the run begins and ends")
        return "\n".join(lines)

    def frame(self) -> DataFrame:
        """Give the result."""
        bound, slots = self.bound, Slots.of(self.bound)
        query = bound.task(slots.columns, self.imports)
        task = PartitionTask(query)
        if self.halos is not None:
            task = SlicedTask(query, cuts=tuple(cut_input(bound, name, halo) for name, halo in self.halos.items()))
        places = 2 * self.partitions if self.splits else self.partitions
        moved = placed(merged(self._parts(slots, places)), places)
        return moved.mapInArrow(shipped(task, bound.functions()), spark_schema(bound.schema))

    def _parts(self, slots: Slots, places: int) -> list[DataFrame]:
        """Give the rows of all inputs, and what tasks have to know of all of them."""
        bound, plan = self.bound, None
        if self.splits:
            plan = Skew(bound, slots, self.partitions, self.skew or 0, self.halos or {}).plan()
        parts = [self._by_key(slots, at, name, plan) for at, name in enumerate(bound.inputs)]
        if len(parts) == 1 and plan is None and not bound.needs_span:
            return parts
        parts = [slots.tagged(part, at) for at, part in enumerate(parts)]
        about: dict[str, Column] = {}
        if bound.needs_span:
            here = Halo(Reach(0), Reach(0))
            span = Survey(bound, slots, 1, dict.fromkeys(bound.inputs, here)).plan()
            about |= {edge: span.getField(edge) for edge in ("start", "end")}
        if plan is not None:
            # Partitions after those of keys are slices of the keys that are split.
            number = F.col("id").cast("int") - self.partitions
            is_slice = (number >= 0) & (number < plan.getField("slices"))
            about = {edge: F.when((number < 0) | is_slice, value) for edge, value in about.items()}
            about["lo"] = F.when(is_slice & (number > 0), F.get(plan.getField("cuts"), number - 1))
            about["hi"] = F.when(is_slice, F.get(plan.getField("cuts"), number))
        if about:
            parts.append(slots.header(next(iter(bound.inputs.values())).session, places, about))
        return parts

    def _by_key(self, slots: Slots, at: int, name: str, plan: Column | None) -> DataFrame:
        """Give the rows of an input, each with its partition; those of an input without a key go to all."""
        rows = slots.rows(self.bound, name)
        key = self.bound.inputs[name].events.key
        every = F.sequence(F.lit(0), F.lit(self.partitions - 1))
        place = is_split = None
        if key is not None:
            hashed = F.xxhash64(named(slots.columns[name][key]))
            place = F.pmod(hashed, F.lit(self.partitions)).cast("int")
            is_split = None if plan is None else F.array_contains(plan.getField("keys"), hashed)
        if plan is None:
            return rows.withColumn(PLACE, F.explode(every) if place is None else place)
        # Nothing is searched for rows of keys that stay whole.
        span = times(self.bound, slots, name)
        start, end = span if is_split is None else (F.when(is_split, each) for each in span)
        rows, slices = needed(rows, (start, end), plan, at, self.partitions, first_place=self.partitions)
        if place is None or is_split is None:
            slices = F.when(plan.getField("slices") > 0, slices).otherwise(F.array().cast("array<int>"))
            found = F.concat(every, slices)
        else:
            found = F.when(is_split, slices).otherwise(F.array(place))
        return rows.withColumn(PLACE, F.explode(found)).drop(*SEARCHED)
