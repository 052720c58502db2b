"""Where rows go: by a hash of their key, or to the slices that need them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from tilt.spark.hashing import hashes_of
from tilt.spark.packing import BLOCK, Numbers, cut_blocks, packed_column, packed_schema
from tilt.spark.task import as_integers, partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tilt.sources import Events
    from tilt.spark.cuts import Slices

HASH, PLAN = "tilt hash", "tilt plan"
"""The columns that rows may come with: a hash of the key, and in the first row of a partition a :class:`Plan`."""
_AT_ONCE = 1 << 20
"""How many copies of rows are made at once, about."""
_GATHERED = 1 << 26
"""How many bytes of rows are put together before they are packed, about."""
_RADIX = 1 << 16
"""Numbers below this are sorted in time proportional to their number."""


@dataclass(frozen=True)
class Plan:
    """The slices of the timeline, and which rows each has to see."""

    slices: Slices
    limits: tuple[tuple[tuple[int, int], ...], ...]
    """Of each input, for each slice: rows end after the first number and start before the second, as columns say."""
    keys: tuple[int, ...] | None = None
    """Hashes of the keys that are cut, ``None`` if all rows are."""
    places: tuple[int, ...] | None = None
    """To which place each slice goes, by default to that of its number."""

    def needing(self, at: int, starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
        """Give the first and the last slice that needs each row of an input.

        >>> import numpy as np
        >>> from tilt.spark.cuts import Slices
        >>> from tilt.spark.placing import Plan
        >>> plan = Plan(Slices((10, 20)), (((-99, 11), (7, 21), (17, 99)),))
        >>> plan.needing(0, np.array([5, 8, 12]), np.array([5, 8, 18]))
        (array([0, 0, 1]), array([0, 1, 2]))
        """
        limits = self.limits[at]
        last = _found([after for after, _ in limits[1:]], ends, "left")
        first = _found([before for _, before in limits[:-1]], starts, "right")
        return first, np.maximum(first, last)


@dataclass(frozen=True)
class PackTask:
    """Turns rows of an input into blocks, each with its place."""

    input: int
    events: Events
    schemas: tuple[pa.Schema, ...]
    """The columns of all inputs."""
    places: int
    plan: Plan | None = None
    """What the rows do not say themselves."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the blocks of a partition."""
        # Blocks are numbered in the order of partitions, and within them as they stand.
        number = partition() << 33
        plan = self.plan
        # A block is of one place. With many of these, the rows that Spark hands over at once are too few for each.
        for batch in gathered(batches, min(BLOCK * self.places, _AT_ONCE)):
            if plan is None and PLAN in batch.schema.names:
                told = batch.column(PLAN)[0].as_py()
                plan = None if told is None else pickle.loads(told)  # noqa: S301
            # Those that go everywhere are not copied all at once.
            size = batch.num_rows if self.is_keyed or (plan and plan.keys is None) else max(_AT_ONCE // self.places, 1)
            for first in range(0, batch.num_rows, size):
                found = self._packed(batch.slice(first, size), plan, number)
                number += found.num_rows
                yield found

    @property
    def is_keyed(self) -> bool:
        """Whether rows go where their key says."""
        return self.events.key is not None

    def _packed(self, batch: pa.RecordBatch, plan: Plan | None, number: int) -> pa.RecordBatch:
        places, copied = self._placed(batch, plan)
        order = copied
        if not (places[1:] >= places[:-1]).all():
            narrow = places.astype(np.uint16) if 2 * self.places <= _RADIX else places
            moved = np.argsort(narrow, kind="stable")
            order = moved if copied is None else copied[moved]
        schema = self.schemas[self.input]
        rows = batch.select(schema.names)
        of, edges = cut_blocks(np.bincount(places, minlength=2 * self.places), rows)
        parts = [part for column in rows.columns for part in packed_column(column, order, edges)]
        whole = packed_schema(self.schemas)
        is_slice, place = np.divmod(of, self.places)
        tags = self.input + len(self.schemas) * is_slice
        columns = [pa.array(place, pa.int32()), pa.array(tags, pa.int32()), pa.array(number + np.arange(len(of)))]
        missing = [pa.nulls(len(of), pa.binary())] * (len(whole) - len(columns) - len(parts))
        return pa.record_batch([*columns, *parts, *missing], whole)

    def _placed(self, batch: pa.RecordBatch, plan: Plan | None) -> tuple[Numbers, Numbers | None]:
        """Give where rows go, and which rows: all of them once if that is ``None``.

        Slices are places after those of keys.
        """
        count = batch.num_rows
        if self.is_keyed:
            hashes = known_hashes(batch, self.events.key)
            places = hashes % self.places
            if plan is None or not plan.keys:
                return places, None
            cut = np.flatnonzero(np.isin(hashes, np.array(plan.keys)))
            whole = np.delete(np.arange(count), cut)
        elif plan is not None and plan.keys is None:
            cut, whole, places = np.arange(count), np.empty(0, np.int64), np.empty(count, np.int64)
        else:
            # An input without a key, of a query that has one.
            places, rows = np.repeat(np.arange(self.places), count), np.tile(np.arange(count), self.places)
            if plan is None or not plan.keys:
                return places, rows
            sliced, copied = self._sliced(batch, plan, np.arange(count))
            return np.concatenate([places, sliced]), np.concatenate([rows, copied])
        sliced, copied = self._sliced(batch, plan, cut)
        if len(copied) == len(cut):
            # Each row once.
            places[copied] = sliced
            return places, None
        return np.concatenate([places[whole], sliced]), np.concatenate([whole, copied])

    def _sliced(self, batch: pa.RecordBatch, plan: Plan, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Give the slices that need rows, and for each which row it is."""
        times = self.events.times
        both = (times, times) if isinstance(times, str) else times
        start, end = (_ticks(batch.column(name))[rows] for name in both)
        first, last = plan.needing(self.input, start, end)
        copies = last - first + 1
        if (copies > 1).any():
            begins = np.cumsum(copies) - copies
            within = np.arange(copies.sum()) - np.repeat(begins, copies)
            first, rows = np.repeat(first, copies) + within, np.repeat(rows, copies)
        place = first if plan.places is None else np.array(plan.places)[first]
        return place + self.places, rows


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Put batches together until they have so many rows, or many bytes.

    >>> import pyarrow as pa
    >>> from tilt.spark.placing import gathered
    >>> [batch.num_rows for batch in gathered([pa.record_batch({"x": range(n)}) for n in (2, 0, 2, 9, 1)], 4)]
    [4, 9, 1]
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        size += batch.nbytes
        if sum(one.num_rows for one in held) >= rows or size >= _GATHERED:
            yield _whole(held)
            held, size = [], 0
    if held:
        yield _whole(held)


def _whole(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (found,) = batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def known_hashes(batch: pa.RecordBatch, key: str | None) -> Numbers:
    """Give the hashes that rows come with, or else those of their keys."""
    if HASH in batch.schema.names:
        return batch.column(HASH).to_numpy()  # type: ignore[no-any-return]
    return hashes_of(batch.column(key))


def _found(edges: list[int], times: Numbers, side: Literal["left", "right"]) -> Numbers:
    """Give before how many edges each time is not. Rows are often in order, and many before the next edge."""
    known = np.array(edges, np.int64)
    if len(times):
        low, high = np.searchsorted(known, [times.min(), times.max()], side=side)
        if low == high:
            return np.full(len(times), low)
    return np.searchsorted(known, times, side=side)


def _ticks(times: pa.Array) -> Numbers:
    """Give times as numbers; those that are missing are before all others, so the first slice says so."""
    numbers = as_integers(pa.chunked_array([times]))
    return numbers if not times.null_count else np.where(np.asarray(times.is_valid()), numbers, np.iinfo(np.int64).min)
