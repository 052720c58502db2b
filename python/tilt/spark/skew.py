"""Keys that make partitions larger than a task should be: they are cut by time, as queries without a key are.

A sample of the rows says which keys these are and where their timeline is cut. Rows are in it or not by a hash of what
they hold, so that a sample is the same however often it is drawn. Slices go where there are few other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.spark.boot import shipped
from tilt.spark.frames import hashed, merged, rows
from tilt.spark.placing import known_hashes
from tilt.spark.records import named
from tilt.spark.schemas import spark_schema
from tilt.spark.survey import PLANNED, Told, cut_input, planned, row_of
from tilt.spark.task import as_integers, partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from tilt.spark.cuts import Halo
    from tilt.spark.packing import Numbers
    from tilt.spark.plan import Bound
    from tilt.spark.survey import CutInput

ONE_IN = 64
"""Of so many rows one is in the sample."""
ENOUGH = 256
"""How many rows of a sample a key must have to be split: with fewer it is small, or the sample says too little."""
_KEYS, _POINTS, _LEAST_POINTS = 64, 256, 4
"""Of how many keys a partition tells times, how many of them, and how many if it is one of many."""
_FIRST = 1 << 10
"""Partitions after so many tell fewer."""
_GOLDEN = 0.6180339887498949
_TOGETHER = 1 << 8
"""The rows of how many places stand in one row: Spark hands over some thousand rows at once."""
_MERGES = 32
"""How many tasks add up the rows of places, if these are more than stand in one row."""
_LEAST = 1 / 64
"""Which share of the rows that a place has on average a key must have to be worth telling."""
KEY, TIME = "tilt key", "tilt time"
_SAMPLED = pa.schema(
    [
        ("hash", pa.int64()),
        ("input", pa.int32()),
        ("rows", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("points", pa.list_(pa.int64())),
        ("place", pa.int32()),
        ("loads", pa.list_(pa.int64())),
    ]
)
"""Of a key in a partition; or, without a hash, how many rows places have from one on."""


@dataclass(frozen=True)
class SampleTask:
    """Tells of the sampled rows of a partition how many go to each place, how many have frequent keys, and when."""

    input: int
    places: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row for each of these keys, and one without a key, which has the rows of places."""
        found = [batch.filter(batch.column(TIME).is_valid()) for batch in batches]
        if not any(batch.num_rows for batch in found):
            return
        hashes = np.concatenate([known_hashes(batch, KEY) for batch in found])
        times = as_integers(pa.Table.from_batches(found).column(TIME))
        keys, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:_KEYS]
        told: list[dict[str, Any]] = []
        # Partitions that have rows of the same times tell different ones.
        shift = partition() * _GOLDEN % 1
        many = max(_POINTS * _FIRST // max(partition() + 1, _FIRST), _LEAST_POINTS)
        # Most often there is none.
        for key in frequent[counts[frequent] >= _LEAST * len(hashes) / self.places].tolist():
            mine = np.sort(times[inverse == key])
            number = min(len(mine), many)
            points = mine[((np.arange(number) + shift) * (len(mine) / number)).astype(np.int64)]
            edges = {"first": mine[0], "last": mine[-1], "points": points}
            told.append({"hash": keys[key], "input": self.input, "rows": len(mine), **edges})
        told += load_rows(np.bincount(hashes % self.places, minlength=self.places))
        yield _batch(told)


def load_rows(loads: Numbers) -> Iterator[dict[str, Any]]:
    """Give the rows of places, some together."""
    for first in range(0, len(loads), _TOGETHER):
        some = loads[first : first + _TOGETHER]
        if some.any():
            yield {"place": first, "loads": some}


def _batch(told: list[dict[str, Any]]) -> pa.RecordBatch:
    # One batch: each costs Spark as much as some thousand rows.
    return pa.record_batch(
        [pa.array([row.get(field.name) for row in told], field.type) for field in _SAMPLED], _SAMPLED
    )


def _keys_and_loads(batch: pa.RecordBatch, loads: Numbers) -> pa.RecordBatch:
    """Give what is told of keys, and add what is told of places."""
    is_key = batch.column("hash").is_valid()
    of_places = batch.filter(pa.compute.invert(is_key))
    lists = of_places.column("loads")
    values, lengths = lists.flatten().to_numpy(), lists.value_lengths().to_pylist()
    at = 0
    for place, length in zip(of_places.column("place").to_pylist(), lengths, strict=True):
        loads[place : place + length] += values[at : at + length]
        at += length
    return batch.filter(is_key)


@dataclass(frozen=True)
class MergeTask:
    """Adds up the rows that some partitions tell of places."""

    places: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give what is told of keys as it is, and the sums."""
        loads = np.zeros(self.places, np.int64)
        for batch in batches:
            yield _keys_and_loads(batch, loads)
        yield _batch([*load_rows(loads)])


@dataclass(frozen=True)
class SkewTask:
    """Turns what samples tell into keys to split, slices of their rows, and what each has to see: one row."""

    partitions: int
    skew: float
    """A partition with the rows of so many average ones has its largest keys split."""
    enough: int
    inputs: tuple[CutInput, ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the plan."""
        counted = np.zeros(self.partitions, np.int64)
        parts = [_keys_and_loads(batch, counted) for batch in batches]
        told = pa.Table.from_batches(parts, _SAMPLED)
        loads = counted.astype(np.float64)
        hashes, counts = (told.column(name).to_numpy() for name in ("hash", "rows"))
        keys, inverse = np.unique(hashes, return_inverse=True)
        rows = np.bincount(inverse, counts, len(keys))
        mean = loads.mean()
        split = []
        for at in np.lexsort((keys, -rows)).tolist():
            key, number = int(keys[at]), float(rows[at])
            if number < self.enough:
                break
            if loads[key % self.partitions] >= self.skew * mean:
                loads[key % self.partitions] -= number
                split.append((key, number))
        if not split:
            yield row_of({}, PLANNED)
            return
        names = tuple(sorted(key for key, _ in split))
        shares = filled(loads, sum(number for _, number in split))
        of_split = [part.filter(pa.array(np.isin(part.column("hash").to_numpy(), names))) for part in parts]
        found = [Told(given) for given in self.inputs]
        for part in of_split:
            of = part.column("input").to_numpy()
            for at, one in enumerate(found):
                one.add(part.filter(pa.array(of == at)))
        yield planned(names, found, shares)


def filled(loads: Numbers, more: float) -> dict[int, float]:
    """Give which shares of some more rows go to places that have few, so that these have as many as each other.

    A share is about half of what places have on average, or more: slices that are short have many rows of halos.

    >>> import numpy as np
    >>> from tilt.spark.skew import filled
    >>> filled(np.array([10.0, 90.0, 0.0, 20.0]), 60)
    {0: 0.3333333333333333, 2: 0.5, 3: 0.16666666666666666}
    """
    mean = (loads.sum() + more) / len(loads)
    number = min(max(round(2 * more / mean), 2), len(loads))
    places = np.argsort(loads, kind="stable")[:number]
    # The level that the first of them are filled to, for each number of these; it must be above all of them.
    levels = (np.cumsum(loads[places]) + more) / np.arange(1, number + 1)
    level = levels[np.flatnonzero(levels > loads[places])[-1]]
    return {int(place): float((level - loads[place]) / more) for place in np.sort(places) if level > loads[place]}


@dataclass(frozen=True)
class Skew:
    """What has to be known of keys before rows are moved. It is found when the job runs, by a subquery."""

    bound: Bound
    partitions: int
    skew: float
    halos: Mapping[str, Halo]

    def plan(self) -> Column:
        """Give the row of :class:`SkewTask` as a value."""
        inputs = tuple(cut_input(self.bound, name, halo) for name, halo in self.halos.items())
        task = SkewTask(self.partitions, self.skew, ENOUGH, inputs)
        keys = {name: source.events.key for name, source in self.bound.inputs.items()}
        told = [self._sampled(at, name, key) for at, (name, key) in enumerate(keys.items()) if key is not None]
        whole = merged(told)
        if self.partitions > _TOGETHER:
            whole = whole.repartition(_MERGES).mapInArrow(shipped(MergeTask(self.partitions)), spark_schema(_SAMPLED))
        found = whole.repartition(1).mapInArrow(shipped(task), spark_schema(PLANNED))
        return found.select(F.struct("*")).scalar()

    def _sampled(self, at: int, name: str, key: str) -> DataFrame:
        times = self.bound.inputs[name].events.times
        end = named(times if isinstance(times, str) else times[1])
        drawn = rows(self.bound, name).where(F.pmod(F.xxhash64(named(key), end), F.lit(ONE_IN)) == 0)
        known = hashed(self.bound, name) or {KEY: named(key)}
        told = drawn.select(*(value.alias(column) for column, value in known.items()), end.alias(TIME))
        return told.mapInArrow(shipped(SampleTask(at, self.partitions)), spark_schema(_SAMPLED))
