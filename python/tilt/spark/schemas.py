"""Column types of Spark, of Arrow and of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as spark

from tilt.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

_ARROW: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.DateType: pa.date32(),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
}
"""What a column of a data frame is in Arrow; timestamps have the session's zone besides."""

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
}
"""What holds every value of a type that Spark does not have."""


def arrow_schema(schema: spark.StructType, zone: str, columns: Iterable[str] | None = None) -> pa.Schema:
    """Give the columns of a data frame as Arrow has them.

    >>> from pyspark.sql.types import StructType
    >>> from tilt.spark.schemas import arrow_schema
    >>> arrow_schema(StructType().add("ts", "timestamp").add("price", "double"), "UTC").types
    [TimestampType(timestamp[us, tz=UTC]), DataType(double)]

    Raises
    ------
    SchemaError
        If a column has a type that no stream can have.

    """
    kept = None if columns is None else set(columns)
    fields = []
    for field in schema.fields:
        if kept is not None and field.name not in kept:
            continue
        is_instant = isinstance(field.dataType, spark.TimestampType)
        dtype = pa.timestamp("us", zone) if is_instant else _ARROW.get(type(field.dataType))
        if dtype is None:
            name = field.dataType.simpleString()
            message = (
                f"column `{field.name}` has type {name}, which no stream can have; "
                f"select or cast it before, or leave it out: df.drop({field.name!r})"
            )
            raise SchemaError(message, column=field.name)
        fields.append(pa.field(field.name, dtype))
    return pa.schema(fields)


def widened(schema: pa.Schema) -> pa.Schema:
    """Give a schema of types that Spark has, which hold every value of those given.

    >>> import pyarrow as pa
    >>> from tilt.spark.schemas import widened
    >>> widened(pa.schema([("n", pa.uint32()), ("t", pa.timestamp("s"))])).types
    [DataType(int64), TimestampType(timestamp[us])]
    """
    return pa.schema([pa.field(field.name, _wide(field.name, field.type)) for field in schema])


def _wide(name: str, dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(field.name, _wide(f"{name}.{field.name}", field.type)) for field in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(_wide(name, dtype.value_type))
    if pa.types.is_timestamp(dtype) and dtype.unit != "ns":
        return pa.timestamp("us", dtype.tz)
    if pa.types.is_duration(dtype) and dtype.unit != "ns":
        return pa.duration("us")
    if dtype in {pa.uint64(), pa.timestamp("ns"), pa.duration("ns")} or pa.types.is_timestamp(dtype):
        message = f"column `{name}` of the result has type {dtype}, which Spark does not have; cast it in the query"
        raise SchemaError(message, column=name)
    return _WIDER.get(dtype, dtype)


_SPARK: dict[pa.DataType, spark.DataType] = {
    arrow: kind() for kind, arrow in _ARROW.items() if kind is not spark.DayTimeIntervalType
} | {pa.duration("us"): spark.DayTimeIntervalType(), pa.binary(): spark.BinaryType()}


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Give columns of Arrow as those of a data frame.

    >>> import pyarrow as pa
    >>> from tilt.spark.schemas import spark_schema
    >>> spark_schema(pa.schema([("ts", pa.timestamp("us", "UTC")), ("px", pa.list_(pa.float64()))])).simpleString()
    'struct<ts:timestamp,px:array<double>>'
    """
    return spark.StructType([spark.StructField(field.name, _spark(field.type)) for field in schema])


def _spark(dtype: Any) -> spark.DataType:  # noqa: ANN401
    if pa.types.is_struct(dtype):
        return spark.StructType([spark.StructField(field.name, _spark(field.type)) for field in dtype])
    if pa.types.is_list(dtype):
        return spark.ArrayType(_spark(dtype.value_type))
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return spark.TimestampType()
    return _SPARK[dtype]
