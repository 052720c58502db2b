"""Columns that are structs: streams have their fields, named ``struct.field``, and results have structs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NullType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame


def named(column: str) -> Column:
    """Give a column by its exact name, whatever characters that has."""
    return F.col("`" + column.replace("`", "``") + "`")


def flattened(frame: DataFrame) -> DataFrame:
    """Give the fields of structs as columns."""
    if not any(isinstance(field.dataType, StructType) for field in frame.schema.fields):
        return frame
    leaves = [leaf for field in frame.schema.fields for leaf in _leaves(named(field.name), field.name, field.dataType)]
    return frame.select(*(column.alias(name) for name, column in leaves))


def _leaves(column: Column, name: str, dtype: object) -> Iterator[tuple[str, Column]]:
    if not isinstance(dtype, StructType):
        yield name, column
        return
    for field in dtype.fields:
        yield from _leaves(column.getField(field.name), f"{name}.{field.name}", field.dataType)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Give the columns that files have when the fields of structs are columns.

    >>> import pyarrow as pa
    >>> from tilt.spark.records import plain_schema
    >>> place = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    >>> plain_schema(pa.schema([("t", pa.int64()), ("at", place)])).names
    ['t', 'at.x', 'at.y']
    """
    return plain_rows(schema.empty_table()).schema


def plain_rows(rows: pa.Table) -> pa.Table:
    """Give the fields of structs as columns; those of a struct that is null are."""
    while any(map(pa.types.is_struct, rows.schema.types)):
        rows = rows.flatten()
    return rows


def fields_of(schema: pa.Schema) -> dict[str, list[str]]:
    """Give the columns that each column and each struct, also one in another, becomes.

    >>> import pyarrow as pa
    >>> from tilt.spark.records import fields_of
    >>> place = pa.struct([("x", pa.float64()), ("y", pa.float64())])
    >>> fields_of(pa.schema([("t", pa.int64()), ("at", place)]))
    {'t': ['t'], 'at.x': ['at.x'], 'at.y': ['at.y'], 'at': ['at.x', 'at.y']}
    """
    found: dict[str, list[str]] = {}

    def add(name: str, dtype: pa.DataType) -> list[str]:
        fields = [name]
        if pa.types.is_struct(dtype):
            fields = [leaf for field in dtype for leaf in add(f"{name}.{field.name}", field.type)]
        found.setdefault(name, fields)
        return fields

    for field in schema:
        add(field.name, field.type)
    return found


def records_of(schema: pa.Schema) -> tuple[tuple[str, StructType], ...]:
    """Give the columns of files that are structs: the names of their fields."""
    found = ((field.name, _shape(field.type)) for field in schema)
    return tuple((name, shape) for name, shape in found if isinstance(shape, StructType))


def _shape(dtype: pa.DataType) -> StructType | NullType:
    if not pa.types.is_struct(dtype):
        return NullType()
    shape = StructType()
    for field in dtype:
        shape.add(field.name, _shape(field.type))
    return shape


def nested(frame: DataFrame, records: dict[str, StructType]) -> DataFrame:
    """Give structs whose fields are all there again, each where the first of its fields is.

    A struct that was null has fields that are null.
    """
    first: dict[str, Column] = {}
    taken: set[str] = set()
    for name, dtype in records.items():
        names = [leaf for leaf, _ in _leaves(named(name), name, dtype)]
        if set(names) <= set(frame.columns):
            first[next(column for column in frame.columns if column in names)] = _struct(name, dtype).alias(name)
            taken |= set(names)
    if not first:
        return frame
    kept = [name for name in frame.columns if name in first or name not in taken]
    return frame.select(*(first.get(name, named(name)) for name in kept))


def _struct(name: str, dtype: object) -> Column:
    if not isinstance(dtype, StructType):
        return named(name)
    return F.struct(*(_struct(f"{name}.{field.name}", field.dataType).alias(field.name) for field in dtype.fields))
