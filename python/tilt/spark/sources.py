"""Data frames, and how their rows become events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from tilt.errors import SchemaError
from tilt.sources import Events
from tilt.spark.options import events_of
from tilt.spark.records import flattened
from tilt.spark.schemas import arrow_schema
from tilt.spark.settings import zone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FrameSource:
    """A data frame, and how its rows become events. See :func:`source`."""

    frame: DataFrame
    events: Events
    ties: tuple[str, ...] = ()
    """Columns by which rows with one time are ordered, before the order in which they stand."""
    records: tuple[tuple[str, StructType], ...] = ()
    """The columns that were structs before their fields became columns."""

    @classmethod
    def of(cls, frame: DataFrame, events: Events) -> FrameSource:
        """Name a data frame, and make columns of the fields of its structs."""
        _refuse_twice(frame)
        records = [(field.name, field.dataType) for field in frame.schema.fields]
        found = tuple((name, dtype) for name, dtype in records if isinstance(dtype, StructType))
        flat = flattened(frame)
        _refuse_twice(flat)
        return cls(flat, events, records=found)

    @property
    def session(self) -> SparkSession:
        """Where the data frame is from."""
        return self.frame.sparkSession

    def schema(self) -> pa.Schema:
        """Give the columns as Arrow has them."""
        return arrow_schema(self.frame.schema, zone(self.session))


def _refuse_twice(frame: DataFrame) -> None:
    """Refuse two columns of one name, of which one may be a field of a struct."""
    twice = next((name for name, count in Counter(frame.columns).items() if count > 1), None)
    if twice is not None:
        message = f"two columns of the data frame are named `{twice}`; rename one, or drop it"
        raise SchemaError(message, column=twice)


def source(frame: DataFrame, **events: Any) -> FrameSource:  # noqa: ANN401
    """Say how the rows of a data frame become events, where inputs of one query differ in that.

    The keywords are ``time``, ``key``, ``valid``, ``unit``, ``tz``, ``period``, ``overlap`` and ``closed``, with the
    meaning that they have for :func:`tilt.stream` and :meth:`tilt.Stream.key_by`.

    >>> from tilt.spark import run, source
    >>> run(query, {"trades": source(trades, time="ts"), "quotes": source(quotes, time="at")})  # doctest: +SKIP
    """
    return FrameSource.of(frame, Events(**events_of("source", events, ())))
