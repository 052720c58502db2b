"""Queries on streams of Structured Streaming.

Rows are packed by shard into Arrow blobs, where they are read; a stateful operator of Spark pushes the blobs of its
shard into a live session, whose checkpoint is all of the operator's state; its results are unpacked again. Thus rows
cross between the JVM and Python as few large values, and keep their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from tilt import _native
from tilt.durations import duration_text
from tilt.errors import QueryError
from tilt.live.options import each
from tilt.spark.boot import shipped, stateful
from tilt.spark.frames import key_hash, mapped, merged, preimages
from tilt.spark.inputs import records
from tilt.spark.options import events_of, modules_of, number_of
from tilt.spark.parquet import ParquetSource
from tilt.spark.plan import NANOSECONDS
from tilt.spark.records import named, nested
from tilt.spark.schemas import spark_schema
from tilt.spark.settings import partitions, setting
from tilt.spark.shards import PACKED, SHARD, STATE, TAKEN, PackTask, RestTask, UnpackTask, shard_task, with_late
from tilt.spark.staged import bound_to_streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from tilt.spark.plan import Bound
    from tilt.spark.shards import ShardTask

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_EVENT_TIME = "tilt_event_time"
POLICIES = ("drop", "adjust", "raise")
"""What may become of late rows: results that were given cannot be revised."""
_OPTIONS = {"lateness", "late", "late_rows", "shards", "layout", "imports"}
"""What is not about how rows become events."""


def run_stream(query: object, data: object, *, lateness: object, **options: Any) -> DataFrame:  # noqa: ANN401
    """Run a query on streaming data frames: results come as soon as nothing that is still to come can change them.

    All results together are the rows of :func:`run` on all rows, bit for bit; what is not certain yet waits in the
    state of the stream, and :func:`rest` gives it. The state is the checkpoint of a live session for each shard.

    Parameters
    ----------
    query, data
        As for :func:`run`; the data frames are streaming ones, without a watermark of their own.
    lateness
        How much earlier than the latest row another one may be: for all inputs, or a dictionary by input. It is the
        watermark of Spark as well, which lets shards go on that have no rows.
    **options
        ``time``, ``key`` and so on say how rows become events, as for :func:`run`. Besides:

        ``late``: what becomes of rows that are later: ``"drop"``, which is the default, ``"adjust"``, which moves them
        to the watermark, or ``"raise"``;
        ``late_rows``: whether these are among the results, in a column ``late`` that is null for others. How many there
        were is in the progress of the stream in any case: ``progress.observedMetrics["tilt"].late``;
        ``shards``: how many sessions keys are hashed to, by default ``spark.sql.shuffle.partitions``; without a key
        there is one. A stream that goes on from a checkpoint with another number fails in its first batch;
        ``layout`` and ``imports``, as for :func:`run`.

    Raises
    ------
    QueryError
        If the query has no result before the end, or has a key and is computed in stages; if the session has no state
        store for it.

    >>> import tilt.spark as ts
    >>> stream = ts.run_stream(signal, frame, time="ts", key="symbol", lateness="10s")  # doctest: +SKIP
    >>> stream.writeStream.option("checkpointLocation", "state").start("signals")  # doctest: +SKIP

    """
    planned = _planned(query, data, options | {"lateness": lateness})
    return nested(planned.frame(), records(planned.bound.inputs))


def rest(checkpoint: str, query: object, data: object, *, lateness: object, **options: Any) -> DataFrame:  # noqa: ANN401
    """Give what a stream that was stopped has not given yet, as if its input had ended: a data frame, not a stream.

    The state is read and not changed, so the stream can go on.

    Parameters
    ----------
    checkpoint
        The ``checkpointLocation`` of the stream.
    query, data, lateness, **options
        As they were for :func:`run_stream`.

    >>> import tilt.spark as ts
    >>> ts.rest("state", signal, frame, time="ts", key="symbol", lateness="10s")  # doctest: +SKIP

    """
    planned = _planned(query, data, options | {"lateness": lateness})
    return nested(planned.rest(checkpoint), records(planned.bound.inputs))


def keeps_in_rocksdb(session: SparkSession, *, untold: str = "") -> bool:
    """Whether streams keep their state in RocksDB: that of the open source or another, such as Databricks' own.

    Where the session does not tell, ``untold`` is taken for its setting.
    """
    return "RocksDB" in setting(session, PROVIDER, "", untold=untold)


def _planned(query: object, data: object, options: Mapping[str, Any]) -> Streamed:
    events = events_of("run_stream", options, _OPTIONS)
    whole = bound_to_streams(query, data, events, options.get("layout"), by_key=True)
    inputs = whole.inputs
    late = options.get("late", "drop")
    if late not in POLICIES:
        message = f"late rows are treated by one of {', '.join(POLICIES)}, not {late!r}"
        raise ValueError(message)
    shards = number_of(options, "shards")
    if shards is None:
        session = next(iter(inputs.values())).session
        shards = partitions(session)
    return Streamed(
        whole,
        each("lateness", options["lateness"], inputs, 0),
        late,
        bool(options.get("late_rows", False)),
        shards if whole.key else 1,
        modules_of(options),
    )


@dataclass(frozen=True)
class Streamed:
    """A query that runs on streams."""

    bound: Bound
    lateness: Mapping[str, Any]
    late: str
    late_rows: bool
    shards: int
    imports: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.bound.key and self.bound.fills:
            message = (
                "keys may have events where they have no rows, so nothing is certain before the stream ends; "
                "leave out what fills cells of a grid (fill_null, coalesce)"
            )
            raise QueryError(message)
        if self.bound.program.unit == "tick":
            message = "times have no unit, but streams run by the clock; say it: unit='s'"
            raise QueryError(message)
        for name, source in self.bound.inputs.items():
            if isinstance(source, ParquetSource):
                message = f"~{name} is a scan of files, which is no stream; use spark.readStream.parquet"
                raise QueryError(message)
            if not source.frame.isStreaming:  # type: ignore[attr-defined]
                message = f"~{name} is no streaming data frame; run(...) runs queries on others"
                raise QueryError(message)
        session = next(iter(self.bound.inputs.values())).session
        # If it does not tell, Spark says itself what is missing.
        if not keeps_in_rocksdb(session, untold=ROCKSDB):
            message = f"streams keep their state in RocksDB: tilt.spark.tune(session), or set {PROVIDER} to {ROCKSDB}"
            raise QueryError(message)

    def task(self) -> ShardTask:
        """Give what executors run."""
        return shard_task(self.bound, self.lateness, self.late, self.imports, self.numbers)

    @property
    def numbers(self) -> tuple[int, ...]:
        """What stands for each shard: numbers that Spark's hash sends to different partitions."""
        return tuple(preimages(self.shards))

    def frame(self) -> DataFrame:
        """Give the results."""
        task, functions = self.task(), self.bound.functions()
        packed = merged([self._packed(at, name) for at, name in enumerate(self.bound.inputs)])
        groups = packed.groupBy(SHARD)
        # Older versions have it with pandas only.
        is_plain = hasattr(groups, "transformWithState")
        run = groups.transformWithState if is_plain else groups.transformWithStateInPandas
        processor = stateful(task, functions, spark_schema(STATE), is_plain=is_plain)
        given = run(processor, spark_schema(TAKEN), "Append", "EventTime")
        watched = given.observe("tilt", F.coalesce(F.sum("late"), F.lit(0)).alias("late"))
        return watched.mapInArrow(shipped(UnpackTask(self._schema(), self.late_rows)), spark_schema(self._schema()))

    def rest(self, checkpoint: str) -> DataFrame:
        """Give what the sessions of a checkpoint have not given yet."""
        session = next(iter(self.bound.inputs.values())).session
        state = session.read.format("statestore").option("stateVarName", "session").load(checkpoint)
        # What lasts to the end of the run lasts to the end of all shards.
        kept = state.select(F.col("value.checkpoint").alias("checkpoint"), F.col("value.last").alias("last"))
        kept = kept.where(F.length("checkpoint") > 0)
        last = kept.select(F.max("last").alias("last")).scalar()
        whole = kept.select("checkpoint", last.alias("last"))
        task = RestTask(self.task(), self._schema())
        return whole.mapInArrow(shipped(task, self.bound.functions()), spark_schema(self._schema()))

    def _schema(self) -> pa.Schema:
        return with_late(self.bound.schema) if self.late_rows else self.bound.schema

    def _packed(self, at: int, name: str) -> DataFrame:
        """Give the rows of an input as blobs, each with its shard, after Spark has seen their times."""
        source = self.bound.inputs[name]
        frame: DataFrame = source.frame  # type: ignore[attr-defined]
        ticks = _native.duration(duration_text(self.lateness[name]), self.bound.program.unit)
        delay = -(-ticks * NANOSECONDS[self.bound.program.unit] // 10**6)
        frame = frame.withColumn(_EVENT_TIME, self._moment(name)).withWatermark(_EVENT_TIME, f"{delay} milliseconds")
        key = source.events.key
        numbers = self.numbers
        shard = F.lit(numbers[0])
        if key is not None:
            hashed = F.pmod(key_hash(source, key), F.lit(self.shards)).cast("int")
            shard = F.get(F.array(*map(F.lit, numbers)), hashed)
        everywhere = numbers if self.bound.key and key is None else ()
        rows = frame.select(shard.alias(SHARD), *(named(column) for column in self.bound.columns(name)))
        return mapped(rows, PackTask(at, everywhere, self.bound.key), PACKED)

    def _moment(self, name: str) -> Column:
        """Give the time of rows as Spark's watermark takes it: that of the start."""
        times = self.bound.inputs[name].events.times
        column = named(times if isinstance(times, str) else times[0])
        dtype = self.bound.time_type(name)
        if pa.types.is_timestamp(dtype):
            if dtype.tz is not None:
                return column
            # Those without a zone are taken as UTC. Casting would take them as the session's zone, which has gaps.
            zero = "1970-01-01 00:00:00"
            return F.expr(f"timestamp'{zero}+00:00'") + (column - F.expr(f"timestamp_ntz'{zero}'"))
        if pa.types.is_date(dtype):
            return F.timestamp_micros(F.unix_date(column).cast("bigint") * 86_400_000_000)
        step = NANOSECONDS[self.bound.inputs[name].events.unit or self.bound.program.unit]
        number = column.cast("bigint")
        return F.timestamp_micros(F.floor(number / 1000) if step == 1 else number * (step // 1000))
