"""Keys that have more rows than a task should: they are cut by time, as queries without a key are.

A sample of the rows says which keys these are and where their timeline is cut. Rows are in it or not by a hash of what
they hold, so that a sample is the same however often it is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.cuts import Blocks, Slices
from tilt.spark.frames import merged, times
from tilt.spark.records import named
from tilt.spark.schemas import spark_schema
from tilt.spark.survey import cells, cut_input, limits_schema, sliced_limits
from tilt.spark.task import as_integers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.frames import Slots
    from tilt.spark.plan import Bound
    from tilt.spark.survey import CutInput

ONE_IN = 64
"""Of so many rows one is in the sample."""
ENOUGH = 256
"""How many rows of a sample a key must have to be split: with fewer it is small, or the sample says too little."""
_KEYS, _POINTS = 64, 256
"""Of how many keys a partition tells times, and how many of them."""
_HASH, _TIME = "hash", "time"
_SAMPLED = pa.schema([("hash", pa.int64()), ("rows", pa.int64()), ("ticks", pa.list_(pa.int64()))])


@dataclass(frozen=True)
class SampleTask:
    """Tells of the sampled rows of a partition how many there are, and how many of the most frequent keys, and when."""

    scale: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row for each of these keys, and one without a key for all."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows = pa.Table.from_batches(found)
        rows = rows.filter(rows.column(_TIME).is_valid())
        hashes = rows.column(_HASH).to_numpy()
        ticks = as_integers(rows.column(_TIME)) * self.scale
        keys, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        most = np.argsort(-counts, kind="stable")[:_KEYS]
        told = []
        for key in most:
            mine = np.sort(ticks[inverse == key])
            points = mine[np.linspace(0, len(mine) - 1, min(len(mine), _POINTS)).astype(np.int64)]
            told.append((int(keys[key]), len(mine), points.tolist()))
        columns = zip(*told, (None, len(rows), []), strict=True)
        yield pa.record_batch([pa.array(list(c), f.type) for c, f in zip(columns, _SAMPLED, strict=True)], _SAMPLED)


@dataclass(frozen=True)
class SkewTask:
    """Turns what samples tell into keys to split, slices of their rows, and what each has to see: one row."""

    partitions: int
    skew: float
    """How many times the rows of an average partition a key must have to be split."""
    enough: int
    inputs: tuple[CutInput, ...]

    def schema(self) -> pa.Schema:
        """Give the columns of the row: hashes of keys, and those of :class:`tilt.spark.survey.CutTask`."""
        number = pa.int64()
        fields = [("keys", pa.list_(number)), ("slices", number), ("cuts", pa.list_(number))]
        return pa.schema(fields + limits_schema(self.inputs))

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the row."""
        total = 0
        rows: dict[int, int] = {}
        points: dict[int, list[tuple[int, int, float]]] = {}
        for batch in batches:
            for told in batch.to_pylist():
                key, count, ticks = told["hash"], told["rows"], told["ticks"]
                if key is None:
                    total += count
                    continue
                rows[key] = rows.get(key, 0) + count
                points.setdefault(key, []).extend((at, at, count / len(ticks)) for at in ticks)
        mean = total / self.partitions
        split = sorted(key for key, count in rows.items() if count >= max(self.skew * mean, self.enough))
        found: dict[str, Any] = {"keys": split, "slices": 0}
        if split:
            share = sum(rows[key] for key in split) / mean
            number = min(max(round(share), 2), self.partitions)
            slices = Slices.by_counts([point for key in split for point in points[key]], number)
            found |= {"slices": len(slices), "cuts": slices.cuts}
            found |= sliced_limits(slices, self.inputs, [Blocks([]) for _ in self.inputs])
        yield cells(found, self.schema())


@dataclass(frozen=True)
class Skew:
    """What has to be known of keys before rows are moved. It is found when the job runs, by a subquery."""

    bound: Bound
    slots: Slots
    partitions: int
    skew: float
    halos: Mapping[str, Halo]

    def plan(self) -> Column:
        """Give the row of :class:`SkewTask` as a value."""
        inputs = tuple(cut_input(self.bound, name, halo) for name, halo in self.halos.items())
        task = SkewTask(self.partitions, self.skew, ENOUGH, inputs)
        keyed = [name for name, source in self.bound.inputs.items() if source.events.key is not None]
        told = merged([self._sampled(name) for name in keyed]).repartition(1)
        return told.mapInArrow(shipped(task), spark_schema(task.schema())).select(F.struct("*")).scalar()

    def _sampled(self, name: str) -> DataFrame:
        key = named(self.slots.columns[name][str(self.bound.inputs[name].events.key)])
        _, end = times(self.bound, self.slots, name)
        rows = self.slots.rows(self.bound, name).select(F.xxhash64(key).alias(_HASH), end.alias(_TIME))
        drawn = rows.where(F.pmod(F.xxhash64(_HASH, _TIME), F.lit(ONE_IN)) == 0)
        return drawn.mapInArrow(shipped(SampleTask(self.bound.scale(name))), spark_schema(_SAMPLED))
