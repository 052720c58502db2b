"""Queries without a key: the timeline is cut into slices, and those that follow each other share a task.

Every row goes to its own slice and to those whose halo it is in; then a partition holds all that a slice needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.carried import CarriedTask, Reads, carried, carriers_of
from tilt.spark.frames import moved, packed
from tilt.spark.further import cut_further
from tilt.spark.schemas import spark_schema
from tilt.spark.survey import CutInput, Survey, cut_input
from tilt.spark.task import PartitionTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.plan import Bound


@dataclass(frozen=True)
class SlicedTask(PartitionTask):
    """Runs a query on a slice, part by part if that has many rows: only one part's result is held at a time."""

    cuts: tuple[CutInput, ...] = ()

    def parts(
        self, rows: dict[str, pa.Table], whole: tuple[int, int]
    ) -> Iterator[tuple[dict[str, pa.Table], tuple[int, int]]]:
        """Give parts of the slice with the rows that each needs."""
        yield from cut_further(self.query, self.cuts, rows, whole)


@dataclass(frozen=True)
class Sliced:
    """A query that runs on slices of the timeline."""

    bound: Bound
    slices: int
    tasks: int
    """How many tasks run them, each some that follow each other."""
    warmup: int | None
    imports: tuple[str, ...]

    @cached_property
    def reads(self) -> Reads | None:
        """What is carried from slice to slice, if the query needs it and it is enough."""
        bound = self.bound
        is_bounded = all(back != "unbounded" for back, _ in bound.program.lineage().values())
        return None if is_bounded or self.warmup is not None or bound.key else Reads.of(bound)

    def halos(self) -> dict[str, Halo]:
        """Give what the result depends on of each input, what is carried aside."""
        lineage = self.bound.program.lineage() if self.reads is None else self.reads.lineage
        return {name: self.bound.halo_of(name, lineage, self.warmup) for name in self.bound.inputs}

    def explain(self) -> str:
        """Say how the work is cut."""
        cut = f"{self.slices} slices of the timeline with about the same number of rows, cut when the job runs"
        lines = [f"{cut}, in {self.tasks} tasks"]
        for name in self.bound.inputs:
            reach = self.bound.reach(name)
            is_warm = "lookback unbounded" in reach and self.warmup is not None
            warm = f" (warm-up of {self.warmup} ticks)" if is_warm else ""
            lines.append(f"~{name}: {reach}{warm}; columns {', '.join(self.bound.columns(name))}")
        if self.reads is not None:
            lines.append(self.reads.explain())
        return "\n".join(lines)

    def frame(self) -> DataFrame:
        """Give the result."""
        bound, halos = self.bound, self.halos()
        plan = Survey(bound, self.slices, halos).plan()
        number = F.col("id").cast("int")
        exists = number < F.col("plan.slices")
        about = {
            "slice": F.when(exists, F.col("id")),
            "lo": F.get("plan.lo", number),
            "hi": F.get("plan.hi", number),
            "start": F.when(exists, F.col("plan.start")),
            "end": F.when(exists, F.col("plan.end")),
        }
        query = bound.task(self.imports)
        packs = packed(bound, query, self.slices, plan)
        cuts = tuple(cut_input(bound, name, halo) for name, halo in halos.items())
        task: PartitionTask = SlicedTask(query, cuts=cuts)
        if self.reads is not None:
            packs.append(carried(bound, query, self.reads, plan))
            task = CarriedTask(query, self.reads.text, carriers_of(query, self.reads), cuts)
        blocks = moved(packs, self.slices, self.tasks, about, {"plan": plan})
        return blocks.mapInArrow(shipped(task, bound.functions()), spark_schema(bound.schema))
