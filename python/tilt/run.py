"""Running programs on sources."""

from __future__ import annotations

import atexit
import contextlib
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from tilt import _native
from tilt.budgets import budget_bytes, default_budget
from tilt.durations import instant_ticks
from tilt.errors import QueryError, UnsortedError, WholeError, WholeRunWarning
from tilt.program import Program
from tilt.progress import Bar, watched
from tilt.sources import as_source
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tilt.durations import Instant
    from tilt.live import Session
    from tilt.progress import Extent
    from tilt.sources import Source

Stage: TypeAlias = Literal["logical", "optimized", "loops", "llvm", "asm"]
"""What :meth:`Query.explain` can show."""
Backend: TypeAlias = Literal["native", "loops", "interpreter"]
"""What runs a query: machine code, the checking interpreter of loops, or the interpreter that defines every result."""
Layout: TypeAlias = Literal["auto", "point", "interval", "as_given"]
"""Which columns of time a result has: as fits its events, the end, start and end, or as the rows came."""

FUNCTIONS: dict[str, Callable[..., Any] | _native.Pointer] = {}
"""What all programs of this process can call, by name: see :func:`tilt.udf`."""

# A run that was interrupted may still be about to call a function of Python.
atexit.register(_native.settle)


@final
class Query:
    """A compiled program. It may be run by several threads at once, is picklable, and compiled only once in a process.

    >>> import tilt as tl
    >>> from tilt.sources import rows
    >>> query = tl.Query('''
    ...     query doubled unit tick {
    ...       input ~x: f64 point
    ...       ~y[t] = ~x[t] * 2.0
    ...       output ~y
    ...     }
    ... ''')
    >>> query.run({"x": rows({"t": [1, 2], "x": [0.5, 4.0]}, time="t")}).to_pylist()
    [{'t': 1, 'y': 1.0}, {'t': 2, 'y': 8.0}]
    """

    __slots__ = ("_handle", "_text")
    _handle: _native.Query
    _text: str

    def __init__(self, program: str | Program) -> None:
        """Compile a program or its text.

        Raises
        ------
        QueryError
            If the text is no program, or one without a meaning.

        """
        self._text = str(program)
        self._handle = _compiled(self._text)

    @property
    def program(self) -> Program:
        """The program as given.

        >>> import tilt as tl
        >>> tl.Query("query q unit s { input ~x: f64 point output ~x }").program
        <tilt.Program q(~x: f64) -> ~x: f64>
        """
        return Program._of(self._handle.program)

    def run(  # noqa: PLR0913
        self,
        sources: Mapping[str, object],
        *,
        threads: int | None = None,
        span: tuple[Instant, Instant] | None = None,
        part: tuple[Instant, Instant] | None = None,
        backend: Backend | None = None,
        functions: Mapping[str, Callable[..., Any] | _native.Pointer] | None = None,
        layout: Layout | None = None,
        progress: bool | Callable[[float], object] | None = None,
    ) -> Table:
        """Run the query and give its result.

        The interpreter's lock is released; Ctrl-C ends the run.

        Parameters
        ----------
        sources
            A source (:mod:`tilt.sources`) for each input. A scalar input reads the column of its name, or the only one.
        threads
            By default ``TILT_THREADS``, or as many as there are cores.
        span
            The time ``(start, end]`` that the run is about, which must contain all events; by default from the first to
            the last.
        part
            Only the result's events that end in ``(start, end]``.
        backend
            ``"native"`` is the default.
        functions
            What the program calls as ``@name(...)``, besides what :func:`tilt.udf` made. They must be pure.
        layout
            Which columns of time the result has.
        progress
            A function that is called about twenty times a second, with the share that is done, and with 1 at the end;
            an exception of it ends the run. ``True`` shows a bar with the time that is covered, once a run takes half
            a second, which needs rich; ``False`` does not. By default there is one on a terminal, unless
            ``TILT_PROGRESS=0``.

        >>> import tilt as tl
        >>> from tilt.sources import rows
        >>> query = tl.Query("query q unit tick { input ~x: i64 point ~y[t] = ~x[t] * 2 output ~y }")
        >>> query.run({"x": rows({"t": [1, 2], "x": [5, 6]}, time="t")}, threads=1)["y"]
        [10, 12]

        Raises
        ------
        SchemaError
            If rows are not what the query declares: also :class:`tilt.errors.UnsortedError` and
            :class:`tilt.errors.OverlapError`.
        QueryError
            If the query has no meaning on these rows.
        KeyboardInterrupt
            On Ctrl-C.

        """
        given = {name: as_source(data) for name, data in sources.items()}
        with watched(progress, lambda: _extent(given.values())) as callback:
            result = self._handle.run(
                {name: source.input() for name, source in given.items()},
                threads=threads,
                span=self._ticks(span),
                part=self._ticks(part),
                backend=backend,
                functions=FUNCTIONS | dict(functions or {}),
                layout=layout,
                progress=callback,
            )
            # What is told in between may end before the end.
            if callable(progress):
                progress(1.0)
        return Table(result)

    def batches(  # noqa: PLR0913
        self,
        sources: Mapping[str, object],
        *,
        memory: str | int | None = None,
        threads: int | None = None,
        span: tuple[Instant, Instant] | None = None,
        part: tuple[Instant, Instant] | None = None,
        backend: Backend | None = None,
        functions: Mapping[str, Callable[..., Any] | _native.Pointer] | None = None,
        layout: Layout | None = None,
        progress: bool | Callable[[float], object] | None = None,
    ) -> Iterator[Table]:
        """Run the query on rows as they are read, and go through its result part by part: one table at least.

        Of each source no more is held than what the next part depends on; together the parts are the result of
        :meth:`run`, bit for bit. What is wrong with rows is raised when they are read, after the parts before them.

        Parameters
        ----------
        sources
            A source for each input.
        memory
            About how many bytes to use, also as a text such as ``"512MB"``; by default half of the machine's memory.
        threads, span, part, backend, functions, layout
            As for :meth:`run`.
        progress
            As for :meth:`run`; the share is that of rows, where files say how many they have.

        >>> import tilt as tl
        >>> from tilt.sources import rows
        >>> query = tl.Query("query q unit tick { input ~x: i64 point ~y[t] = reduce sum ~x[t-2 : t] output ~y }")
        >>> [part["y"] for part in query.batches({"x": rows({"t": [1, 2, 3], "x": [1, 10, 100]}, time="t")})]
        [[1, 11, 110]]

        Raises
        ------
        WholeError
            At once, if no part of the result can be told before all rows are read.
        TiltError
            If what has to be held does not fit into ``memory``; and as :meth:`run`.

        """
        watch = contextlib.ExitStack()
        callback = watch.enter_context(watched(progress, lambda: None))
        options: dict[str, Any] = {"threads": threads, "backend": backend, "functions": functions, "layout": layout}
        with watch:
            parts = self._begin(sources, memory, span=span, part=part, progress=callback, **options)
            return _tables(parts, watch.pop_all(), callback)

    def _parts_or_whole(
        self,
        sources: Mapping[str, object],
        memory: str | int | None,
        **options: Any,  # noqa: ANN401
    ) -> Iterator[Table]:
        """Run the query in parts, or as a whole if it has to be: without a budget silently, with one with a warning."""
        given = 0
        try:
            for part in self.batches(sources, memory=memory, **options):
                yield part
                given += len(part)
        except WholeError as refused:
            if memory is not None:
                message = f"all rows are read at once, whatever memory that takes: {refused}"
                warnings.warn(message, WholeRunWarning, stacklevel=3)
        except (QueryError, UnsortedError) as error:
            # A part may see too little around it to know that a read is not ambiguous, and rows of a key need to be in
            # order within the key only: all rows at once tell.
            is_keyed = any(as_source(data).events.key is not None for data in sources.values())
            if memory is not None or (isinstance(error, UnsortedError) and not is_keyed):
                raise
        else:
            return
        yield self.run(sources, **options)[given:]

    def _begin(
        self,
        sources: Mapping[str, object],
        memory: str | int | None,
        *,
        span: tuple[Instant, Instant] | None = None,
        part: tuple[Instant, Instant] | None = None,
        functions: Mapping[str, Callable[..., Any] | _native.Pointer] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> _native.Parts:
        return self._handle.parts(
            {name: as_source(data).chunks(memory) for name, data in sources.items()},
            memory=default_budget() if memory is None else budget_bytes(memory),
            span=self._ticks(span),
            part=self._ticks(part),
            functions=FUNCTIONS | dict(functions or {}),
            **options,
        )

    def session(self, *, time: object, **options: Any) -> Session:  # noqa: ANN401
        """Begin a live session.

        Parameters
        ----------
        time
            The column of times, or those of starts and of ends: for all inputs, or a dictionary by input.
        **options
            ``tz`` and ``closed`` of the times, and those of :meth:`tilt.Stream.session`.

        >>> import tilt as tl
        >>> query = tl.Query("query q unit tick { input ~x: i64 point ~y[t] = reduce sum ~x[t-2 : t] output ~y }")
        >>> live = query.session(time="t")
        >>> live.push({"t": [1, 2, 3], "x": [1, 10, 100]})["y"]
        [1, 11, 110]

        """
        from tilt.live import Session  # noqa: PLC0415

        return Session._begin(self, options | {"time": time})

    @property
    def whole(self) -> str | None:
        """Why the query cannot be run in parts, if it cannot: see :meth:`batches`.

        >>> import tilt as tl
        >>> query = tl.Query("query q unit tick { input ~x: i64 point ~y[t] = reduce median ~x[-inf : t] output ~y }")
        >>> query.whole
        'a result may depend on the whole past of ~x'
        """
        return self._handle.whole()

    def analyze(self, sources: Mapping[str, object], *, threads: int | None = None) -> str:
        """Run the query and show its stages and loops with what each took.

        >>> import tilt as tl
        >>> from tilt.sources import rows
        >>> query = tl.Query("query q unit s { input ~x: f64 point ~y[t] = ~x[t] + 1.0 output ~y }")
        >>> "~y" in query.analyze({"x": rows({"t": [1, 2], "x": [0.5, 4.0]}, time="t")})
        True
        """
        inputs = {name: as_source(data).input() for name, data in sources.items()}
        return self._handle.analyze(inputs, threads=threads, functions=dict(FUNCTIONS))

    def measure(self, sources: Mapping[str, object], *, threads: int | None = None) -> dict[str, Any]:
        """Run the query and give what was measured: of the run, and of each of its stages.

        >>> import tilt as tl
        >>> from tilt.sources import rows
        >>> query = tl.Query("query q unit s { input ~x: f64 point ~y[t] = ~x[t] + 1.0 output ~y }")
        >>> measured = query.measure({"x": rows({"t": [1, 2], "x": [0.5, 4.0]}, time="t")})
        >>> measured["input_rows"], [stage["name"] for stage in measured["stages"]]
        (2, ['y'])
        """
        inputs = {name: as_source(data).input() for name, data in sources.items()}
        return self._handle.measure(inputs, threads=threads, functions=dict(FUNCTIONS))

    def explain(self, stage: Stage = "loops") -> str:
        """Show the query: as written, after all passes, as stages and loops, as LLVM IR, or as assembly.

        >>> import tilt as tl
        >>> query = tl.Query("query q unit s { input ~x: f64 point ~y[t] = ~x[t] + 1.0 - 1.0 output ~y }")
        >>> print(query.explain("optimized"))
        query q unit s {
          input ~x: f64 point
        <BLANKLINE>
          ~y[t] = ~x[t] + 1.0 - 1.0
        <BLANKLINE>
          output ~y
        }
        <BLANKLINE>
        """
        return self._handle.explain(stage)

    def _ticks(self, span: tuple[Instant, Instant] | None) -> tuple[int, int] | None:
        if span is None:
            return None
        unit = self._handle.program.unit
        return instant_ticks(span[0], unit), instant_ticks(span[1], unit)

    def __repr__(self) -> str:
        return repr(self.program).replace("tilt.Program", "tilt.Query", 1)

    def __reduce__(self) -> tuple[type[Query], tuple[str]]:
        """Pickle the text: it is compiled again where it is needed."""
        return Query, (self._text,)


def run(program: str | Program, sources: Mapping[str, object], **options: Any) -> Table:  # noqa: ANN401
    """Run a program on sources; the options are those of :meth:`Query.run`.

    >>> from tilt.run import run
    >>> from tilt.sources import rows
    >>> text = "query q unit tick { input ~x: i64 point ~y[t] = reduce sum ~x[t-2 : t] output ~y }"
    >>> run(text, {"x": rows({"t": [1, 2, 3], "x": [1, 10, 100]}, time="t")})["y"]
    [1, 11, 110]
    """
    return Query(program).run(sources, **options)


def _tables(parts: _native.Parts, watch: contextlib.ExitStack, callback: object) -> Iterator[Table]:
    """Go through parts; the run and what watches it end with them."""
    with watch, contextlib.closing(parts):
        for part in parts:
            table = Table(part)
            if isinstance(callback, Bar):
                callback.passed(table)
            yield table


@lru_cache(maxsize=256)
def _compiled(text: str) -> _native.Query:
    return _native.Query(text)


def _extent(sources: Iterable[Source]) -> Extent:
    """Give the time that rows in memory are about."""
    extents = [source.extent() for source in sources]
    known = [extent for extent in extents if extent is not None]
    if not known or len(known) < len(extents):
        return None
    return min(first for first, _ in known), max(last for _, last in known)
