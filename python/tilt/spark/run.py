"""Running queries on data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.durations import duration_text
from tilt.spark.inputs import bound
from tilt.spark.keyed import Keyed
from tilt.spark.plan import Bound
from tilt.spark.sliced import Sliced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from tilt.durations import Duration
    from tilt.spark.inputs import FrameSource
    from tilt.streams import Stream


def run(  # noqa: PLR0913
    query: object,
    data: object,
    *,
    slices: int | None = None,
    partitions: int | None = None,
    warmup: Duration | None = None,
    imports: Sequence[str] = (),
    **events: Any,  # noqa: ANN401
) -> DataFrame:
    """Run a query on data frames: lazily, as Spark runs what it gives.

    The result is that of a local run on the same rows, bit for bit, however the work is cut.
    """
    return _planned(query, data, events, slices, partitions, warmup, tuple(imports)).frame()


def explain(query: object, data: object, **options: Any) -> str:  # noqa: ANN401
    """Show what :func:`run` would do."""
    raise NotImplementedError


def _planned(
    query: object,
    data: object,
    events: Mapping[str, Any],
    slices: int | None,
    partitions: int | None,
    warmup: Duration | None,
    imports: tuple[str, ...],
) -> Keyed | Sliced:
    def planned(stream: Stream, inputs: Mapping[str, FrameSource]) -> Keyed | Sliced:
        whole = Bound(stream, inputs)
        frame = next(iter(inputs.values())).frame
        usual = int(str(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        if whole.key:
            return Keyed(whole, partitions or usual, imports)
        ticks = None if warmup is None else _native.duration(duration_text(warmup), whole.program.unit)
        return Sliced(whole, slices or usual, ticks, imports)

    stream, inputs = bound(query, data, events, lambda stream, inputs: planned(stream, inputs).frame())
    return planned(stream, inputs)
