"""Streams whose batches go through a session of the driver: the alternative where there is no stateful operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tilt.errors import CheckpointError
from tilt.live.options import each
from tilt.spark.inputs import records
from tilt.spark.options import events_of
from tilt.spark.records import named, nested
from tilt.spark.schemas import spark_schema
from tilt.spark.shards import STATE, ShardTask, blob, rows_of, shard_task, with_late
from tilt.spark.staged import bound_to_streams
from tilt.spark.streaming import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame


def each_batch(
    query: object,
    write: Callable[[DataFrame, int], object],
    *,
    state: str,
    lateness: object,
    **options: Any,  # noqa: ANN401
) -> Batches:
    """Give a function for ``foreachBatch`` that pushes the rows of each batch into one session, on the driver.

    All rows of a batch come to the driver, so this is for streams that one core keeps up with. Unlike
    :func:`run_stream` it needs no state store, and results may go anywhere. ``late`` of the function counts late rows.

    Parameters
    ----------
    query
        A query of one input, as for :func:`run`.
    write
        Is called with the new results and the number of the batch. After a failure a batch is run again, with the same
        results: writing must replace what was written for its number.
    state
        A directory of the driver that keeps the session.
    lateness, **options
        As for :func:`run_stream`: ``late``, ``late_rows``, and how rows become events.

    >>> import tilt.spark as ts
    >>> def write(results, batch):
    ...     results.write.mode("overwrite").parquet(f"signals/batch={batch}")
    >>> run = ts.each_batch(signal, write, state="session", time="ts", lateness="10s")  # doctest: +SKIP
    >>> frame.writeStream.foreachBatch(run).option("checkpointLocation", "offsets").start()  # doctest: +SKIP

    """
    events = events_of("each_batch", options, ("late", "late_rows"))
    late = options.get("late", "drop")
    if late not in POLICIES:
        message = f"late rows are treated by one of {', '.join(POLICIES)}, not {late!r}"
        raise ValueError(message)
    return Batches(query, write, Path(state), lateness, late, bool(options.get("late_rows", False)), events)


@dataclass
class Batches:
    """A function of batches. See :func:`each_batch`."""

    query: object
    write: Callable[[DataFrame, int], object]
    state: Path
    lateness: object
    policy: str
    late_rows: bool
    events: Mapping[str, Any]
    late: int = field(default=0, init=False)
    """How many rows were late since the function was made."""
    task: ShardTask | None = field(default=None, init=False)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Run a batch."""
        whole = bound_to_streams(self.query, batch, self.events)
        inputs = whole.inputs
        (name,) = inputs
        if self.task is None:
            lateness = each("lateness", self.lateness, inputs, 0)
            self.task = shard_task(whole, lateness, self.policy, ())
        frame = inputs[name].frame  # type: ignore[attr-defined]
        rows = frame.select(*map(named, whole.columns(name))).toArrow()
        packed = [(0, 0, blob(rows.combine_chunks().to_batches()))] if rows.num_rows else []
        after, taken = self.task.push(self._read(number - 1), packed, 0)
        schema = with_late(whole.schema) if self.late_rows else whole.schema
        told: list[pa.RecordBatch] = []
        if taken is not None:
            self.late += taken["late"]
            told += rows_of(taken, schema, late_rows=self.late_rows)
        given = batch.sparkSession.createDataFrame(pa.Table.from_batches(told, schema), spark_schema(schema))
        self.write(nested(given, records(inputs)), number)
        self._keep(number, after)

    def _read(self, number: int) -> tuple[bytes, int] | None:
        path = self.state / str(number)
        if number < 0:
            return None
        if not path.exists():
            message = (
                f"{path} is missing, which has the session after batch {number} of the stream; give the state= "
                "directory that belongs to its checkpointLocation, or start with new directories for both"
            )
            raise CheckpointError(message)
        (row,) = pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist()
        return row["checkpoint"], row["last"]

    def _keep(self, number: int, after: tuple[bytes, int]) -> None:
        """Keep the session after a batch, and that before it, from which the batch can be run again."""
        self.state.mkdir(parents=True, exist_ok=True)
        row = pa.record_batch([pa.array([value], kind) for value, kind in zip(after, STATE.types, strict=True)], STATE)
        fresh = self.state / f"{number}.new"
        fresh.write_bytes(blob([row]))
        fresh.replace(self.state / str(number))
        for path in self.state.iterdir():
            if path.name.isdigit() and int(path.name) < number - 1:
                path.unlink()
