"""Running streams, and looking at what will run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilt import _native
from tilt.errors import QueryError
from tilt.keys import Looked, Staged, declaration
from tilt.run import Query
from tilt.sources import Deferred, Rows, Source, as_source
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike
    from typing import Literal

    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from tilt.durations import Instant
    from tilt.run import Backend, Layout, Stage
    from tilt.streams import Stream

_BATCH_ROWS = 1 << 16
_SHOWN_ROWS = 100_000
_COMMENTS = {"text": "//", "mermaid": "%%", "dot": "//"}


class Runnable:
    """What runs streams."""

    __slots__ = ("_compiled",)
    _handle: _native.Stream
    _name: str | None
    _compiled: Query | None
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
    ) -> Table:
        """Run the query and give its result: a row for each event, ordered by time and key.

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

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> (x * 10).collect(threads=1).to_dict()
        {'t': [1, 2, 5], 'x': [10.0, 20.0, 60.0]}

        """
        from tilt.config import Config  # noqa: PLC0415

        # Columns that are called as those of an interval would be take their place.
        if layout is None and {"start", "end"} & dict(self._handle.schema).keys():
            layout = "point" if _native.events(self._handle)[0] == "interval" else None
        table = self._query().run(
            self._bound(),
            threads=threads if threads is not None else Config.threads,
            progress=progress if progress is not None else Config.progress,
            span=span,
            part=part,
            layout=layout,
            backend=backend,
        )
        return self._titled(table)

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

    def collect_batches(self, rows: int = _BATCH_ROWS, **options: Any) -> Iterator[Table]:  # noqa: ANN401
        """Run the query and go through its result in tables of up to ``rows`` rows.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
        >>> [len(batch) for batch in x.collect_batches(2)]
        [2, 1]
        """
        table = self.collect(**options)
        for first in range(0, len(table), rows):
            yield table[first : first + rows]

    def to_polars(self, **options: Any) -> pl.DataFrame:  # noqa: ANN401
        """Run the query and give a Polars data frame. The options are those of :meth:`collect`."""
        return self.collect(**options).to_polars()

    def to_pandas(self, **options: Any) -> pd.DataFrame:  # noqa: ANN401
        """Run the query and give a pandas data frame."""
        return self.collect(**options).to_pandas()

    def to_arrow(self, **options: Any) -> pa.Table:  # noqa: ANN401
        """Run the query and give a pyarrow table."""
        return self.collect(**options).to_arrow()

    def to_numpy(self, **options: Any) -> dict[str, npt.NDArray[Any]]:  # noqa: ANN401
        """Run the query and give NumPy arrays."""
        return self.collect(**options).to_numpy()

    def sink_parquet(self, path: str | PathLike[str], *, compression: str = "zstd", **options: Any) -> None:  # noqa: ANN401
        """Run the query and write the result to a Parquet file."""
        self.collect(**options).write_parquet(path, compression=compression)

    def sink_csv(self, path: str | PathLike[str], **options: Any) -> None:  # noqa: ANN401
        """Run the query and write the result as comma-separated values."""
        self.collect(**options).write_csv(path)

    def sink_ipc(self, path: str | PathLike[str], *, compression: str = "none", **options: Any) -> None:  # noqa: ANN401
        """Run the query and write the result to an Arrow IPC file."""
        self.collect(**options).write_ipc(path, compression=compression)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Run the query and let anything that speaks Arrow read the result."""
        return self.collect().__arrow_c_stream__(requested_schema)

    def explain(
        self,
        stage: Stage = "loops",
        *,
        format: Literal["text", "mermaid", "dot", "json"] = "text",  # noqa: A002
        analyze: bool = False,
    ) -> str:
        """Show what will run: as built, after all passes, as stages and loops, as LLVM IR, or as assembly.

        Parameters
        ----------
        stage
            ``"logical"``, ``"optimized"``, ``"loops"``, ``"llvm"`` or ``"asm"``.
        format
            ``"text"``, or a graph of the streams (of the first two stages) as ``"mermaid"``, ``"dot"`` or ``"json"``.
        analyze
            Whether to run the query and show what each stage took.

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

        query = self._query()
        if analyze and (stage, format) != ("loops", "text"):
            message = "what a run took is told for the loops and as text: explain(analyze=True)"
            raise ValueError(message)
        if analyze:
            text = query.analyze(self._bound())
        elif format == "text":
            text = query.explain(stage)
        else:
            program = str(query.program) if stage == "logical" else query.explain("optimized")
            text = plans.render(plans.graph(program), format)
        notes = "" if format == "json" else "".join(f"{_COMMENTS[format]} {note}\n" for note in _stages(self._sources))
        return f"{text.rstrip()}\n{notes}" if notes else text

    def show_graph(self, stage: Literal["logical", "optimized"] = "optimized") -> Any:  # noqa: ANN401
        """Give a picture of the streams and what they read, which notebooks show; ``str()`` of it is SVG.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1], "x": [1.0]}, time="t")["x"]
        >>> str((x + 1).show_graph()).startswith("<svg")
        True
        """
        from tilt import plans  # noqa: PLC0415

        query = self._query()
        return plans.Picture(plans.svg(plans.graph(str(query.program) if stage == "logical" else query.explain(stage))))

    def _repr_html_(self: Stream) -> str:  # type: ignore[misc]
        """Show the definitions, and if all rows are in memory and not many, the stream over time."""
        import html  # noqa: PLC0415

        text = f"<pre>{html.escape(repr(self))}</pre>"
        tables = [source.table for source in self._sources.values() if isinstance(source, Rows)]
        if len(tables) < len(self._sources) or sum(map(len, tables)) > _SHOWN_ROWS:
            return text
        from tilt.plots import plot  # noqa: PLC0415

        return f"{text}{plot(self)}"


def _source_of(data: object) -> object:
    """Give the source of a stream that is nothing but rows."""
    sources = getattr(data, "_sources", None)
    if sources is None:
        return data
    if len(sources) != 1 or getattr(data, "_columns", None) is None:
        message = "an input is bound to rows or to a stream made of rows; build the query on this stream instead"
        raise QueryError(message)
    return next(iter(sources.values()))


def _stages(sources: Mapping[str, Source]) -> Iterator[str]:
    """Say what is computed before the query itself."""
    for name, source in sources.items():
        if isinstance(source, Staged):
            yield f"~{name} is the result of an earlier stage, computed first: {source.stream!r}"
        if isinstance(source, Looked):
            yield f"~{name} is joined with a table of {len(source.table.rows):,} rows on `{source.on}` when it is read"
