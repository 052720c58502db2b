"""What travels to executors."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Protocol

from tilt import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

VERSION = _native.__version__
"""What executors must have."""


class Task(Protocol):
    """What a partition is handed to."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the result of a partition."""


def shipped(task: Task, functions: dict[str, Any] | None = None) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Give a function of batches that runs a task, and says so if an executor has no tilt, or another version of it.

    The function is pickled by value, because it is local, and imports nothing but what Python has; the task inside is
    read only after the executor was found to have the same version.
    """
    payload = pickle.dumps(task)
    wanted = VERSION

    def tilt_task(batches: Any) -> Any:  # noqa: ANN401
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
        yield from pickle.loads(payload).run(batches)  # noqa: S301

    return tilt_task
