"""Data frames whose partitions hold what tasks need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from tilt.errors import InternalError
from tilt.spark.plan import has_ties
from tilt.spark.records import named
from tilt.spark.sources import FrameSource
from tilt.spark.task import HEADER, ORDER, TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tilt.spark.plan import Bound

PLACE = "tilt place"
"""The column that says to which partition a row goes."""


@dataclass(frozen=True)
class Slots:
    """Where the columns of several inputs are in one data frame: those of one type share columns."""

    types: Mapping[str, DataType]
    """The type of each slot."""
    columns: Mapping[str, Mapping[str, str]]
    """The slot of each column of each input."""

    @classmethod
    def of(cls, bound: Bound) -> Slots:
        """Give a slot to every column that the query reads."""
        types: dict[str, DataType] = {}
        columns = {}
        for name in bound.inputs:
            frame = _frame(bound, name)
            taken: dict[str, int] = {}
            slots = {}
            for column in bound.columns(name):
                dtype = frame.schema[column].dataType
                kind = dtype.simpleString()
                number = taken[kind] = taken.get(kind, 0) + 1
                slot = f"{kind} {number}"
                types[slot] = dtype
                slots[column] = slot
            columns[name] = slots
        return cls(types, columns)

    def rows(self, bound: Bound, name: str) -> DataFrame:
        """Give the rows of an input by slots, with what says their order if that can matter."""
        selected = [named(column).alias(slot) for column, slot in self.columns[name].items()]
        ties = F.monotonically_increasing_id() if has_ties(bound.inputs[name].events) else F.lit(None).cast("bigint")
        return _frame(bound, name).select(*selected, ties.alias(ORDER))

    def tagged(self, rows: DataFrame, tag: int) -> DataFrame:
        """Give rows with all slots, the columns in one order, and which input they are of."""
        missing = [slot for slot in self.types if slot not in rows.columns]
        nulls = {slot: F.lit(None).cast(self.types[slot]) for slot in missing}
        whole = rows.withColumns({**nulls, TAG: F.lit(tag).cast("tinyint")})
        return whole.select(PLACE, TAG, ORDER, *(named(slot) for slot in self.types))

    def header(self, spark: SparkSession, places: int, about: Mapping[str, Column]) -> DataFrame:
        """Give rows that tell each partition what it is about: values may depend on ``id``, the partition's number."""
        facts = [F.struct(F.lit(HEADER[what]).alias("tag"), value.alias("value")) for what, value in about.items()]
        head = spark.range(places).select("id", F.explode(F.array(*facts)).alias("fact"))
        head = head.where("fact.value is not null")
        columns = {
            PLACE: F.col("id").cast("int"),
            TAG: F.col("fact.tag").cast("tinyint"),
            ORDER: F.col("fact.value"),
            **{slot: F.lit(None).cast(dtype) for slot, dtype in self.types.items()},
        }
        return head.select(*(column.alias(name) for name, column in columns.items()))


def _frame(bound: Bound, name: str) -> DataFrame:
    source = bound.inputs[name]
    if not isinstance(source, FrameSource):
        message = f"~{name} is no data frame"
        raise InternalError(message)
    return source.frame


def times(bound: Bound, slots: Slots, name: str) -> tuple[Column, Column]:
    """Give start and end of rows by slots, as far as columns say them: both are the end unless there are two."""
    given = bound.inputs[name].events.times
    start, end = (given, given) if isinstance(given, str) else given
    return named(slots.columns[name][start]), named(slots.columns[name][end])


def counted(rows: DataFrame, found: Mapping[str, tuple[Column, Column, bool]], size: int) -> DataFrame:
    """Add columns that say how many elements of a sorted array are less than a value, or at most it.

    Each is an array of at most ``size`` elements, a value, and whether equal elements count. The search is unrolled:
    a few comparisons a row, in generated code.
    """
    # As columns they are computed once. In every step anew, a plan would have dozens of the same subquery.
    given: dict[str, Column] = {}
    for name, (array, value, _) in found.items():
        given |= {f"{name} of": array, f"{name} at": value}
    rows = rows.withColumns({**given, **dict.fromkeys(found, F.lit(0))})
    step = 1 << max(size.bit_length() - 1, 0)
    while step:
        steps = {}
        for name, (_, _, equal) in found.items():
            value, element = F.col(f"{name} at"), F.get(F.col(f"{name} of"), F.col(name) + (step - 1))
            # The value first: where that is null, nothing is looked up.
            is_before = value >= element if equal else value > element
            steps[name] = F.col(name) + F.when(is_before, step).otherwise(0)
        rows = rows.withColumns(steps)
        step //= 2
    return rows.drop(*given)


def placed(rows: DataFrame, places: int) -> DataFrame:
    """Move each row to the partition that its column :data:`PLACE` names, and drop that."""
    if hasattr(rows, "repartitionById"):
        moved = rows.repartitionById(places, PLACE)
    else:
        moved = rows.repartition(places, F.get(F.array(*map(F.lit, preimages(places))), F.col(PLACE)))
    return moved.drop(PLACE)


def preimages(places: int) -> list[int]:
    """Give for each partition an integer that Spark's hash partitioning sends there.

    >>> from tilt.spark.frames import preimages
    >>> preimages(4)
    [12, 6, 2, 0]
    """
    found: dict[int, int] = {}
    begin, count = 0, 16 * places
    while len(found) < places:
        numbers = np.arange(begin, begin + count, dtype=np.uint32)
        for number, place in zip(numbers.tolist(), (_murmur3(numbers) % places).tolist(), strict=True):
            found.setdefault(place, number)
        begin += count
    return [found[place] for place in range(places)]


def _murmur3(numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give Spark's hash of integers: Murmur3 of 32 bits with seed 42."""

    def rotated(x: np.ndarray[Any, np.dtype[np.uint32]], by: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    with np.errstate(over="ignore"):
        mixed = rotated(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = rotated(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashed ^= hashed >> np.uint32(16)
    return hashed.view(np.int32).astype(np.int64)


def merged(frames: Sequence[DataFrame]) -> DataFrame:
    """Give the rows of all."""
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first
