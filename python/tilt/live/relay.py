"""Sessions of queries that are computed in stages: what is certain of one stage is pushed into the next.

A stage has a native session of its own. Its results come in order of end, so the next stage takes them in order. Its
watermark for them follows how far they are certain: events that are still to come end after that, and all have one
length, as cells of a grid do; or they are intervals, which do not begin before the last one has ended.

Rows of a stream that several stages read go to all of them. What is late has to be the same everywhere, so watermarks
are moved by rows and told alike, and idle streams are known here, not by the native sessions. All rows of a push are
taken, or none: of such a stream another session, the gate, takes them first, which refuses what any stage would.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, final

from tilt.errors import CheckpointError, TiltError
from tilt.live.checkpoint import columns_of, columns_text, is_packed, packed, unpacked
from tilt.live.options import nanoseconds
from tilt.live.running import Feed, Running
from tilt.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tilt import _native
    from tilt.live.options import Disorder
    from tilt.live.stages import Stage, Stages

P = ParamSpec("P")
T = TypeVar("T")

_ANOTHER = "the checkpoint does not fit: its query is another one"


def _locked(method: Callable[Concatenate[Relay, P], T]) -> Callable[Concatenate[Relay, P], T]:
    """Let one thread at a time call a method, as long as the stages belong together."""

    @functools.wraps(method)
    def locked(self: Relay, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            if self._is_broken:
                message = "the session ended when it failed before; begin another one, or restore a checkpoint"
                raise TiltError(message)
            return method(self, *args, **kwargs)

    return locked


@final
class Relay:
    """The sessions of all stages as one. It has the methods of a native session.

    >>> import tilt as tl
    >>> x = tl.source("x", {"t": "i64", "k": "utf8", "x": "i64"}, time="t")
    >>> steps = x.key_by("k").with_columns(step=tl.col("x").diff()).unkey()
    >>> live = steps["step"].window(10).sum().session()
    >>> live.push({"t": [1, 2, 4, 5], "k": ["a", "b", "a", "b"], "x": [1, 5, 4, 7]}).to_dict()
    {'time': [4], 'step': [3]}
    >>> live.close().to_dict()
    {'time': [5], 'step': [5]}
    """

    def __init__(  # noqa: PLR0913
        self,
        plan: Stages,
        disorder: Mapping[str, Disorder],
        *,
        max_batch: int | None = None,
        latency: int | None = None,
        layout: str | None = None,
        checkpoint: bytes | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Begin the sessions, or go on from a checkpoint of them."""
        self._max_batch, self._latency = max_batch, latency
        self._lock = threading.RLock()
        self._is_broken = False
        self._clock: int | None = None
        self._waiting = 0
        """Rows that wait to be computed together."""
        self._since: int | None = None
        """When the first of them came."""
        self._none: _native.Table | None = None
        """Results without rows, once their columns are known for good."""
        self._stages: list[Running] = []
        self._feeds: dict[str, Feed] = {}
        about, blobs = ({}, None) if checkpoint is None else _apart(checkpoint)
        left = iter(blobs or ())
        options["disorder"] = {name: dataclasses.replace(given, idle_after=None) for name, given in disorder.items()}

        def begun(stage: Stage, **options: Any) -> Running:  # noqa: ANN401
            blob = None if blobs is None else next(left, b"")
            return Running(stage, stage.begin(self._columns(stage), checkpoint=blob, **options))

        for stage in plan.stages[:-1]:
            as_read = {"layout": "interval" if len(stage.times) > 1 else "point", **options}
            running = begun(stage, **as_read)
            # A session tells the columns of its results before rows have come.
            running.columns = Table(running.named(stage.begin(self._columns(stage), **as_read).take()))
            self._join(running)
        self._join(begun(plan.stages[-1], layout=layout, **options))
        for stream, given in disorder.items():
            inputs = [(running, name) for running in self._stages for name in running.stage.streams]
            places = [(running, name) for running, name in inputs if running.stage.streams[name] == stream]
            gate = None
            if len(places) > 1:
                read = [name for running, place in places for name, _ in running.core.columns(place)[1].schema]
                keys = {running.stage.plan.sources[place].events.key for running, place in places}
                gate = begun(plan.gate(stream, read, keys), **options), stream
            after = None if given.idle_after is None else nanoseconds(given.idle_after)
            self._feeds[stream] = Feed(places, gate, after)
        if blobs is not None:
            self._restore(about, len(blobs))

    def _columns(self, stage: Stage) -> dict[str, Table]:
        """Give the columns of the results that a stage reads."""
        return {name: self._stages[number].columns for name, number in stage.results.items()}

    def _join(self, running: Running) -> None:
        """Let a stage read the results of those before it."""
        for name, number in running.stage.results.items():
            self._stages[number].readers.append((running, name))
        self._stages.append(running)

    def _restore(self, about: dict[str, Any], sessions: int) -> None:
        """Go on with what was known here."""
        if sessions != len(self._sessions) or about["streams"].keys() != self._feeds.keys():
            raise CheckpointError(_ANOTHER)
        self._clock = about["clock"]
        for stream, known in about["streams"].items():
            self._feeds[stream] = dataclasses.replace(self._feeds[stream], **known)
        for running, end, types in zip(self._stages, about["ends"], about["types"], strict=True):
            running.end = end
            for name, text in types.items():
                running.core.settle(name, columns_of(text)._handle)

    @property
    def _sessions(self) -> list[Running]:
        """Those of the stages, and those that take rows before several stages do."""
        return [*self._stages, *(feed.gate[0] for feed in self._feeds.values() if feed.gate is not None)]

    # Rows in.

    @_locked
    def push(self, stream: str, rows: _native.Table, take: bool) -> _native.Table | None:  # noqa: FBT001
        """Take the rows of a table, all or none; if ``take`` says so, give what is new."""
        feed = self._feeds[stream]
        (first, place), *others = feed.all
        with _named(place, stream):
            first.core.push(place, rows, False)  # noqa: FBT003
        with self._undivided():
            for running, name in others:
                running.core.push(name, rows, False)  # noqa: FBT003
        return self._came(feed, rows.num_rows, take=take)

    @_locked
    def push_row(self, stream: str, row: dict[str, Any], take: bool) -> tuple[bool, _native.Table | None]:  # noqa: FBT001
        """Take one row; ``False`` first if a table of it has to be taken instead."""
        feed = self._feeds[stream]
        (running, place), *others = feed.all
        if others:
            return False, None
        with _named(place, stream):
            is_done, _ = running.core.push_row(place, row, False)  # noqa: FBT003
        return is_done, self._came(feed, 1, take=take) if is_done else None

    def _came(self, feed: Feed, rows: int, *, take: bool) -> _native.Table | None:
        feed.touched = self._clock
        if rows:
            feed.is_idle = False
            self._waiting += rows
            self._since = self._clock if self._since is None else self._since
        self._leave_idle_behind()
        return self._taken() if take else None

    # What is told.

    @_locked
    def advance(self, t: int) -> None:
        """Say that rows of an earlier time count no more, of any stream.

        A run of stages does not go on for longer by that: each ends with the last of its own events, as it does in
        ``collect``.
        """
        for feed in self._feeds.values():
            feed.advance(t)

    @_locked
    def advance_input(self, stream: str, t: int) -> None:
        """Say that rows of an earlier time count no more."""
        self._feeds[stream].advance(t)
        self._leave_idle_behind()

    @_locked
    def idle(self, stream: str) -> None:
        """Say that a stream has no rows for the time being."""
        self._feeds[stream].is_idle = True
        self._leave_idle_behind()

    @_locked
    def at(self, clock: int) -> None:
        """Tell the time by the clock."""
        self._clock = clock if self._clock is None else max(self._clock, clock)
        for feed in self._feeds.values():
            if feed.idle_after is not None:
                feed.touched = self._clock if feed.touched is None else feed.touched
                feed.is_idle |= self._clock - feed.touched >= feed.idle_after
        self._leave_idle_behind()

    def _leave_idle_behind(self) -> None:
        """Let idle streams have come as far as the others."""
        idle = [feed for feed in self._feeds.values() if feed.is_idle]
        if not idle or len(idle) == len(self._feeds):
            return
        covered = [feed.covered for feed in self._feeds.values() if not feed.is_idle]
        reached = [start for start in covered if start is not None]
        if len(reached) == len(covered):
            for feed in idle:
                feed.promise(min(reached))

    # Results out.

    @_locked
    def take(self) -> _native.Table:
        """Give what is new, unless rows wait to be computed with others."""
        return self._taken()

    @_locked
    def flush(self) -> _native.Table:
        """Give what is new if no row waits any longer.

        That is so of each stage: of results that it reads none waits, and none is to come up to the last, anyway.
        """
        return self._computed(lambda running: running.core.flush())

    @_locked
    def close(self, policy: str) -> _native.Table:
        """End all stages, and give the rest."""

        def closed(running: Running) -> _native.Table | None:
            # If a stage fails, those before it have ended already when this is tried again.
            rest = None if running.is_closed else running.core.close(policy)
            running.is_closed = True
            return rest

        return self._computed(closed)

    def _taken(self) -> _native.Table:
        is_paced = self._max_batch is not None or self._latency is not None
        if is_paced and self._none is not None and not self._is_due():
            return self._none
        results = self._computed(lambda running: running.core.take())
        last = self._stages[-1]
        if self._none is None and all(last.core.columns(name)[0] for name in last.stage.plan.sources):
            self._none = results.slice(0, 0)
        return results

    def _is_due(self) -> bool:
        if self._max_batch is not None and self._waiting >= self._max_batch:
            return True
        if self._latency is None or self._since is None or self._clock is None:
            return False
        return self._clock - self._since >= self._latency

    def _computed(self, of: Callable[[Running], _native.Table | None]) -> _native.Table:
        """Let each stage give what is new to those that read it, and give what is new of the last."""
        self._waiting, self._since = 0, None
        for feed in self._feeds.values():
            if feed.gate is not None:
                of(feed.gate[0])
        *earlier, last = self._stages
        for running in earlier:
            rows = of(running)
            if rows is not None:
                self._hand_on(running, rows)
        results = of(last)
        if results is None:
            message = "the session was closed; begin another one"
            raise TiltError(message)
        return results

    def _hand_on(self, running: Running, rows: _native.Table) -> None:
        """Push results into what reads them; the first time also none, which tells their columns."""
        with self._undivided():
            reached = running.reached(rows)
            is_first = not running.is_told and running.tells_columns(rows)
            running.is_told |= is_first
            rows = running.named(rows)
            for reader, name in running.readers:
                if rows.num_rows or is_first:
                    reader.core.push(name, rows, False)  # noqa: FBT003
                if is_first:
                    reader.core.settle(name, rows)
                if reached is not None:
                    reader.core.advance_input(name, reader.stage.ticks(reached))

    @contextlib.contextmanager
    def _undivided(self) -> Iterator[None]:
        """Do what leaves stages apart if it is done by half: then nothing that follows would be worth anything."""
        try:
            yield
        except BaseException:
            self._is_broken = True
            raise

    # About it.

    def status(self) -> tuple[Any, list[_native._Progress], str | None, str | None, str | None]:
        """Tell how far it has come. Results between two stages count as held, for a stream that they are made of."""
        with self._lock:
            told = [running.core.status() for running in self._stages]
            held, memory = dict.fromkeys(self._feeds, 0), dict.fromkeys(self._feeds, 0)
            for running in self._sessions:
                for name, _, _, waiting, rows, size, _ in running.progress().values():
                    stream, is_result = self._stream_of(running, name), name in running.stage.results
                    held[stream] += rows + is_result * waiting
                    memory[stream] += size
            streams = []
            for stream, feed in self._feeds.items():
                running, place = feed.places[0]
                _, watermark, _, waiting, _, _, counts = running.progress()[place]
                streams.append((stream, watermark, feed.is_idle, waiting, held[stream], memory[stream], counts))
            covered = {stream: feed.covered for stream, feed in self._feeds.items() if not feed.is_idle}
        holding_back = min(covered, key=lambda stream: _first(covered[stream]), default=None)
        holds_all = next((why for *_, why, _ in told if why is not None), None)
        waits = next((why for *_, why in told if why is not None), None)
        return told[-1][0], streams, holding_back, holds_all, waits

    def _stream_of(self, running: Running, name: str) -> str:
        """Give the stream that an input reads, or the first one that results it reads are made of."""
        while name not in running.stage.streams:
            running = self._stages[running.stage.results[name]]
            name = next(iter(running.stage.plan.sources))
        return running.stage.streams[name]

    @_locked
    def late(self, stream: str) -> _native.Table | None:
        """Give late rows of a stream since this was asked last: each once, whatever reads the stream."""
        late = [running.core.late(name) for running, name in self._feeds[stream].places]
        return late[0]

    @_locked
    def checkpoint(self) -> bytes:
        """Give all sessions as bytes, and what is known here."""
        blobs = [running.core.checkpoint() for running in self._sessions]
        known = [{name: running.core.columns(name) for name in running.stage.results} for running in self._stages]
        about = {
            "clock": self._clock,
            "ends": [running.end for running in self._stages],
            "sizes": [len(blob) for blob in blobs],
            "streams": {
                stream: {"is_idle": feed.is_idle, "touched": feed.touched} for stream, feed in self._feeds.items()
            },
            "types": [
                {name: columns_text(Table(columns)) for name, (is_known, columns) in inputs.items() if is_known}
                for inputs in known
            ],
        }
        return packed(about, b"".join(blobs))

    @_locked
    def settle(self, stream: str, columns: _native.Table) -> None:
        """Say which types rows of a stream have from now on."""
        for running, name in self._feeds[stream].all:
            running.core.settle(name, columns)

    def columns(self, stream: str) -> tuple[bool, _native.Table]:
        """Tell whether rows of a stream have come, and the columns that are read."""
        running, name = self._feeds[stream].all[0]
        return running.core.columns(name)


def _first(t: int | None) -> float:
    return float("-inf") if t is None else t


@contextlib.contextmanager
def _named(place: str, stream: str) -> Iterator[None]:
    """Call a stream in errors as users do, if the stage that reads it calls it otherwise."""
    try:
        yield
    except TiltError as error:
        if place != stream and error.args:
            error.input = stream
            error.args = (error.args[0].replace(f"`{place}`", f"`{stream}`", 1), *error.args[1:])
        raise


def _apart(checkpoint: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Take a checkpoint apart into what is known here and the checkpoints of sessions."""
    if not is_packed(checkpoint):
        raise CheckpointError(_ANOTHER)
    about, rest = unpacked(checkpoint)
    blobs = []
    for size in about["sizes"]:
        blobs.append(rest[:size])
        rest = rest[size:]
    if rest:
        message = "this is not a whole checkpoint of a session: it goes on after its end"
        raise CheckpointError(message)
    return about, blobs
