"""Data frames whose partitions hold what tasks need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.errors import InternalError
from tilt.spark.boot import shipped
from tilt.spark.hashing import is_light
from tilt.spark.packing import HEADER, NUMBER, PLACE, TAG, packed_schema
from tilt.spark.placing import HASH, PLAN, PackTask
from tilt.spark.records import named
from tilt.spark.schemas import spark_schema
from tilt.spark.sources import FrameSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tilt.spark.boot import Task
    from tilt.spark.plan import Bound, Input
    from tilt.spark.task import QueryTask

_WITHIN = (1 << 33) - 1
"""Which bits of a row's number tell it apart from others of its partition."""


def rows(bound: Bound, name: str) -> DataFrame:
    """Give the columns of an input that the query reads."""
    source = bound.inputs[name]
    if not isinstance(source, FrameSource):
        message = f"~{name} is no data frame"
        raise InternalError(message)
    return source.frame.select(*map(named, bound.columns(name)))


def hashed(bound: Bound, name: str) -> dict[str, Column]:
    """Give a column with a hash of the key of rows, unless there is none, or tasks hash it themselves."""
    source = bound.inputs[name]
    key = source.events.key
    if key is None or is_light(source.schema().field(key).type):
        return {}
    return {HASH: key_hash(source, key)}


def key_hash(source: Input, key: str) -> Column:
    """Give a hash of keys that is the same for equal ones, also for integers and floats of other widths.

    Where it changes, :data:`tilt.spark.shards.FORMAT` has to: streams find what they hold of a key by it.
    """
    column, dtype = named(key), source.schema().field(key).type
    # Spark hashes an int and a bigint of one value differently.
    if pa.types.is_integer(dtype):
        column = column.cast("bigint")
    elif pa.types.is_floating(dtype):
        column = column.cast("double")
    return F.xxhash64(column)


def packed(bound: Bound, query: QueryTask, places: int, plan: Column | None) -> list[DataFrame]:
    """Give the rows of each input as blocks."""
    schemas = tuple(given.schema for given in query.inputs)
    parts = []
    for at, given in enumerate(query.inputs):
        found = hashed(bound, given.name)
        if plan is not None:
            found[PLAN] = first_of_partition(plan)
        told = rows(bound, given.name).withColumns(found)
        parts.append(mapped(told, PackTask(at, given.events, schemas, places), packed_schema(schemas)))
    return parts


def mapped(frame: DataFrame, task: Task, schema: pa.Schema, functions: dict[str, Any] | None = None) -> DataFrame:
    """Give what a task makes of the partitions of a data frame, whose columns may have any names."""
    # Spark would take a dot in a name for a field of a struct.
    plain = frame.toDF(*(f"column {number}" for number in range(len(frame.columns))))
    return plain.mapInArrow(shipped(task, functions, frame.columns), spark_schema(schema))


def first_of_partition(plan: Column) -> Column:
    """Give a plan in the first row of each partition: it is the same for all rows."""
    is_first = F.monotonically_increasing_id().bitwiseAND(_WITHIN) == 0
    return F.when(is_first, plan.getField("plan"))


def moved(
    blocks: Sequence[DataFrame], places: int, tasks: int, about: Mapping[str, Column], plans: Mapping[str, Column]
) -> DataFrame:
    """Give blocks by their places, and what these are about: places that follow each other share a partition.

    There, blocks of a place follow those of the one before it. Values of ``about`` may depend on ``id``, the number of
    a place, and on plans by their names, which Spark then finds once and not for each value.
    """
    whole = merged(blocks)
    if about:
        facts = [F.struct(F.lit(HEADER[what]).alias("tag"), value.alias("value")) for what, value in about.items()]
        known = whole.sparkSession.range(places).withColumns(dict(plans))
        head = known.select("id", F.explode(F.array(*facts)).alias("fact"))
        values = {PLACE: F.col("id").cast("int"), TAG: F.col("fact.tag"), NUMBER: F.col("fact.value")}
        values |= {name: F.lit(None).cast("binary") for name in whole.columns[len(values) :]}
        facts_of = head.where("fact.value is not null").select(*(value.alias(name) for name, value in values.items()))
        whole = whole.unionAll(facts_of)
    number = F.col(PLACE).cast("bigint") * F.lit(tasks)
    task = F.col(PLACE) if tasks == places else F.floor(number / F.lit(places)).cast("int")
    if hasattr(whole, "repartitionById"):
        parts = whole.repartitionById(tasks, task)
    else:
        parts = whole.repartition(tasks, F.get(F.array(*map(F.lit, preimages(tasks))), task))
    return parts if tasks == places else parts.sortWithinPartitions(PLACE, TAG, NUMBER)


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
