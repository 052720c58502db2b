"""Queries with a key on Parquet files: tasks read row groups themselves, and rows go to partitions by their key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt.errors import QueryError
from tilt.spark.boot import shipped
from tilt.spark.frames import moved
from tilt.spark.packing import movable, packed_schema
from tilt.spark.parquet import read_groups, scan_of, span_of
from tilt.spark.placing import PackTask
from tilt.spark.schemas import spark_schema
from tilt.spark.task import PartitionTask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from tilt.spark.parquet import RowGroup
    from tilt.spark.plan import Bound
    from tilt.spark.task import QueryTask, TaskInput

_GROUPS = 4
"""How many row groups a task reads, if there are tasks enough then."""


@dataclass(frozen=True)
class ScanTask:
    """Reads the row groups of a share whose number it is given, and makes blocks of them."""

    given: TaskInput
    pack: PackTask
    shares: tuple[tuple[RowGroup, ...], ...]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the blocks."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        yield from self.pack.run(batch for number in numbers for batch in self._rows(number))

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        for group in self.shares[number]:
            (rows,) = read_groups(self.given, group.file, [group.number])
            yield from rows.cast(self.pack.schemas[self.pack.input]).combine_chunks().to_batches()


def plain(name: str, schema: pa.Schema) -> pa.Schema:
    """Give columns as they are moved, or refuse one that cannot be.

    Raises
    ------
    QueryError
        If a column has values that are not numbers, times or texts.

    """
    fields = []
    for field in schema:
        dtype = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        dtype = pa.string() if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype) else dtype
        if not movable(dtype):
            message = f"column `{field.name}` of ~{name} has type {field.type}, which is not moved by key; give slices="
            raise QueryError(message)
        fields.append(pa.field(field.name, dtype))
    return pa.schema(fields)


@dataclass(frozen=True)
class Scanned:
    """A query that runs for each key of files."""

    bound: Bound
    partitions: int
    imports: tuple[str, ...]

    def explain(self) -> str:
        """Say how the work is cut."""
        lines = [f"{self.partitions} partitions, all keys of one in a task; tasks read row groups themselves"]
        for name in self.bound.inputs:
            source = scan_of(self.bound, name)
            key = source.events.key
            how = f"by key `{key}`" if key is not None else "all rows to every task, as it has no key"
            rows = sum(group.rows for group in source.groups)
            lines.append(
                f"~{name}: {how}; {self.bound.reach(name)}; columns {', '.join(self.bound.columns(name))}; "
                f"{len(source.groups)} row groups with {rows:,} rows, in {len(self._shares(name))} tasks"
            )
        return "\n".join(lines)

    def frame(self) -> DataFrame:
        """Give the result."""
        bound = self.bound
        query = bound.task(self.imports)
        schemas = tuple(plain(given.name, given.schema) for given in query.inputs)
        blocks = [self._packed(query, at, schemas) for at in range(len(schemas))]
        about = {}
        if bound.needs_span:
            about = {edge: F.lit(at) for edge, at in zip(("start", "end"), span_of(bound), strict=True)}
        inputs = (replace(given, schema=schema) for given, schema in zip(query.inputs, schemas, strict=True))
        task = PartitionTask(replace(query, inputs=tuple(inputs)))
        rows = moved(blocks, self.partitions, self.partitions, about, {})
        return rows.mapInArrow(shipped(task, bound.functions()), spark_schema(bound.schema))

    def _packed(self, query: QueryTask, at: int, schemas: tuple[pa.Schema, ...]) -> DataFrame:
        given = query.inputs[at]
        shares = self._shares(given.name)
        task = ScanTask(given, PackTask(at, given.events, schemas, self.partitions), shares)
        numbers = self.bound.inputs[given.name].session.range(0, len(shares), 1, len(shares))
        return numbers.mapInArrow(shipped(task), spark_schema(packed_schema(schemas)))

    def _shares(self, name: str) -> tuple[tuple[RowGroup, ...], ...]:
        groups = scan_of(self.bound, name).groups
        number = min(max(len(groups) // _GROUPS, self.partitions), len(groups))
        edges = [at * len(groups) // max(number, 1) for at in range(number + 1)]
        return tuple(groups[first:last] for first, last in pairwise(edges))
