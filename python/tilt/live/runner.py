"""Runs that survive: rows from sources through a session to a sink, each result once, whatever happens between."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

from tilt import _native
from tilt.errors import CheckpointError, StateError, TiltError
from tilt.live.adapters import as_sink, late_sinks_of, refuse_shared, sources_of
from tilt.live.options import nanoseconds, plain
from tilt.live.rows import parts_of
from tilt.live.session import Session
from tilt.live.state import Commit, State
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike
    from types import FrameType, TracebackType

    from tilt.durations import Duration
    from tilt.live.adapters import Position, Sink, Source
    from tilt.live.options import Completion
    from tilt.live.session import Sessionable
    from tilt.live.status import Status

_RUN = ("threads", "backend", "functions", "clock")
"""Options that may be others each time."""
_MANY_ROWS = 1 << 20
"""Results that are committed before it is time."""
_KEPT_LATE = 1 << 16
"""How many late rows of a stream a session keeps until they are taken."""
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.1
"""Seconds between two looks at sources that have nothing."""


@dataclass(frozen=True)
class RunStatus:
    """How far a run has come."""

    commits: int
    """How often it was made safe."""
    rows: int
    """Results that are safe, in this run and before it was restarted."""
    waiting: int
    """Results that are not safe yet."""
    age: float
    """Seconds since the last commit."""
    is_ended: bool
    """Whether all streams have ended and every result is safe."""
    session: Status | None
    """How far each stream has come; ``None`` before the columns are known and after the end."""


@final
class Runner:
    """A query that runs from sources to a sink and can be killed at any moment.

    Where sources were read to, the state of the session and its results become safe together. When the process is
    killed and started again, the run goes on from there: no row is lost and no result comes twice.

    >>> import tempfile, tilt as tl
    >>> from pathlib import Path
    >>> ticks = tl.source("ticks", {"t": "i64", "price": "f64"}, time="t", unit="s")
    >>> mean = ticks["price"]["-10s":].mean()
    >>> with tempfile.TemporaryDirectory() as place:
    ...     days, means = Path(place, "days"), Path(place, "means.jsonl")
    ...     days.mkdir()
    ...     for day in range(2):
    ...         tl.Table({"t": [day * 9 + 1, day * 9 + 4], "price": [1.0, 3.0]}).write_csv(days / f"{day}.csv")
    ...         with tl.live.Runner(mean, days, means, f"{place}/state") as runner:
    ...             runner.catch_up()
    ...     print(means.read_text(), end="")
    {"t":1,"price":1.0}
    {"t":4,"price":2.0}
    {"t":10,"price":1.6666666666666667}
    """

    def __init__(  # noqa: PLR0913
        self,
        query: Sessionable,
        sources: object,
        sink: object,
        state: str | PathLike[str],
        *,
        late_sink: object = None,
        every: Duration | float = "1s",
        end: Completion = "end",
        on_commit: Callable[[RunStatus], object] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Begin a run, or go on with the one whose state there is.

        Parameters
        ----------
        query
            A stream, a query, or a function made by :func:`tilt.query`.
        sources
            What rows come from, by stream; if there is one stream, its source alone will do. A source is one of
            :mod:`tilt.live`, or anything with its method; a directory or a pattern of files; ``"-"`` for standard
            input; anything to go through.
        sink
            What results go to: a sink of :mod:`tilt.live`, or anything with its methods; a directory of Parquet files;
            a file that ends with ``.jsonl`` or ``.csv``; ``"-"`` for standard output; a function of rows and a number.
        state
            A directory for what the run has to keep.
        late_sink
            What late rows go to that were left out or moved, as :meth:`tilt.Session.late` gives them: as ``sink``, or
            by stream if there are several. Each comes once, as results do.
        every
            How often it is made safe: seconds, or a text such as ``"500ms"``; zero for as often as possible. Results
            are given when they are safe.
        end
            What becomes of the rest when all streams have ended: see :meth:`tilt.Session.close`.
        on_commit
            A function that is called with the status after each commit.
        **options
            Those of :meth:`tilt.Stream.session`. They are kept, and cannot be others when the run goes on; but
            ``threads``, ``backend``, ``functions`` and ``clock`` may.

        Raises
        ------
        StateError
            If the directory is in use, damaged, or has the state of another run.

        """
        if "on_result" in options:
            message = "results of a run go to its sink; give the function as sink="
            raise TypeError(message)
        self._every = nanoseconds(every) / 1e9
        self._end = end
        self._on_commit = on_commit
        self._stop = threading.Event()
        self._caught: int | None = None
        self._pending: list[Table] = []
        self._waiting = 0
        self._undelivered: Table | None = None
        self._is_torn = False
        self._is_changed = False
        self._committed = time.monotonic()
        self._readers: dict[str, Iterator[tuple[object, Position]]] = {}
        self._session: Session | None = None
        self._sink = as_sink(sink)
        self._late: dict[str, list[Table]] = {}
        self._late_waiting = 0
        self._late_positions: dict[str, Position] = {}
        self._late_undelivered: dict[str, Table] = {}
        self._state = State(state)
        self._opened: list[Sink] = []
        try:
            self._begin(query, sources, late_sink, options)
        except BaseException:
            self._state.close()
            self._close_sinks()
            raise

    def _begin(self, query: Sessionable, sources: object, late_sink: object, options: dict[str, Any]) -> None:
        kept = {name: value for name, value in options.items() if name not in (*_RUN, "schema") and value is not None}
        if "start" in kept:
            kept["start"] = str(kept["start"])
        kept = json.loads(json.dumps(plain(kept)))
        last = self._state.load()
        self._commit = Commit(options=kept) if last is None else last
        if last is not None and last.options != kept:
            message = (
                f"the run in {self._state.directory} was begun with {_listed(last.options)}, not {_listed(kept)}; "
                "go on with the same options, or name another directory"
            )
            raise StateError(message)
        session = query.session(**options) if last is None or last.session is None else self._restored(query, options)
        self._sources = sources_of(sources, session.streams)
        self._positions = {name: self._position(name, source) for name, source in self._sources.items()}
        self._late_sinks = late_sinks_of(late_sink, session.streams)
        refuse_shared(
            {"results": self._sink} | {f"late rows of `{name}`": each for name, each in self._late_sinks.items()}
        )
        kind, position = self._commit.sink
        if last is not None and kind != type(self._sink).__name__:
            message = f"results of the run in {self._state.directory} go to a {kind}, not a {type(self._sink).__name__}"
            raise StateError(message)
        kinds = {name: type(each).__name__ for name, each in self._late_sinks.items()}
        known = {name: kind for name, (kind, _) in self._commit.late.items()}
        if last is not None and kinds != known:
            message = (
                f"late rows of the run in {self._state.directory} go to {_sinks(known)}, not to {_sinks(kinds)}; "
                "go on with the same late_sink=, or name another directory"
            )
            raise StateError(message)
        self._sink_position = self._sink.open(position)
        self._opened.append(self._sink)
        for name, each in self._late_sinks.items():
            _, position = self._commit.late.get(name, ("", None))
            self._late_positions[name] = each.open(position)
            self._opened.append(each)
        self._undelivered, self._late_undelivered = self._commit.output, dict(self._commit.late_output)
        self._deliver()
        if self._commit.is_ended:
            return
        self._session = session
        for name, source in self._sources.items():
            self._readers[name] = iter(source.read(self._positions[name], session._columns_of(name)))

    def _restored(self, query: Sessionable, options: dict[str, Any]) -> Session:
        run = {name: options[name] for name in _RUN if name in options}
        try:
            return Session.restore(query, self._commit.session or b"", **run)
        except CheckpointError as error:
            message = f"the run in {self._state.directory} cannot be gone on with: {error}"
            raise StateError(message) from error

    def _position(self, stream: str, source: Source) -> Position:
        kind, position = self._commit.sources.get(stream, (type(source).__name__, None))
        if kind != type(source).__name__:
            message = (
                f"stream `{stream}` of the run in {self._state.directory} was read from a {kind}, "
                f"not from a {type(source).__name__}; name another directory"
            )
            raise StateError(message)
        return position

    # Going on.

    def run(self) -> None:
        """Run until all streams have ended or something stops it, make safe what has come by then, and close.

        SIGTERM and :meth:`stop` end it in good order. So does Ctrl-C, which is raised again when all is safe; a second
        one is raised at once.
        """
        wait = _FIRST_WAIT
        with contextlib.closing(self), self._signals():
            while not (self.is_ended or self._stop.is_set()):
                if self.step():
                    wait = _FIRST_WAIT
                else:
                    self._stop.wait(wait)
                    wait = min(2 * wait, _LONGEST_WAIT)
            self.commit()
        if self._caught == signal.SIGINT:
            raise KeyboardInterrupt

    def catch_up(self) -> None:
        """Run until no stream has rows for the time being, and make that safe. The run is not ended by that."""
        while self.step():
            pass
        self.commit()

    def step(self) -> bool:
        """Take what each stream has now, and commit if it is time. Tell whether there was something.

        While results wait for one stream, the others are read only when it has nothing.
        """
        self._check()
        if self._session is None:
            return False
        behind = self._session.status().holding_back if len(self._readers) > 1 else None
        has_news = False
        for stream in sorted(self._readers, key=lambda name: name != behind):
            has_news |= self._read(stream)
            if has_news and stream == behind:
                break
        if not self._readers:
            self._finish()
        elif not has_news and self._session._setup.has_timeouts:
            self._is_torn = True
            self._give(self._session.take())
            self._take_all_late()
            self._is_torn = False
        if self.is_ended or self._is_time():
            self.commit()
        return has_news

    def _read(self, stream: str) -> bool:
        """Take what one stream has now."""
        session: Session = self._session  # type: ignore[assignment]
        # What is read and not pushed, by whatever interrupts this, would be lost by a commit.
        self._is_torn = True
        try:
            rows, position = next(self._readers[stream])
        except StopIteration:
            del self._readers[stream]
            if self._readers:
                self._give(session.idle(stream))
            self._is_torn, self._is_changed = False, True
            return True
        if rows is not None:
            try:
                self._push(rows, stream)
            except TiltError as error:
                place = getattr(self._sources[stream], "place", None)
                if place is not None and error.args:
                    error.args = (f"{place}: {error.args[0]}", *error.args[1:])
                raise
            self._is_changed = True
        self._positions[stream] = position
        self._is_torn = False
        return rows is not None

    def _push(self, rows: object, stream: str) -> None:
        """Give the session rows, and take the late ones before there are more of them than it keeps."""
        session: Session = self._session  # type: ignore[assignment]
        parts = parts_of(rows, _KEPT_LATE) if stream in self._late_sinks else [rows]
        for number, part in enumerate(parts):
            try:
                self._give(session.push(part, stream))
            except TiltError as error:
                if number and error.args:
                    error.args = (f"after {number * _KEPT_LATE} rows: {error.args[0]}", *error.args[1:])
                raise
            self._take_late(stream)

    def _finish(self) -> None:
        """End the session: no stream has more."""
        self._is_torn = True
        self._give(self._session.close(self._end))  # type: ignore[union-attr]
        self._take_all_late()
        self._session = None
        self._is_torn, self._is_changed = False, True

    def _give(self, rows: Table) -> None:
        if len(rows):
            self._pending.append(rows)
            self._waiting += len(rows)
            self._is_changed = True

    def _take_late(self, stream: str) -> None:
        """Take late rows of a stream, of which the session keeps so many, if somebody asked for them."""
        if stream in self._late_sinks and self._session is not None and self._session.is_begun:
            rows = self._session.late(stream)
            if len(rows):
                self._late.setdefault(stream, []).append(rows)
                self._late_waiting += len(rows)
                self._is_changed = True

    def _take_all_late(self) -> None:
        """Take late rows of all streams: what becomes of a row may be known by rows of another stream."""
        for stream in self._late_sinks:
            self._take_late(stream)

    def stop(self) -> None:
        """Let :meth:`run` come back soon; any thread may call it."""
        self._stop.set()

    # Making it safe.

    def _is_time(self) -> bool:
        is_due = time.monotonic() - self._committed >= self._every
        return (is_due and self._is_changed) or self._waiting + self._late_waiting >= _MANY_ROWS

    def commit(self) -> None:
        """Make safe what has come by now, and give the results to the sink.

        Raises
        ------
        OSError
            If that cannot be written. The last commit stays, and this can be tried again.

        """
        self._check()
        self._deliver()
        if not self._is_changed:
            return
        session = self._session
        self._take_all_late()
        output = _joined(self._pending) if self._pending else None
        late_output = {name: _joined(parts) for name, parts in self._late.items()}
        commit = Commit(
            number=self._commit.number + 1,
            rows=self._commit.rows + self._waiting,
            options=self._commit.options,
            sources={name: (type(self._sources[name]).__name__, at) for name, at in self._positions.items()},
            sink=(type(self._sink).__name__, self._sink_position),
            session=session.checkpoint() if session is not None and session.is_begun else None,
            output=output,
            late=self._late_places(),
            late_output=late_output,
            is_ended=session is None,
        )
        self._state.store(commit)
        self._commit, self._undelivered, self._late_undelivered = commit, output, late_output
        self._pending, self._waiting = [], 0
        self._late, self._late_waiting = {}, 0
        self._is_changed, self._committed = False, time.monotonic()
        self._deliver()
        if self._on_commit is not None:
            self._on_commit(self.status())

    def _deliver(self) -> None:
        """Give the sink what it does not have yet, as far as is known."""
        if self._undelivered is not None:
            self._sink_position = self._sink.write(self._undelivered, self._commit.number)
            self._undelivered = None
        for name in list(self._late_undelivered):
            rows = self._late_undelivered[name]
            self._late_positions[name] = self._late_sinks[name].write(rows, self._commit.number)
            del self._late_undelivered[name]

    def _late_places(self) -> dict[str, tuple[str, Position]]:
        """Tell what late rows of each stream are written by, and where the next begin."""
        sinks = self._late_sinks.items()
        return {name: (type(sink).__name__, self._late_positions[name]) for name, sink in sinks}

    def _check(self) -> None:
        if not self._state.is_open:
            message = f"the run was closed; begin again: it goes on from what is safe in {self._state.directory}"
            raise StateError(message)
        if self._is_torn:
            message = (
                "the run was interrupted while it took rows; "
                f"begin again: it goes on from what is safe in {self._state.directory}"
            )
            raise StateError(message)

    # About it.

    @property
    def is_ended(self) -> bool:
        """Whether all streams have ended."""
        return self._session is None

    @property
    def session(self) -> Session | None:
        """The session, to look at it; ``None`` when it has ended."""
        return self._session

    def status(self) -> RunStatus:
        """Tell how far the run has come."""
        session = self._session
        return RunStatus(
            commits=self._commit.number,
            rows=self._commit.rows,
            waiting=self._waiting,
            age=time.monotonic() - self._committed,
            is_ended=self.is_ended and not self._is_changed,
            session=session.status() if session is not None and session.is_begun else None,
        )

    def close(self) -> None:
        """Let go of sources, sink and state. What was not committed is read again when the run goes on."""
        for reader in self._readers.values():
            close = getattr(reader, "close", None)
            if close is not None:
                close()
        self._readers = {}
        if not self._state.is_open:
            return
        try:
            is_delivered = self._undelivered is None and not self._late_undelivered
            if is_delivered and (self._commit.output is not None or self._commit.late_output):
                # It is certain by now that the sinks have it.
                sink, late = (type(self._sink).__name__, self._sink_position), self._late_places()
                self._commit = dataclasses.replace(self._commit, output=None, sink=sink, late=late, late_output={})
                self._state.store(self._commit)
        finally:
            self._state.close()
            self._close_sinks()

    def _close_sinks(self) -> None:
        with contextlib.ExitStack() as stack:
            for sink in self._opened:
                stack.callback(sink.close)
            self._opened = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        try:
            if kind is None and self._state.is_open:
                self.commit()
        finally:
            self.close()
        return False

    def __repr__(self) -> str:
        return f"<tilt.live.Runner in {str(self._state.directory)!r}, {self._commit.number} commits>"

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop in good order at signals, where they can be caught; a second Ctrl-C is as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def caught(number: int, frame: FrameType | None) -> None:
            del frame
            self._caught = number
            self._stop.set()
            signal.signal(signal.SIGINT, signal.default_int_handler)

        for number in before:
            signal.signal(number, caught)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _joined(tables: list[Table]) -> Table:
    return Table(_native.Table.joined([table._handle for table in tables]))


def _sinks(kinds: dict[str, str]) -> str:
    return ", ".join(f"a {kind} of `{name}`" for name, kind in kinds.items()) or "no sink"


def _listed(options: object) -> str:
    named = [f"{name}={value!r}" for name, value in dict(options).items()]  # type: ignore[call-overload]
    return ", ".join(named) or "no options"
