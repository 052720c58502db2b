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
from tilt.spark.frames import moved, packed
from tilt.spark.schemas import spark_schema
from tilt.spark.skew import Skew
from tilt.spark.sliced import SlicedTask
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
    """Partitions of more rows than so many average ones have their largest keys cut by time; ``None``: none is."""

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
                f"the largest keys of one with the rows of {self.skew:g} on average are cut by time when the job runs"
            )
        for name, source in self.bound.inputs.items():
            key = source.events.key
            how = f"by key `{key}`" if key is not None else "all rows to every task, as it has no key"
            lines.append(f"~{name}: {how}; {self.bound.reach(name)}; columns {', '.join(self.bound.columns(name))}")
        if self.bound.needs_span:
            lines.append("first and last time are found first, as results depend on when the run begins and ends")
        return "\n".join(lines)

    def frame(self) -> DataFrame:
        """Give the result."""
        bound = self.bound
        query = bound.task(self.imports)
        task = PartitionTask(query)
        if self.halos is not None:
            task = SlicedTask(query, cuts=tuple(cut_input(bound, name, halo) for name, halo in self.halos.items()))
        about: dict[str, Column] = {}
        plans: dict[str, Column] = {}
        if bound.needs_span:
            here = Halo(Reach(0), Reach(0))
            plans["span"] = Survey(bound, 1, dict.fromkeys(bound.inputs, here)).plan()
            about |= {edge: F.col(f"span.{edge}") for edge in ("start", "end")}
        if self.splits:
            plans["plan"] = Skew(bound, self.partitions, self.skew or 0, self.halos or {}).plan()
            # Partitions may have a slice of the keys that are cut, besides keys that are whole.
            number = F.col("id").cast("int")
            about |= {edge: F.get(f"plan.{edge}", number) for edge in ("lo", "hi")}
        packs = packed(bound, query, self.partitions, plans.get("plan"))
        blocks = moved(packs, self.partitions, self.partitions, about, plans)
        return blocks.mapInArrow(shipped(task, bound.functions()), spark_schema(bound.schema))
