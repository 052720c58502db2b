"""Columns that are structs: streams have their fields, named ``struct.field``, and results have structs again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

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
