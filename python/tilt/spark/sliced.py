"""Queries without a key: the timeline is cut into slices, and each is a task.

Every row goes to its own slice and to those whose halo it is in; then a partition holds all that a slice needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.frames import PLACE, Slots, counted, merged, placed, times
from tilt.spark.schemas import spark_schema
from tilt.spark.survey import Survey
from tilt.spark.task import PartitionTask

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.plan import Bound

_FIRST, _LAST = "tilt first", "tilt last"


@dataclass(frozen=True)
class Sliced:
    """A query that runs on slices of the timeline."""

    bound: Bound
    slices: int
    warmup: int | None
    imports: tuple[str, ...]

    def halos(self) -> dict[str, Halo]:
        """Give what the result depends on of each input."""
        return {name: self.bound.halo(name, self.warmup) for name in self.bound.inputs}

    def explain(self) -> str:
        """Say how the work is cut."""
        lines = [f"{self.slices} slices of the timeline with about the same number of rows, cut when the job runs"]
        for name in self.bound.inputs:
            back, ahead = self.bound.program.lineage().get(name, ("0", "0"))
            warm = f" (warm-up of {self.warmup} ticks)" if back == "unbounded" else ""
            columns = ", ".join(self.bound.columns(name))
            lines.append(f"~{name}: lookback {back}{warm}, lookahead {ahead}; columns {columns}")
        return "\n".join(lines)

    def frame(self) -> DataFrame:
        """Give the result."""
        bound, slots = self.bound, Slots.of(self.bound)
        plan = Survey(bound, slots, self.slices, self.halos()).plan()
        parts = [slots.tagged(self._copied(slots, at, name, plan), at) for at, name in enumerate(bound.inputs)]
        exists = F.col("id") < plan.getField("slices")
        spark = next(iter(bound.inputs.values())).session
        parts.append(
            slots.header(
                spark,
                self.slices,
                {
                    "lo": F.when(F.col("id") > 0, F.get(plan.getField("cuts"), F.col("id").cast("int") - 1)),
                    "hi": F.get(plan.getField("cuts"), F.col("id").cast("int")),
                    "start": F.when(exists, plan.getField("start")),
                    "end": F.when(exists, plan.getField("end")),
                },
            )
        )
        task = PartitionTask(bound.task(slots.columns, self.imports), has_header=True)
        rows = placed(merged(parts), self.slices)
        return rows.mapInArrow(shipped(task, bound.functions()), spark_schema(bound.schema))

    def _copied(self, slots: Slots, at: int, name: str, plan: Column) -> DataFrame:
        """Give the rows of an input, each as often as slices need it."""
        start, end = times(self.bound, slots, name)
        after, before = plan.getField(f"after_{at}"), plan.getField(f"before_{at}")
        rows = slots.rows(self.bound, name)
        rows = counted(rows, {_LAST: (after, end, False), _FIRST: (before, start, True)}, self.slices)
        # A row without a time goes to the first slice, which says so.
        last = F.greatest(F.col(_FIRST), F.col(_LAST))
        return rows.withColumn(PLACE, F.explode(F.sequence(F.col(_FIRST), last))).drop(_FIRST, _LAST)
