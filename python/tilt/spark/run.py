"""Running queries on data frames."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

from tilt import _native
from tilt.budgets import budget_bytes
from tilt.durations import duration_text
from tilt.errors import QueryError
from tilt.spark.counted import Cells, Counted
from tilt.spark.inputs import bound, records
from tilt.spark.keyed import Keyed
from tilt.spark.options import events_of, modules_of, number_of, ratio_of
from tilt.spark.ordered import Ordered
from tilt.spark.parquet import Direct, ParquetSource
from tilt.spark.plan import Bound
from tilt.spark.records import nested
from tilt.spark.scanned import Scanned
from tilt.spark.settings import REFUSALS, partitions, setting
from tilt.spark.sliced import Sliced
from tilt.spark.sources import FrameSource
from tilt.spark.streaming import PROVIDER, ROCKSDB, keeps_in_rocksdb
from tilt.spark.task import AT_ONCE
from tilt.spark.tasks import tasks_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tilt.run import Layout
    from tilt.spark.plan import Input
    from tilt.streams import Stream

_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    PROVIDER: ROCKSDB,
}
_SKEW = 1.5
_said: set[str] = set()


Planned: TypeAlias = Keyed | Counted | Sliced | Ordered | Direct | Scanned
"""A query and how it is cut."""
_BY_KEY, _BY_TIME = "rows go to partitions by their key", "the timeline is cut into slices"
_TAKEN: dict[type[Planned], tuple[str, set[str]]] = {
    Keyed: (_BY_KEY, {"partitions", "skew"}),
    # There are not many rows of any key then.
    Counted: (_BY_KEY, {"partitions", "skew"}),
    Scanned: (_BY_KEY, {"partitions"}),
    Sliced: (_BY_TIME, {"slices", "tasks", "warmup"}),
    # The statistics of files tell how they are ordered; that they are says nothing more than to cut by time.
    Direct: (_BY_TIME, {"slices", "tasks", "warmup", "ordered"}),
    Ordered: ("partitions stay as they are", {"ordered", "warmup"}),
}
"""What each way of cutting does, and the options that say something to it."""
_HOW = ("slices", "tasks", "partitions", "skew", "ordered", "warmup")
_OPTIONS = {*_HOW, "memory", "layout", "imports"}
"""What is not about how rows become events."""


def run(query: object, data: object, **options: Any) -> DataFrame:  # noqa: ANN401
    """Run a query on data frames: lazily, as Spark runs what it gives.

    The result has the rows of a local run on the same data, bit for bit, however the work is cut. With a key, rows are
    hashed by it and a task runs all keys of its partition; without one, the timeline is cut into slices with about
    the same number of rows, and each task gets the rows of its slice and of its halo, as far as the query looks.

    Parameters
    ----------
    query
        A function of streams such as :func:`tilt.query` makes, or a stream of :func:`tilt.source`.
    data
        A data frame, or for several inputs a dictionary of them by name; :func:`source` around a data frame says how
        its rows become events where that differs from input to input.
    **options
        ``time``, ``key``, ``valid``, ``unit``, ``tz``, ``period``, ``overlap`` and ``closed`` say how rows become
        events, as for :func:`tilt.stream`. Besides:

        ``slices``: how many slices the timeline is cut into; with a key, given this, it is cut by time and not by key;
        ``tasks``: how many tasks run slices, each some that follow each other, one at a time. By default there is one
        for each slice, but no more than two for each core that the session has, unless one had more than 32 slices;
        ``ordered``: whether partitions are ranges of time already, such as those of sorted files, so that rows can stay
        where they are and only those of halos are fetched, by two small jobs that run at once;
        ``partitions``: how many partitions keys are hashed to. By default both are ``spark.sql.shuffle.partitions``;
        ``skew``: of a partition with the rows of so many average ones the largest keys are cut by time, if the query
        looks back a bounded time; a sample of the rows tells. By default 1.5; ``None`` saves the pass for the sample;
        ``warmup``: how much of the past is enough for a query that looks back without a bound, if there is no key, and
        if it is not one whose last values, extremes and totals can be carried from slice to slice;
        ``memory``: how many bytes of rows a query is run on at once, also as a text such as ``"512MB"``, by default
        256 MiB; a slice that has more is cut further, by time, and a partition of keys that cannot be, by key;
        ``layout``: which columns of time the result has, ``"point"`` or ``"interval"``, by default as fits its events;
        ``imports``: modules that executors import first, which register native functions by :func:`tilt.udf`.

    Raises
    ------
    QueryError
        If the query cannot be cut.
    SchemaError
        If a data frame does not have the columns, or has types that streams cannot have.

    >>> import tilt.spark as ts
    >>> ts.run(signal, frame, time="ts", key="symbol").write.parquet("signals")  # doctest: +SKIP

    """
    planned = _planned(query, data, options)
    return nested(planned.frame(), records(planned.bound.inputs))


def explain(query: object, data: object, **options: Any) -> str:  # noqa: ANN401
    """Show what :func:`run` does: how the work is cut, the query as loops, and the plan of Spark.

    >>> import tilt.spark as ts
    >>> print(ts.explain(signal, frame, time="ts", slices=200))  # doctest: +SKIP
    """
    planned = _planned(query, data, options)
    spark = _plan_of(planned.frame())
    loops = planned.bound.stream._query().explain("loops").rstrip()
    return f"{planned.explain()}\n\n{loops}\n\n{spark}"


def tune(session: SparkSession) -> None:
    """Set what makes Spark hand rows to Python quickly: large Arrow batches, whose bytes are not counted row by row.

    This doubles the throughput of :func:`run`, and of everything else in the session that goes through Arrow. The state
    of streams is put into RocksDB, which :func:`run_stream` needs. Settings that may not be changed in a session are
    named in a warning.

    >>> import tilt.spark as ts
    >>> ts.tune(spark)  # doctest: +SKIP
    """
    refused = []
    for name, value in _SETTINGS.items():
        if name == PROVIDER and keeps_in_rocksdb(session):
            continue
        try:
            session.conf.set(name, value)
        except REFUSALS:
            refused.append(f"{name} = {value}")
    if refused:
        message = f"this session may not change {', '.join(refused)}; set it where the session or cluster is configured"
        warnings.warn(message, stacklevel=2)


def _plan_of(frame: DataFrame) -> str:
    """Give the plan of Spark as it prints it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    return text.getvalue().rstrip()


def _planned(query: object, data: object, options: Mapping[str, Any]) -> Planned:
    events = events_of("run", options, _OPTIONS)
    imports = modules_of(options)
    asked_slices, asked_tasks, asked_partitions = (
        number_of(options, name) for name in ("slices", "tasks", "partitions")
    )

    skew = ratio_of(options, "skew", _SKEW)
    memory = budget_bytes(options["memory"]) if options.get("memory") is not None else AT_ONCE
    ways: list[Planned] = []
    both: set[str] = set()

    def planned(stream: Stream, inputs: Mapping[str, Input], layout: Layout | None = None) -> Planned:
        ways.append(way(stream, inputs, layout))
        return ways[-1]

    def way(stream: Stream, inputs: Mapping[str, Input], layout: Layout | None) -> Planned:
        _refuse_streams(inputs)
        whole = Bound(stream, inputs, layout, memory)
        session = next(iter(inputs.values())).session
        warmup = options.get("warmup")
        ticks = None if warmup is None else _native.duration(duration_text(warmup), whole.program.unit)
        is_direct = any(isinstance(source, ParquetSource) for source in inputs.values())
        is_ordered = bool(options.get("ordered"))
        by_time = is_ordered or "slices" in options
        if is_direct and not by_time:
            by_time = not whole.key
            if whole.key and "partitions" not in options:
                by_time = Direct(whole, None, None, ticks, imports).pays
                # Files decide, so what is said to one of the ways is none of the caller's mistakes in the other.
                both.update(_TAKEN[Direct][1] | _TAKEN[Scanned][1])
        if whole.key and by_time and whole.fills:
            message = "keys may have events where they have no rows, so the timeline cannot be cut; leave out slices="
            raise QueryError(message)
        if is_direct and by_time:
            return Direct(whole, asked_slices, asked_tasks, ticks, imports)
        _advise(session)
        if is_ordered:
            return Ordered(whole, ticks, imports)
        if by_time or not whole.key:
            slices = asked_slices or partitions(session)
            return Sliced(whole, slices, tasks_for(slices, session, asked_tasks), ticks, imports)
        places = asked_partitions or partitions(session)
        if is_direct:
            return Scanned(whole, places, imports)
        cells = Cells.of(whole)
        return Keyed(whole, places, imports, skew) if cells is None else Counted(whole, places, imports, cells)

    stream, inputs = bound(query, data, events, lambda stream, inputs: planned(stream, inputs).frame())
    found = planned(stream, inputs, options.get("layout"))
    _refuse_unused(options, ways, both)
    return found


def _refuse_streams(inputs: Mapping[str, Input]) -> None:
    for name, source in inputs.items():
        if isinstance(source, FrameSource) and source.frame.isStreaming:
            message = f"~{name} is a streaming data frame; run_stream(..., lateness=...) runs queries on such"
            raise QueryError(message)


def _refuse_unused(options: Mapping[str, Any], ways: Sequence[Planned], both: set[str]) -> None:
    """Refuse options that say nothing to how the query, or any stage of it, is cut, unless ``both`` has them."""
    taken = both.union(*(_TAKEN[type(way)][1] for way in ways))
    for option in _HOW:
        if options.get(option) in (None, False) or option in taken:
            continue
        how = _TAKEN[type(ways[-1])][0]
        hint = ", or cut by time: slices=" if how is _BY_KEY and option in {"tasks", "warmup"} else ""
        message = f"{option}= has no meaning here, as {how}; leave it out{hint}"
        raise QueryError(message)


def _advise(session: SparkSession) -> None:
    """Say once that a setting of Spark is slow."""
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    # Of a session that does not tell there is nothing to say.
    value = setting(session, name, None, untold=_SETTINGS[name])
    if value == _SETTINGS[name] or name in _said:
        return
    _said.add(name)
    warnings.warn(f"{name} is {value}, which halves the speed of Arrow; tilt.spark.tune(session) sets it", stacklevel=4)
