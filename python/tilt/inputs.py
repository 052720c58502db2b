"""Streams of rows: in memory, in files, or given later."""

from __future__ import annotations

import re
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tilt import sources
from tilt.keys import SideTable
from tilt.streams import Stream
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilt.durations import Duration, Instant

    Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


def stream(  # noqa: PLR0913
    rows: object,
    *,
    time: str | None = None,
    valid: Duration | tuple[str, str] = "point",
    unit: str | None = None,
    tz: str | None = None,
    period: Duration | None = None,
    sort: bool = False,
    overlap: str | None = None,
    closed: str = "right",
    name: str = "stream",
) -> Stream:
    """Make a stream of rows in memory: of Polars, pandas, pyarrow, DuckDB, or a dictionary of columns.

    Parameters
    ----------
    rows
        Anything that :class:`tilt.Table` takes. It is not copied: do not change it afterwards.
    time
        The column of times; not needed for frames and series of pandas that have them as their index.
    valid
        When a row is true: at its time (``"point"``), until the next row (``"until_next"``), for a length of time up to
        it, or between the times of two columns.
    unit
        What integer times count: ``s``, ``ms``, ``us`` or ``ns``; without it they are plain ticks.
    tz
        The time zone of times that have none.
    period
        The distance of samples, which may have gaps; with it ``x[-1]`` is the sample before.
    sort
        Whether to sort rows that are not in order of time, instead of refusing them.
    overlap
        What several events at one instant mean: all of them (``"bag"``), the ``"first"``, the ``"last"``, or an error
        (``"disjoint"``).
    closed
        ``"left"`` for intervals that hold their start and not their end.
    name
        What plans call it.

    >>> import tilt as tl
    >>> tl.stream({"t": [1, 2], "px": [10.0, 11.0]}, time="t")["px"].collect().to_dict()
    {'t': [1, 2], 'px': [10.0, 11.0]}

    """
    if type(rows).__module__.partition(".")[0] == "pandas":
        rows, time = _indexed(rows, time)
    events: dict[str, Any] = {"time": time, "valid": valid, "unit": unit, "tz": tz, "period": period}
    events |= {"sort": sort, "overlap": overlap, "closed": closed}
    return Stream._input(name, sources.rows(rows, **events))


def _indexed(frame: Any, time: str | None) -> tuple[Any, str | None]:  # noqa: ANN401
    """Give a frame of pandas and its column of times: by default its index, if that has times."""
    whole = frame.to_frame(frame.name or "value") if hasattr(frame, "to_frame") else frame
    if time is not None or whole.index.dtype.kind != "M":
        return whole, time
    name = whole.index.name or "time"
    return whole.rename_axis(name), name


def scan_parquet(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    name: str | None = None,
    **events: Any,  # noqa: ANN401
) -> Stream:
    """Make a stream of the rows of Parquet files, which are read when a query runs.

    Only the columns that the query reads are read, and only rows in ``(start, end]``.

    Parameters
    ----------
    paths
        Names, or patterns such as ``"day/*.parquet"``.
    columns
        Only these columns.
    start, end
        Only rows after ``start`` and up to ``end``.
    name
        What plans call it; by default the name of the file.
    **events
        ``time``, ``valid``, ``unit``, ``tz``, ``period``, ``sort``, ``overlap`` and ``closed``, as for :func:`stream`.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     tl.Table({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]}).write_parquet(f"{directory}/prices.parquet")
    ...     tl.scan_parquet(f"{directory}/*.parquet", time="t")["price"].diff().collect().to_dict()
    {'t': [2, 4], 'price': [-0.25, 0.5]}

    """
    return _scan(paths, "parquet", columns, start, end, name, events)


def scan_csv(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    name: str | None = None,
    **events: Any,  # noqa: ANN401
) -> Stream:
    """Make a stream of the rows of CSV files. The parameters are those of :func:`scan_parquet`.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     tl.Table({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]}).write_csv(f"{directory}/prices.csv")
    ...     tl.scan_csv(f"{directory}/prices.csv", time="t")["price"].collect()["price"]
    [9.5, 9.25, 9.75]
    """
    return _scan(paths, "csv", columns, start, end, name, events)


def scan_ipc(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    name: str | None = None,
    **events: Any,  # noqa: ANN401
) -> Stream:
    """Make a stream of the rows of Arrow IPC files, which are mapped. The parameters are those of :func:`scan_parquet`.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     tl.Table({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]}).write_ipc(f"{directory}/prices.arrow")
    ...     tl.scan_ipc(f"{directory}/prices.arrow", time="t")["price"].collect()["price"]
    [9.5, 9.25, 9.75]
    """
    return _scan(paths, "ipc", columns, start, end, name, events)


def scan_json(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    name: str | None = None,
    **events: Any,  # noqa: ANN401
) -> Stream:
    """Make a stream of files with a JSON object a line. The parameters are those of :func:`scan_parquet`.

    >>> import tempfile, tilt as tl
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     tl.Table({"t": [1, 2, 4], "price": [9.5, 9.25, 9.75]}).write_jsonl(f"{directory}/prices.jsonl")
    ...     tl.scan_json(f"{directory}/prices.jsonl", time="t")["price"].collect()["price"]
    [9.5, 9.25, 9.75]
    """
    return _scan(paths, "jsonl", columns, start, end, name, events)


def source(name: str, schema: Mapping[str, str] | object, **events: Any) -> Stream:  # noqa: ANN401
    """Make a stream whose rows come later: :meth:`tilt.Stream.bind` and :meth:`tilt.Stream.run` give them.

    Parameters
    ----------
    name
        What the rows are given by.
    schema
        The type of each column: names of types as in the IR, or an Arrow schema.
    **events
        ``time`` and the other parameters of :func:`stream` about how rows become events.

    >>> import tilt as tl
    >>> ticks = tl.source("ticks", {"ts": "timestamp(us)", "price": "f64"}, time="ts")
    >>> trend = ticks["price"]["-10s":].mean() - ticks["price"]["-20s":].mean()
    >>> trend.lookback
    '20s'

    """
    return Stream._input(name, sources.deferred(schema, **events))


def table(rows: object, *, key: str) -> SideTable:
    """Make a table that does not change with time, for :meth:`tilt.Stream.lookup`.

    >>> import tilt as tl
    >>> tl.table({"ad_id": [7, 8], "campaign": ["x", "y"]}, key="ad_id").added
    ['campaign']
    """
    return SideTable(Table(rows), key)


def _scan(  # noqa: PLR0913, PLR0917
    paths: Paths,
    format: str,  # noqa: A002
    columns: Sequence[str] | None,
    start: Instant | None,
    end: Instant | None,
    name: str | None,
    events: dict[str, Any],
) -> Stream:
    files = sources.files(paths, format=format, columns=columns, start=start, end=end, **events)
    if name is None:
        first = paths if isinstance(paths, (str, PathLike)) else next(iter(paths), "files")
        name = (
            re.sub(r"\W+", "_", fspath(first).replace("\\", "/").rsplit("/", 1)[-1].split(".")[0]).strip("_") or "files"
        )
    return Stream._input(name, files)
