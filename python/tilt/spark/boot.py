"""What travels to executors."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Protocol

from tilt import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from tilt.spark.shards import ShardTask

VERSION = _native.__version__
"""What executors must have."""


class Task(Protocol):
    """What a partition is handed to."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the result of a partition."""


def shipped(
    task: Task, functions: dict[str, Any] | None = None, names: Sequence[str] | None = None
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Give a function of batches that runs a task, and says so if an executor has no tilt, or another version of it.

    The columns of batches have these names, if any, whatever the batches say.

    The function is pickled by value, because it is local, and imports nothing but what Python has; the task inside is
    read only after the executor was found to have the same version.
    """
    loaded = _loader(task, functions)

    def tilt_task(batches: Any) -> Any:  # noqa: ANN401
        task = loaded()
        from tilt.spark.packing import narrowed  # noqa: PLC0415

        yield from task.run(narrowed(batch, names) for batch in batches)

    return tilt_task


def stateful(task: ShardTask, functions: dict[str, Any], state: StructType, *, is_plain: bool) -> StatefulProcessor:
    """Give a stateful operator that pushes what it gets into sessions, under the same conditions as :func:`shipped`."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor  # noqa: PLC0415

    loaded = _loader(task, functions)

    class TiltSessions(StatefulProcessor):
        def init(self, handle: Any) -> None:  # noqa: ANN401
            self.handle = handle
            self.state = handle.getValueState("session", state)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ANN401, N802, N803
            names = ("input", "number", "blob")
            if is_plain:
                packed = [tuple(row[name] for name in names) for row in rows]
            else:
                packed = [one for frame in rows for one in zip(*(frame[name] for name in names), strict=True)]
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            yield from self.push(key, [(at, number, bytes(blob)) for at, number, blob in packed], timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: ANN401, N802, N803
            del expiredTimerInfo
            yield from self.push(key, [], timerValues)

        def push(self, key: Any, packed: Any, timers: Any) -> Any:  # noqa: ANN401
            watermark = timers.getCurrentWatermarkInMs()
            known = self.state.get()
            after, taken = loaded().push(known if known is None else tuple(known), packed, watermark, key[0])
            self.state.update(after)
            # Whether rows come or not: when time has gone on, results may have become certain.
            self.handle.registerTimer(watermark + 1)
            if taken is None:
                return
            if is_plain:
                from pyspark.sql import Row  # noqa: PLC0415

                yield Row(**taken)
            else:
                import pandas as pd  # noqa: PLC0415

                yield pd.DataFrame({name: [value] for name, value in taken.items()})

        def close(self) -> None:
            """Nothing is left open."""

    return TiltSessions()


def _loader(task: object, functions: dict[str, Any] | None) -> Callable[[], Any]:
    """Give what reads a task where tilt is known to be of the version that wrote it."""
    payload = pickle.dumps(task)
    wanted = VERSION

    def loaded() -> Any:  # noqa: ANN401
        import gc  # noqa: PLC0415
        import pickle  # noqa: PLC0415
        import platform  # noqa: PLC0415
        import sys  # noqa: PLC0415

        where = f"executor {platform.node()}, {sys.executable}"
        ship = f"pytilt=={wanted} must be installed there: docs/spark.md shows how to ship it"
        try:
            import tilt.spark.task  # noqa: F401, PLC0415
            from tilt import __version__ as found  # noqa: PLC0415
            from tilt.run import FUNCTIONS  # noqa: PLC0415
        except ImportError as error:
            message = f"tilt: not installed or not complete on {where} ({error}); {ship}"
            raise RuntimeError(message) from None
        if found != wanted:
            message = f"tilt: version {found} on {where}, but {wanted} on the driver; {ship}"
            raise RuntimeError(message)
        FUNCTIONS.update(functions or {})
        task = pickle.loads(payload)  # noqa: S301
        if not gc.get_freeze_count():
            # Spark collects garbage after every task, and would look through all modules each time: half of the cost
            # of a task that has few rows.
            gc.freeze()
        return task

    return loaded
