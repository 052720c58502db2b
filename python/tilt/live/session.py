"""Sessions: rows in, results out."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn, final

from tilt.durations import instant_ticks
from tilt.errors import TiltError
from tilt.live.checkpoint import columns_of, columns_text, packed, unpacked
from tilt.live.options import Disorder, Setup, disorders, known_stream, listed, nanoseconds, plain
from tilt.live.plan import events_of, parameters, plan, schemas
from tilt.live.rows import table_of
from tilt.live.status import Status, StreamStatus
from tilt.queries import QueryFunction
from tilt.table import Table

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType

    from tilt import _native
    from tilt.durations import Instant
    from tilt.live.options import Completion
    from tilt.live.plan import Plan
    from tilt.live.relay import Relay
    from tilt.live.stages import Stages
    from tilt.run import Query
    from tilt.streams import Stream

    Sessionable = Stream | Query | QueryFunction[Any]


_PATIENCE = 0.1
"""Seconds that whoever waits for results sleeps at most."""
_MANY_ROWS = 4096
"""Rows that an event loop should not be kept waiting for."""


@final
class Session:
    """A query that is fed as rows arrive. ``session()`` of a stream, a query or a query function begins one.

    What is certain comes out; all results together are those of :meth:`tilt.Stream.collect` on all rows, bit for bit,
    whatever the size of batches and the order of rows within the lateness. Any thread may call any method.

    >>> import tilt as tl
    >>> ticks = tl.source("ticks", {"t": "i64", "price": "f64"}, time="t", unit="s")
    >>> live = ticks["price"].window(tl.tumbling("10s")).mean().session(lateness="2s")
    >>> live.push({"t": [1, 4, 9, 8], "price": [10.0, 12.0, 14.0, 16.0]})["price"]
    []
    >>> live.push({"t": 13, "price": 11.0}).to_dict()
    {'t': [10], 'price': [13.0]}
    """

    def __init__(self) -> None:
        """Sessions are begun by a query."""
        message = "a query begins a session: query.session(...), or tl.Session.restore(query, checkpoint)"
        raise TypeError(message)

    @classmethod
    def _begin(cls, query: Sessionable, options: dict[str, Any], schema: object = None) -> Session:
        """Begin a session of a query."""
        columns = schemas(query, schema) if isinstance(query, QueryFunction) else {}
        return cls._made(query, Setup.of(options), columns)

    @classmethod
    def _made(
        cls, query: Sessionable, setup: Setup, columns: dict[str, Table], checkpoint: bytes | None = None
    ) -> Session:
        session = object.__new__(cls)
        session._query = query
        session._setup = setup
        session._columns = columns
        session._core = None
        session._plan = None
        session._only = None
        session._has_timeouts = setup.has_timeouts
        session._disorder = {}
        session._rest = None
        session._is_ended = False
        session._has_news = False
        session._sent = 0
        session._news = threading.Condition()
        session._waiting = []
        session._giving = threading.RLock()
        session._origin = setup.clock()
        names = parameters(query) if isinstance(query, QueryFunction) else []
        for name in names:
            # What is wrong with them should not wait for rows.
            events_of(name, names, setup.events)
        missing = [name for name in names if name not in columns]
        if len(names) > 1 and missing:
            message = (
                f"the columns of stream `{missing[0]}` are not known; "
                f"name those of each stream: schema={{{missing[0]!r}: {{'ts': 'timestamp(us)', ...}}, ...}}"
            )
            raise TypeError(message)
        if not missing:
            session._start(checkpoint)
        return session

    _query: Sessionable
    _setup: Setup
    _columns: dict[str, Table]
    """The columns of the streams of a query function."""
    _core: _native.Session | Relay | None
    """Begun once the columns of all streams are known."""
    _plan: Plan | Stages | None
    _only: str | None
    """The stream, if there is one and it has begun."""
    _has_timeouts: bool
    _disorder: dict[str, Disorder]
    _rest: Table | None
    """What the end gave, until somebody takes it."""
    _is_ended: bool
    _news: threading.Condition
    _has_news: bool
    """Whether something was sent or told since results were taken."""
    _sent: int
    """About how many rows that was."""
    _waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
    _giving: threading.RLock
    """Results are handed to the callback in their order."""
    _origin: float

    def _start(self, checkpoint: bytes | None = None) -> None:
        setup = self._setup
        self._plan = plan(self._query, self._columns, setup.events)
        self._only = next(iter(self._plan.sources)) if len(self._plan.sources) == 1 else None
        self._disorder = disorders(self._plan.sources, setup.disorder)
        start = setup.run.get("start")
        options = {**setup.run, "start": None if start is None else instant_ticks(start, self._plan.unit)}
        if (latency := options.get("latency")) is not None:
            options["latency"] = nanoseconds(latency)
        self._core = self._plan.begin(self._disorder, mode=setup.mode, checkpoint=checkpoint, **options)

    # Rows in.

    def push(self, rows: object, stream: str | None = None) -> Table:
        """Take rows and give the results that are certain by now.

        Parameters
        ----------
        rows
            Anything that :class:`tilt.Table` takes, one row as a dictionary, or a list of rows. Columns that the query
            does not read do not matter.
        stream
            Which stream they are of, if there are several.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session()
        >>> live.push({"t": [1, 2, 5], "x": [1.0, 2.0, 3.0]})["x"]
        [1.0, 2.0]

        Raises
        ------
        LateDataError
            If a row is later than its stream allows, and ``late`` is ``"raise"``. Nothing of the batch is taken then.
        SchemaError
            If rows are not what was declared. Nothing of the batch is taken then.

        """
        if self._setup.on_result is None:
            return self._pushed(rows, stream, take=True)  # type: ignore[return-value]
        with self._giving:
            return self._given(self._pushed(rows, stream, take=True))  # type: ignore[arg-type]

    def send(self, rows: object, stream: str | None = None) -> None:
        """Take rows, and leave the results to whoever goes through the session, or calls :meth:`take`.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session()
        >>> live.send({"t": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
        >>> live.take()["x"]
        [1.0, 2.0]
        """
        self._pushed(rows, stream, take=False)
        self._sent += len(rows) if hasattr(rows, "__len__") else _MANY_ROWS
        self._notify()

    def _pushed(self, rows: object, stream: str | None, *, take: bool) -> Table | None:
        self._open()
        if self._core is None:
            rows = table_of(rows)
            if not rows.columns:
                return Table({})
            with self._giving:
                if self._core is None:
                    self._columns = {self._stream(stream): rows[:0]}
                    self._start()
        name = self._only if stream is None and self._only is not None else self._stream(stream)
        if self._has_timeouts:
            self._look_at_clock()
        native: _native.Session | Relay = self._core  # type: ignore[assignment]
        table: _native.Table | None
        if type(rows) is dict:
            # One row, mostly; a dictionary of columns is told apart by its first value.
            done, table = native.push_row(name, rows, take)
            if done:
                return None if table is None else Table(table)
        given = table_of(rows)
        if not given.columns:
            # A list without rows.
            return self.take() if take else None
        table = native.push(name, given._handle, take)
        return None if table is None else Table(table)

    def advance(self, t: Instant, stream: str | None = None) -> Table:
        """Say that time has come to ``t``: rows of an earlier time are late. Give the results that are certain by now.

        With ``stream`` that is said of its rows only. A watermark never goes back.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=5)
        >>> live.push({"t": [1, 2], "x": [1.0, 2.0]})["x"]
        []
        >>> live.advance(10)["x"]
        [1.0, 2.0]
        """
        native, ticks = self._running(), instant_ticks(t, self._unit)
        if stream is None:
            native.advance(ticks)
        else:
            native.advance_input(self._stream(stream), ticks)
        return self.take()

    def idle(self, stream: str) -> Table:
        """Say that a stream has no rows for the time being: others do not wait for it until it has some again.

        >>> import tilt as tl
        >>> a, b = (tl.source(name, {"t": "i64", name: "f64"}, time="t")[name] for name in "ab")
        >>> live = tl.coalesce(a, b).session()
        >>> live.push({"t": [1, 2, 3], "a": [1.0, 2.0, 3.0]}, "a")["a"]
        []
        >>> live.idle("b")["a"]
        [1.0]
        """
        self._running().idle(self._stream(stream))
        return self.take()

    def flush(self) -> Table:
        """Let no row wait any longer: give what is certain if of each stream none is to come up to its last one.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=5)
        >>> live.push({"t": [1, 2], "x": [1.0, 2.0]})["x"]
        []
        >>> live.flush()["x"]
        [1.0, 2.0]
        """
        with self._giving:
            return self._given(Table(self._running().flush()))

    # Results out.

    def take(self) -> Table:
        """Give the results that are certain by now and were not given yet.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session()
        >>> live.send({"t": [1, 2], "x": [1.0, 2.0]})
        >>> live.take()["x"], live.take()["x"]
        ([1.0], [])
        """
        with self._giving:
            rest, self._rest = self._rest, None
            if rest is not None:
                return self._given(rest)
            if self._is_ended or self._core is None:
                return Table({})
            self._look_at_clock()
            self._has_news, self._sent = False, 0
            return self._given(Table(self._core.take()))

    def _given(self, table: Table) -> Table:
        if self._setup.on_result is not None and len(table):
            self._setup.on_result(table)
        return table

    def end(self, policy: Completion = "end") -> None:
        """Say that no more rows come. What :meth:`close` would give is left to whoever goes through the session.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=5)
        >>> live.send({"t": [1, 2], "x": [1.0, 2.0]})
        >>> live.end()
        >>> [table["x"] for table in live]
        [[1.0, 2.0]]
        """
        with self._giving:
            self._open()
            self._rest = Table({}) if self._core is None else Table(self._core.close(policy))
            self._is_ended = True
        self._notify()

    def _finish(self, policy: Completion) -> None:
        if self._setup.on_result is None:
            self.end(policy)
        else:
            self.close(policy)

    def close(self, policy: Completion = "end") -> Table:
        """End the session and give the rest of its results.

        Parameters
        ----------
        policy
            ``"drop"`` leaves out rows that wait and results that were not taken. ``"flush"`` counts all rows, and gives
            what is certain when time has come to the last of them. ``"end"`` gives everything, as
            :meth:`tilt.Stream.collect` does on all rows.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=5)
        >>> live.push({"t": [1, 2], "x": [1.0, 2.0]})["x"]
        []
        >>> live.close()["x"]
        [1.0, 2.0]

        """
        with self._giving:
            self.end(policy)
            return self.take()

    def __iter__(self) -> Iterator[Table]:
        """Go through results as they become certain, in tables that have rows, until the session ends.

        For what other threads :meth:`send`; :meth:`push` gives its results to its caller.
        """
        while True:
            table = self.take()
            if len(table):
                yield table
            elif self._is_ended and self._rest is None:
                return
            else:
                self._wait()

    def _wait(self) -> None:
        """Wait until there may be something to take, or some time has passed."""
        with self._news:
            if not self._has_news and not self._is_ended:
                # Ctrl-C, and streams that become idle, are noticed within this time.
                self._news.wait(_PATIENCE)

    async def __aiter__(self) -> AsyncIterator[Table]:
        """Go through results as they become certain; pushes may come from this loop or from any thread."""
        import asyncio  # noqa: PLC0415

        loop, event = asyncio.get_running_loop(), asyncio.Event()
        waiting = (loop, event)
        self._waiting = [*self._waiting, waiting]
        try:
            while True:
                event.clear()
                # A large batch is computed elsewhere, so that the loop goes on meanwhile.
                table = self.take() if self._sent < _MANY_ROWS else await asyncio.to_thread(self.take)
                if len(table):
                    yield table
                elif self._is_ended and self._rest is None:
                    return
                elif not self._has_news:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(event.wait(), _PATIENCE if self._setup.has_timeouts else None)
        finally:
            self._waiting = [other for other in self._waiting if other is not waiting]

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session. What is left goes to ``on_result``, or can be taken afterwards."""
        import asyncio  # noqa: PLC0415

        if not self._is_ended:
            await asyncio.to_thread(self._finish, "end" if kind is None else "drop")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session. What is left goes to ``on_result``, or can be taken afterwards."""
        if not self._is_ended:
            self._finish("end" if kind is None else "drop")

    # About it.

    @property
    def streams(self) -> list[str]:
        """The names of the streams that it is fed with.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session()
        >>> live.streams
        ['x']
        """
        if self._plan is None:
            return parameters(self._query)  # type: ignore[arg-type]
        return list(self._plan.sources)

    @property
    def is_begun(self) -> bool:
        """Whether the columns of all streams are known.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session()
        >>> live.is_begun
        True
        """
        return self._core is not None

    @property
    def closed(self) -> bool:
        """Whether it takes no more rows.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session()
        >>> rest = live.close()
        >>> live.closed
        True
        """
        return self._is_ended

    def status(self) -> Status:
        """Tell how far the session has come.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=5)
        >>> rows = live.push({"t": [1, 9], "x": [1.0, 2.0]})
        >>> live.status().streams["x"].watermark
        4
        """
        self._look_at_clock()
        until, streams, holding_back, holds_all, waits = self._begun().status()
        by_name = {
            name: StreamStatus(watermark, is_idle, buffered, held, size, *counts)
            for name, watermark, is_idle, buffered, held, size, counts in streams
        }
        return Status(until, by_name, holding_back, holds_all, waits)

    def late(self, stream: str | None = None) -> Table:
        """Give the late rows of a stream since this was asked last: as given, what became of them, and how late.

        The table has ``start``, ``end``, the values, ``late`` (``dropped``, ``adjusted``, ``overlapping``) and
        ``late_by`` in ticks. The last 65 536 rows are kept.

        >>> import tilt as tl
        >>> live = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].session(lateness=1, late="drop")
        >>> rows = live.push({"t": [1, 9, 3], "x": [1.0, 2.0, 3.0]})
        >>> live.late().to_dict()
        {'start': [2], 'end': [3], 'x': [3.0], 'late': ['dropped'], 'late_by': [5]}
        """
        name = self._stream(stream)
        rows = self._begun().late(name)
        if rows is None:
            return Table({"start": [], "end": [], "late": [], "late_by": []})
        return Table(rows)

    def checkpoint(self) -> bytes:
        """Give the session as bytes, from which :meth:`restore` goes on with the same future.

        They have the rows that are held and that wait, so their size is bounded by how far the query looks back.

        >>> import tilt as tl
        >>> x = tl.source("x", {"t": "i64", "x": "i64"}, time="t")["x"].window(10).sum()
        >>> live = x.session()
        >>> live.push({"t": [1, 2, 3], "x": [1, 10, 100]})["x"]
        [1, 11]
        >>> live = tl.Session.restore(x, live.checkpoint())
        >>> live.push({"t": 4, "x": 1000})["x"]
        [111]
        """
        native = self._running()
        setup = self._setup
        settled = {name: native.columns(name) for name in self.streams}
        about = {
            "clock": self._clock(),
            "columns": {name: columns_text(columns) for name, columns in self._columns.items()},
            "disorder": {name: plain(dataclasses.asdict(given)) for name, given in self._disorder.items()},
            "events": plain(setup.events),
            "mode": setup.mode,
            "run": plain({name: setup.run.get(name) for name in ("layout", "max_batch", "latency")}),
            "types": {name: columns_text(Table(columns)) for name, (known, columns) in settled.items() if known},
        }
        return packed(about, native.checkpoint())

    @classmethod
    def restore(
        cls,
        query: Sessionable,
        checkpoint: bytes | bytearray | memoryview,
        *,
        on_result: Callable[[Table], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **run: Any,  # noqa: ANN401
    ) -> Session:
        """Go on with a session from a checkpoint of it: elsewhere, with other threads, in a newer version.

        Parameters
        ----------
        query
            The query that it was a session of.
        checkpoint
            What :meth:`checkpoint` gave.
        on_result, clock
            As for a new session.
        **run
            ``threads``, ``backend`` and ``functions``.

        >>> import tilt as tl
        >>> query = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].cum_sum()
        >>> live = query.session()
        >>> rows = live.push({"t": [1, 2], "x": [1.0, 2.0]})
        >>> tl.Session.restore(query, live.checkpoint()).push({"t": [3, 4], "x": [3.0, 4.0]})["x"]
        [3.0, 6.0]

        Raises
        ------
        CheckpointError
            If the bytes were truncated or changed, or are of another query.

        """
        odd = next((name for name in run if name not in {"threads", "backend", "functions"}), None)
        if odd is not None:
            message = f"restore() has no option `{odd}`: a session goes on with the options that it was begun with"
            raise TypeError(message)
        about, native = unpacked(checkpoint)
        columns = {name: columns_of(text) for name, text in about["columns"].items()}
        setup = Setup(
            disorder={
                field.name: {name: given[field.name] for name, given in about["disorder"].items()}
                for field in dataclasses.fields(Disorder)
            },
            events=about["events"],
            mode=about["mode"],
            run=about["run"] | run,
            on_result=on_result,
            clock=clock,
            elapsed=about["clock"],
        )
        session = cls._made(query, setup, columns, native)
        for name, text in about["types"].items():
            session._begun().settle(name, columns_of(text)._handle)
        return session

    def __repr__(self) -> str:
        state = "ended" if self._is_ended else "waiting for its first rows" if self._core is None else "running"
        return f"<tilt.Session of {', '.join(self.streams)}: {state}>"

    def __reduce__(self) -> NoReturn:
        message = (
            "a session is not pickled; checkpoint() gives it as bytes, Session.restore(query, blob) goes on with it"
        )
        raise TypeError(message)

    # Inside.

    def _open(self) -> None:
        if self._is_ended:
            message = "the session was closed; begin another one"
            raise TiltError(message)

    def _begun(self) -> _native.Session | Relay:
        if self._core is None:
            message = "the columns are not known before the first rows come; name them: session(schema={...})"
            raise TiltError(message)
        return self._core

    def _running(self) -> _native.Session | Relay:
        self._open()
        return self._begun()

    @property
    def _unit(self) -> str:
        return self._plan.unit if self._plan is not None else "tick"

    def _columns_of(self, stream: str) -> Table | None:
        """Give the columns that a stream reads, as a table without rows, if they are known."""
        return None if self._core is None else Table(self._core.columns(stream)[1])

    def _stream(self, stream: str | None) -> str:
        names = self.streams
        if stream is None:
            if len(names) == 1:
                return names[0]
            message = f"say which stream is meant: push(rows, stream={names[0]!r}); {listed(names)}"
            raise TypeError(message)
        return known_stream(stream, names, "session")

    def _clock(self) -> float:
        """Count the seconds that the session has run, here and before it was restored."""
        return self._setup.elapsed + self._setup.clock() - self._origin

    def _look_at_clock(self) -> None:
        if self._core is not None and self._has_timeouts and not self._is_ended:
            self._core.at(round(self._clock() * 1e9))

    def _notify(self) -> None:
        with self._news:
            self._has_news = True
            self._news.notify_all()
        for loop, event in self._waiting:
            loop.call_soon_threadsafe(event.set)
