"""Running streams, and looking at what will run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.budgets import budget_bytes
from tilt.errors import QueryError
from tilt.keys import Looked, Staged, declaration
from tilt.run import Query
from tilt.sources import Deferred, Rows, Source, as_source
from tilt.table import Table, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike
    from typing import Literal

    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tilt.durations import Duration, Instant
    from tilt.live import Session
    from tilt.live.options import Late, Mode
    from tilt.run import Backend, Layout, Stage
    from tilt.streams import Stream

_BATCH_ROWS = 1 << 16
_GROUP_ROWS = 1 << 20
_SHOWN_ROWS = 100_000
_SHOWN_SECONDS = 2.0
_COMMENTS = {"text": "//", "mermaid": "%%", "dot": "//"}


class Runnable:
    """What runs streams."""

    __slots__ = ("_compiled", "_layout")
    _handle: _native.Stream
    _name: str | None
    _compiled: Query | None
    _layout: Layout | None
    """The columns of time that a result has unless others are asked for. Known when the query is compiled."""
    _sources: Mapping[str, Source]

    def collect(  # noqa: PLR0913
        self,
        *,
        threads: int | None = None,
        progress: bool | Callable[[float], object] | None = None,
        span: tuple[Instant, Instant] | None = None,
        part: tuple[Instant, Instant] | None = None,
        layout: Layout | None = None,
        backend: Backend | None = None,
        memory: str | int | None = None,
    ) -> Table:
        """Run the query and give its result: a row for each event, ordered by time and key.

        Files are read in parts, as :meth:`collect_batches` does it, so that only the result has to fit into memory.

        Parameters
        ----------
        threads
            By default those of :class:`tilt.Config`, ``TILT_THREADS``, or as many as there are cores.
        progress
            Whether to show a bar, or what to call about twenty times a second.
        span
            The time ``(start, end]`` that the run is about; by default from the first event to the last.
        part
            Only events that end in ``(start, end]``.
        layout
            Which columns of time the result has: ``"point"`` (the end), ``"interval"`` (start and end), or by default
            as fits its events and the names of its other columns.
        backend
            What runs it: machine code, or one of two interpreters that check it.
        memory
            About how many bytes to use besides the result, also as a text such as ``"512MB"``.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> (x * 10).collect(threads=1).to_dict()
        {'t': [1, 2, 5], 'x': [10.0, 20.0, 60.0]}

        """
        from tilt.config import Config  # noqa: PLC0415

        options = {"threads": threads, "progress": progress, "span": span, "part": part, "layout": layout}
        memory = memory if memory is not None else Config.memory
        if memory is None and not any(source.is_stored for source in self._sources.values()):
            return self._whole(backend=backend, **options)
        parts = list(self._parts(memory, backend=backend, **options))
        return Table(_native.Table.joined([part._handle for part in parts]))

    def _whole(self, **options: Any) -> Table:  # noqa: ANN401
        """Run the query on all rows at once."""
        query = self._query()
        return self._titled(query.run(self._bound(), **self._settings(**options)))

    def _parts(self, memory: str | int | None, **options: Any) -> Iterator[Table]:  # noqa: ANN401
        """Run the query on rows as they are read, or at once if it has to be; give one table at least."""
        from tilt.config import Config  # noqa: PLC0415

        memory = memory if memory is not None else Config.memory
        query = self._query()
        parts = query._parts_or_whole(self._bound(), memory, **self._settings(**options))
        return map(self._titled, parts)

    def _arriving(self, memory: str | int | None, layout: Layout, columns: list[str]) -> _native.Parts:
        """Begin a run whose result is read by another, under other names of columns."""
        settings = self._settings(layout=layout) | {"progress": None}
        return self._query()._begin(self._bound(), memory, columns=columns, **settings)

    def _settings(self, *, layout: Layout | None = None, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Give options of a run with what settings of the process say."""
        from tilt.config import Config  # noqa: PLC0415

        for name in ("threads", "progress"):
            if options.get(name) is None:
                options[name] = getattr(Config, name)
        if options["threads"] is not None and options["threads"] < 1:
            message = f"a run has one thread at least, not {options['threads']}; without threads= it has all cores"
            raise ValueError(message)
        return {"layout": layout if layout is not None else self._layout, **options}

    def _titled(self, table: Table) -> Table:
        """Give a scalar result its name, which the program cannot have if an input has it."""
        if self._name is None or table.columns[-1] == self._name:
            return table
        return Table(table._handle.renamed([*table.columns[:-1], self._name]))

    def _query(self) -> Query:
        """Compile the query, the first time that it is needed."""
        if self._compiled is None:
            handle = self._handle
            if self._name is not None and self._name != handle.name and self._name not in self._sources:
                handle = handle.alias(self._name)
            # Events that are as long as those of an input need no start, also if they were moved. Columns that are
            # called as those of an interval would be take their place.
            has_span = _native.events(handle)[0] != "interval"
            self._layout = "point" if has_span or {"start", "end"} & dict(handle.schema).keys() else None
            self._compiled = Query(handle.text())
        return self._compiled

    def _bound(self) -> dict[str, Source]:
        missing = [name for name, source in self._sources.items() if isinstance(source, Deferred)]
        if missing:
            name = missing[0]
            message = f"source `{name}` has no rows yet; run({name}=rows) or bind({name}=rows) gives it some"
            raise QueryError(message)
        return dict(self._sources)

    def bind(self: Stream, **rows: object) -> Stream:  # type: ignore[misc]
        """Give rows, or another source, to inputs by name: those of :func:`tilt.source`, or any other.

        Columns that the query reads must be there. Their types may differ from those declared if the query has a
        meaning with them: its own types are then those of the rows.

        >>> import tilt as tl
        >>> x = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"]
        >>> (x + 1).bind(x={"t": [1], "x": [2.0]}).collect()["x"]
        [3.0]
        """
        handle, sources = self._handle, dict(self._sources)
        for name, data in rows.items():
            if name not in sources:
                message = f"there is no source `{name}`; there are {', '.join(sources)}"
                raise QueryError(message)
            source = as_source(_source_of(data), sources[name])
            handle = _native.redeclare(handle, name, declaration(name, source))
            sources[name] = source
        return type(self)._of(handle, sources, self._columns, self._name)

    def run(self: Stream, **rows: object) -> Table:  # type: ignore[misc]
        """Run the query on rows for its sources, by name.

        >>> import tilt as tl
        >>> x = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"]
        >>> (x + 1).run(x={"t": [1], "x": [2.0]})["x"]
        [3.0]
        """
        return self.bind(**rows).collect()

    def session(  # type: ignore[misc]  # noqa: PLR0913
        self: Stream,
        *,
        lateness: Duration | Mapping[str, Duration] | None = None,
        late: Late | Mapping[str, Late] | None = None,
        horizon: Duration | Mapping[str, Duration] | None = None,
        idle_after: Duration | float | Mapping[str, Duration | float] | None = None,
        edges: bool | Mapping[str, bool] | None = None,
        mode: Mode = "final",
        on_result: Callable[[Table], object] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Session:
        """Begin a live session: push rows as they come, get results as they are certain.

        Rows that a source has already are not pushed: only its columns count. Each option about a stream is for all of
        them, or a dictionary by stream.

        Parameters
        ----------
        lateness
            How long after a row of a later time a row may come; by default rows come in order.
        late
            What becomes of one that is later: ``"raise"``, ``"drop"``, ``"adjust"`` (it is moved to the watermark) or
            ``"revise"`` (results are given again).
        horizon
            How late a row may be that revises results.
        idle_after
            After how long without rows others do not wait for a stream: seconds, or a text such as ``"5s"``.
        edges
            Whether rows of intervals may have no end: a later row with the same start and values tells it.
        mode
            ``"final"`` results are certain; with ``"updates"`` they come early and are revised, by a column ``op``.
        on_result
            A function that is called with every table of results that has rows.
        **options
            ``start`` of the run, ``layout``, ``threads``, ``backend`` and ``functions`` as for :meth:`collect`;
            ``max_batch`` and ``latency``: rows are computed together, once there are so many or so much time has
            passed, which costs less a row and changes nothing but when results come; and ``clock``, which gives the
            time in seconds that ``idle_after`` and ``latency`` go by.

        >>> import tilt as tl
        >>> ticks = tl.source("ticks", {"t": "i64", "price": "f64"}, time="t", unit="s")
        >>> live = ticks["price"]["-10s":].mean().session(lateness="5s")
        >>> live.push({"t": [1, 4, 3, 20], "price": [10.0, 12.0, 14.0, 11.0]})["price"]
        [10.0, 12.0, 12.0]

        Raises
        ------
        QueryError
            If an option has no meaning for this query. One that is computed in stages (:meth:`key_by` of what was
            computed, :meth:`unkey`) has no early results, revisions and ``start``, and none of its stages but the last
            may have intervals that overlap.

        """
        from tilt.live import Session  # noqa: PLC0415

        options |= {"lateness": lateness, "late": late, "horizon": horizon, "idle_after": idle_after, "edges": edges}
        return Session._begin(self, options | {"mode": mode, "on_result": on_result})

    def on_spark(self, data: object, **options: Any) -> DataFrame:  # noqa: ANN401
        """Run the query on a data frame of Spark, or a dictionary of them by name: see :func:`tilt.spark.run`."""
        from tilt.spark import run  # noqa: PLC0415

        return run(self, data, **options)

    def collect_batches(
        self,
        rows: int = _BATCH_ROWS,
        *,
        memory: str | int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Iterator[Table]:
        """Run the query and go through its result in tables of up to ``rows`` rows.

        Rows are read as they are needed, and of each source no more is held than what the next events depend on:
        neither files nor the result have to fit into memory. What is wrong with rows is raised when they are read,
        after what comes before them.

        Queries that cannot be run so are run as a whole, on all rows at once: those whose results depend on the whole
        past by more than running totals, recurrences and open sessions (running medians), that count events of each key
        ahead, or whose events may overlap and differ in length. :meth:`explain` says so, and with ``memory`` there is a
        :class:`tilt.errors.WholeRunWarning`. Sources with ``sort=True`` are read as a whole, too.

        Parameters
        ----------
        rows
            How many rows a table has at most.
        memory
            About how many bytes to use, also as a text such as ``"512MB"``. By default that of :class:`tilt.Config`, or
            half of what the machine has.
        **options
            As for :meth:`collect`.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> [len(batch) for batch in x.collect_batches(2)]
        [2, 1]

        Raises
        ------
        TiltError
            If what has to be held does not fit into ``memory``; and as :meth:`collect`.

        """
        if rows < 1:
            message = f"a table has at least one row, not {rows}"
            raise ValueError(message)
        return self._sliced(self._parts(memory, **options), rows)

    @staticmethod
    def _sliced(parts: Iterator[Table], rows: int) -> Iterator[Table]:
        for part in parts:
            for first in range(0, len(part), rows):
                yield part[first : first + rows]

    def to_polars(self, **options: Any) -> pl.DataFrame:  # noqa: ANN401
        """Run the query and give a Polars data frame. The options are those of :meth:`collect`.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> (x + 1).to_polars()["x"].to_list()
        [2.0, 3.0]
        """
        return self.collect(**options).to_polars()

    def to_pandas(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401
        """Run the query and give a pandas data frame.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> (x + 1).to_pandas()["x"].tolist()
        [2.0, 3.0]
        """
        return self.collect(**options).to_pandas()

    def to_arrow(self, **options: Any) -> pa.Table:  # noqa: ANN401
        """Run the query and give a pyarrow table.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> (x + 1).to_arrow()["x"].to_pylist()
        [2.0, 3.0]
        """
        return self.collect(**options).to_arrow()

    def to_numpy(self, **options: Any) -> dict[str, npt.NDArray[Any]]:  # noqa: ANN401
        """Run the query and give NumPy arrays.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> (x + 1).to_numpy()["x"]
        array([2., 3.])
        """
        return self.collect(**options).to_numpy()

    def sink_parquet(
        self,
        path: str | PathLike[str],
        *,
        compression: str = "zstd",
        row_group_rows: int | None = None,
        memory: str | int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> int:
        """Run the query, write the result to a Parquet file, and give its number of rows.

        Rows are read, computed and written part by part, as :meth:`collect_batches` does it. The file appears under its
        name when it is complete; if the run fails or is interrupted, an older one stays.

        Parameters
        ----------
        path
            The file.
        compression
            ``zstd``, ``snappy``, ``lz4``, ``gzip`` or ``none``.
        row_group_rows
            How many rows a group has at most; by default about a million, or fewer if ``memory`` is small.
        memory
            About how many bytes to use, also as a text such as ``"512MB"``.
        **options
            As for :meth:`collect`.

        >>> import tempfile, tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     (x * 2).sink_parquet(f"{directory}/doubled.parquet")
        3

        """
        from tilt.config import Config  # noqa: PLC0415

        budget = memory if memory is not None else Config.memory
        if row_group_rows is None and budget is not None:
            # A group is held until it is written: about a quarter of the budget.
            row_group_rows = min(_GROUP_ROWS, 1 + budget_bytes(budget) // (32 * (2 + len(self._handle.schema))))
        parts = self._parts(memory, **options)
        return write(parts, path, format="parquet", compression=compression, row_group_rows=row_group_rows)

    def sink_csv(self, path: str | PathLike[str], *, memory: str | int | None = None, **options: Any) -> int:  # noqa: ANN401
        """Run the query and write the result as comma-separated values, as :meth:`sink_parquet` does.

        >>> import pathlib, tempfile
        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     rows = x.sink_csv(f"{directory}/x.csv")
        ...     pathlib.Path(f"{directory}/x.csv").read_text().split()
        ['t,x', '1,1.0', '2,2.0']
        """
        return write(self._parts(memory, **options), path, format="csv")

    def sink_ipc(
        self,
        path: str | PathLike[str],
        *,
        compression: str = "none",
        memory: str | int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> int:
        """Run the query and write the result to an Arrow IPC file, as :meth:`sink_parquet` does.

        >>> import tempfile
        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     rows = x.sink_ipc(f"{directory}/x.arrow")
        ...     tl.scan_ipc(f"{directory}/x.arrow", time="t")["x"].collect()["x"]
        [1.0, 2.0]
        """
        return write(self._parts(memory, **options), path, format="ipc", compression=compression)

    def sink_jsonl(self, path: str | PathLike[str], *, memory: str | int | None = None, **options: Any) -> int:  # noqa: ANN401
        """Run the query and write the result as a JSON object a line, as :meth:`sink_parquet` does.

        >>> import pathlib, tempfile
        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t")["x"]
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     rows = x.sink_jsonl(f"{directory}/x.jsonl")
        ...     pathlib.Path(f"{directory}/x.jsonl").read_text().split()
        ['{"t":1,"x":1.0}', '{"t":2,"x":2.0}']
        """
        return write(self._parts(memory, **options), path, format="jsonl")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Run the query and let anything that speaks Arrow read the result."""
        return self.collect().__arrow_c_stream__(requested_schema)

    def explain(
        self,
        stage: Stage | None = None,
        *,
        format: Literal["text", "mermaid", "dot", "json"] = "text",  # noqa: A002
        analyze: bool = False,
    ) -> str:
        """Show what will run: as built, after all passes, as stages and loops, as LLVM IR, or as assembly.

        Parameters
        ----------
        stage
            ``"logical"``, ``"optimized"``, ``"loops"``, ``"llvm"`` or ``"asm"``. By default the loops, or as a graph
            the optimized program.
        format
            ``"text"``, or a graph of the streams (of the first two stages) as ``"mermaid"``, ``"dot"`` or ``"json"``.
        analyze
            Whether to run the query and show what each loop took: as text, or in numbers as ``"json"``.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> print((x + 1).explain("optimized").rstrip())
        query query unit tick {
          input ~stream: {x: f64} point
        <BLANKLINE>
          ~x[t] = ~stream[t].x + 1.0
        <BLANKLINE>
          output ~x
        }

        """
        from tilt import plans  # noqa: PLC0415

        text = plans.shown(self._query(), stage, format, self._bound() if analyze else None)
        notes = "" if format == "json" else "".join(f"{_COMMENTS[format]} {note}\n" for note in self._notes())
        return f"{text.rstrip()}\n{notes}" if notes else text

    def _notes(self) -> Iterator[str]:
        """Say what is computed before the query itself, and how files are read."""
        for name, source in self._sources.items():
            if isinstance(source, Staged):
                yield f"~{name} is the result of an earlier stage, computed first: {source.stream!r}"
            if isinstance(source, Looked):
                rows = len(source.table.rows)
                yield f"~{name} is joined with a table of {rows:,} rows on `{source.on}` when it is read"
        if any(source.is_stored for source in self._sources.values()):
            why = self._query().whole
            yield "files are read in parts" if why is None else f"files are read as a whole, because {why}"

    def show_graph(self, stage: Literal["logical", "optimized"] = "optimized") -> Any:  # noqa: ANN401
        """Give a picture of the streams and what they read, which notebooks show; ``str()`` of it is SVG.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1], "x": [1.0]}, time="t")["x"]
        >>> str((x + 1).show_graph()).startswith("<svg")
        True
        """
        from tilt import plans  # noqa: PLC0415

        given: str = stage
        if given not in {"logical", "optimized"}:
            message = f"streams are drawn as built or as optimized: show_graph('logical'), not {given!r}"
            raise ValueError(message)
        query = self._query()
        return plans.Picture(plans.svg(plans.graph(str(query.program) if stage == "logical" else query.explain(stage))))

    def _repr_html_(self: Stream) -> str:  # type: ignore[misc]
        """Show the definitions, and if all rows are in memory and not many, the stream over time.

        What goes wrong, or takes long, is said below the definitions: a notebook would show an exception of this as its
        own, and wait.
        """
        import html  # noqa: PLC0415

        text = f"<pre>{html.escape(repr(self))}</pre>"
        tables = [source.table for source in self._sources.values() if isinstance(source, Rows)]
        if len(tables) < len(self._sources) or sum(map(len, tables)) > _SHOWN_ROWS:
            return text
        from tilt.plots import is_drawn, series, svg  # noqa: PLC0415

        if not any(map(is_drawn, self.schema.values())):
            return text
        try:
            return f"{text}{svg(series(self, progress=_limited(_SHOWN_SECONDS)), 760, 220)}"
        except Exception as error:  # noqa: BLE001
            return f"{text}<pre>{html.escape(str(error))}</pre>"


def _limited(seconds: float) -> Callable[[float], None]:
    """Give what ends a run that takes longer, as the progress of the run."""
    import time  # noqa: PLC0415

    until = time.monotonic() + seconds

    def check(_: float) -> None:
        if time.monotonic() > until:
            message = f"not drawn, because it takes more than {seconds:g} s to compute; tl.plot(stream) draws it"
            raise TimeoutError(message)

    return check


def _source_of(data: object) -> object:
    """Give the source of a stream that is nothing but rows."""
    sources = getattr(data, "_sources", None)
    if sources is None:
        return data
    if len(sources) != 1 or getattr(data, "_columns", None) is None:
        message = "an input is bound to rows or to a stream made of rows; build the query on this stream instead"
        raise QueryError(message)
    return next(iter(sources.values()))
