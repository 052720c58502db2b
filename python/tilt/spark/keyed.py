"""Queries with a key: rows go to partitions by their key, and a task runs all keys of its partition at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.cuts import Halo, Reach
from tilt.spark.frames import PLACE, Slots, merged, named, placed
from tilt.spark.schemas import spark_schema
from tilt.spark.survey import Survey
from tilt.spark.task import PartitionTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tilt.spark.plan import Bound


@dataclass(frozen=True)
class Keyed:
    """A query that runs for each key."""

    bound: Bound
    partitions: int
    imports: tuple[str, ...]

    def explain(self) -> str:
        """Say how the work is cut."""
        lines = [f"{self.partitions} partitions, all keys of one in a task"]
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
        rows = merged(self._parts(slots))
        task = PartitionTask(bound.task(slots.columns, self.imports))
        moved = placed(rows, self.partitions)
        return moved.mapInArrow(shipped(task, bound.functions()), spark_schema(bound.schema))

    def _parts(self, slots: Slots) -> list[DataFrame]:
        """Give the rows of all inputs, and what tasks have to know of all of them."""
        bound = self.bound
        parts = [self._by_key(slots, name) for name in bound.inputs]
        if len(parts) == 1 and not bound.needs_span:
            return parts
        parts = [slots.tagged(part, at) for at, part in enumerate(parts)]
        if bound.needs_span:
            here = Halo(Reach(0), Reach(0))
            plan = Survey(bound, slots, 1, dict.fromkeys(bound.inputs, here)).plan()
            span = {edge: plan.getField(edge) for edge in ("start", "end")}
            parts.append(slots.header(next(iter(bound.inputs.values())).session, self.partitions, span))
        return parts

    def _by_key(self, slots: Slots, name: str) -> DataFrame:
        """Give the rows of an input, each with its partition; those of an input without a key go to all."""
        rows = slots.rows(self.bound, name)
        key = self.bound.inputs[name].events.key
        if key is None:
            every = F.explode(F.sequence(F.lit(0), F.lit(self.partitions - 1)))
            return rows.withColumn(PLACE, every)
        hashed = F.xxhash64(named(slots.columns[name][key]))
        return rows.withColumn(PLACE, F.pmod(hashed, F.lit(self.partitions)).cast("int"))
