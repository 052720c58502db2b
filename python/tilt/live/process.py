"""What a process has itself: iterators and functions, standard input and output."""

from __future__ import annotations

import itertools
import os
import queue
import select
import sys
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tilt.live.pipes import Reader, Writer, write_all
from tilt.live.rows import is_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tilt.live.adapters import Position
    from tilt.live.pipes import Format
    from tilt.table import Table

    Items = Iterable[object] | AsyncIterable[object]

_PIECE = 1 << 16
_AHEAD = 1 << 10
"""Items that are fetched before they are asked for."""
_PATIENCE = 0.1


class ItemSource:
    """Anything to go through, also asynchronously, whose items are rows in any form that a session takes.

    A position is the number of items that were taken. After a restart so many are left out, unless a function gives the
    items: it is called with that number.

    >>> import tilt as tl
    >>> x = tl.source("x", {"t": "i64", "x": "f64"}, time="t")["x"].diff()
    >>> def rows(taken):
    ...     for t in range(taken, 4):
    ...         yield {"t": t, "x": float(t * t)}
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as state:
    ...     with tl.live.Runner(x, tl.live.ItemSource(rows), lambda found, number: print(found["x"]), state) as runner:
    ...         runner.run()
    [1.0, 3.0, 5.0]
    """

    def __init__(self, items: Items | Callable[[int], Items], *, waits: bool | None = None) -> None:
        """Go through items.

        Parameters
        ----------
        items
            The items, or a function of how many were taken before that gives the others.
        waits
            Whether going through them may wait; then a thread of its own does it. By default it may, unless they are a
            list.

        """
        self.items = items
        self.waits = waits

    def __repr__(self) -> str:
        return "ItemSource(...)"

    def read(self, position: Position, columns: Table | None) -> Iterator[tuple[object, Position]]:
        """Go through the items."""
        del columns
        taken: int = position or 0
        items: object
        if callable(self.items):
            items, before = self.items(taken), 0
        else:
            items, before = self.items, taken
        if isinstance(items, AsyncIterable):
            found = _async_items(items, before)
        else:
            waits = not isinstance(items, Sequence) if self.waits is None else self.waits
            rest = itertools.islice(items, before, None)
            found = _items_of_thread(rest) if waits else ([item] for item in rest)
        for several in found:
            if several and all(isinstance(item, Mapping) and is_row(dict(item)) for item in several):
                taken += len(several)
                yield (several if len(several) > 1 else several[0]), taken
                continue
            for item in several:
                taken += 1
                yield item, taken
            if not several:
                yield None, taken


class _Ahead:
    """Items that a thread fetches before they are asked for."""

    def __init__(self, items: Iterable[object]) -> None:
        self._items = items
        self._ready: queue.Queue[tuple[Literal["item", "end", "error"], Any]] = queue.Queue(_AHEAD)
        self._is_left = threading.Event()
        self._error: BaseException | None = None
        self.is_over = False
        threading.Thread(target=self._fetch, name="tilt-items", daemon=True).start()

    def _fetch(self) -> None:
        try:
            for item in self._items:
                self._put("item", item)
                if self._is_left.is_set():
                    return
        except BaseException as error:  # noqa: BLE001
            self._put("error", error)
        else:
            self._put("end", None)

    def _put(self, kind: Literal["item", "end", "error"], item: object) -> None:
        while not self._is_left.is_set():
            try:
                self._ready.put((kind, item), timeout=_PATIENCE)
            except queue.Full:
                continue
            return

    def several(self) -> list[Any]:
        """Give the items that are there by now."""
        if self._error is not None:
            raise self._error
        found: list[Any] = []
        while len(found) < _AHEAD:
            try:
                kind, item = self._ready.get_nowait()
            except queue.Empty:
                break
            if kind == "item":
                found.append(item)
                continue
            self._error, self.is_over = item, kind == "end"
            break
        return found

    def leave(self) -> None:
        """Let the thread end, when it has the item that it waits for."""
        self._is_left.set()


def _items_of_thread(items: Iterable[object]) -> Iterator[list[Any]]:
    """Go through items in a thread; those that are there by now come together."""
    ahead = _Ahead(items)
    try:
        while not ahead.is_over:
            yield ahead.several()
    finally:
        ahead.leave()


def _async_items(items: AsyncIterable[object], before: int) -> Iterator[list[Any]]:
    """Go through items in an event loop, which goes on whenever rows are asked for."""
    # Takes longer to import than much of tilt, and few need it.
    import asyncio  # noqa: PLC0415

    loop = asyncio.new_event_loop()
    iterator: AsyncIterator[object] = aiter(items)

    async def following() -> object:
        return await anext(iterator)

    task = None
    try:
        while True:
            task = task or loop.create_task(following())
            loop.run_until_complete(asyncio.wait([task], timeout=0.001))
            if not task.done():
                yield []
                continue
            try:
                item = task.result()
            except StopAsyncIteration:
                return
            finally:
                task = None
            if before:
                before -= 1
            else:
                yield [item]
    finally:
        if task is not None:
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class PipeSource:
    """Standard input, or another pipe, as JSON lines, CSV or an Arrow IPC stream.

    A pipe gives its bytes once: rows that were read after the last commit are lost in a crash.
    """

    def __init__(self, descriptor: int = 0, format: Format = "jsonl") -> None:  # noqa: A002
        """Read rows from a file descriptor."""
        self.descriptor = descriptor
        self.format: Format = format
        self.place = "standard input" if descriptor == 0 else f"file descriptor {descriptor}"

    def __repr__(self) -> str:
        return f"PipeSource({self.descriptor}, {self.format!r})"

    def read(self, position: Position, columns: Table | None) -> Iterator[tuple[object, Position]]:
        """Go through the rows."""
        del position
        reader = Reader(self.format, columns)
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while True:
            if not poll.poll(0):
                yield None, None
                continue
            piece = os.read(self.descriptor, _PIECE)
            for table in reader.decode(piece) if piece else reader.finish():
                yield table, None
            if not piece:
                return


class PipeSink:
    """Standard output, or another pipe, as JSON lines, CSV or an Arrow IPC stream.

    What was written to a pipe cannot be taken back: after a crash the last delivery may come twice.
    """

    def __init__(self, descriptor: int = 1, format: Format = "jsonl") -> None:  # noqa: A002
        """Write results to a file descriptor."""
        self.descriptor = descriptor
        self.format: Format = format
        self._writer: Writer | None = None

    def __repr__(self) -> str:
        return f"PipeSink({self.descriptor}, {self.format!r})"

    def open(self, position: Position) -> Position:
        """Begin to write."""
        self._writer = Writer(self.format)
        if self.descriptor == 1:
            sys.stdout.flush()
        return position

    def write(self, rows: Table, number: int) -> Position:
        """Write rows."""
        del number
        if self._writer is not None:
            write_all(self.descriptor, self._writer.encode(rows))

    def close(self) -> None:
        """Write what ends the format; the descriptor stays open."""
        writer, self._writer = self._writer, None
        if writer is not None:
            write_all(self.descriptor, writer.finish())


class CallSink:
    """A function that is called with the rows of a delivery and its number.

    After a crash it may be called with the last delivery again. A function that keeps the number together with the
    rows, for example in one transaction of a database, can tell.
    """

    def __init__(self, function: Callable[[Table, int], object]) -> None:
        """Call a function with results."""
        self.function = function

    def __repr__(self) -> str:
        return f"CallSink({getattr(self.function, '__name__', '...')})"

    def open(self, position: Position) -> Position:
        """Do nothing."""
        return position

    def write(self, rows: Table, number: int) -> Position:
        """Call the function."""
        self.function(rows, number)

    def close(self) -> None:
        """Do nothing."""
