"""What moves along time: shifts, clocks, gaps, signals and joins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from tilt.durations import length
from tilt.expressions import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from tilt import _native
    from tilt.durations import Duration
    from tilt.streams import Stream


class Timed(ABC):
    """What looks at other instants."""

    __slots__ = ()

    @abstractmethod
    def _made(
        self, build: Callable[..., _native.Stream], *operands: object, columns: Mapping[str, str] | None = None
    ) -> Stream:
        """Apply a native operation to this stream and operands."""

    @abstractmethod
    def _resolved(self, value: object) -> Any:  # noqa: ANN401
        """Give what a deferred expression is on this stream."""

    @abstractmethod
    def _beside(self, other: Stream) -> Stream:
        """Give the other side of a join: without the key that both sides have, unless that is all it has."""

    def shift(self, by: Duration) -> Stream:
        """Move all events later by a length of time; a negative one moves them earlier.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
        >>> x.shift("10s").collect()["t"]
        [11, 12]
        """
        return self._made(lambda own: own.shift(_by_time(by, own.unit)))

    def prev(self, n: int = 1) -> Stream:
        """Give at each event the value of the n-th one before it.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 5, 6], "x": [1.0, 2.0, 4.0]}, time="t")["x"]
        >>> x.prev().collect().to_dict()
        {'t': [5, 6], 'x': [1.0, 2.0]}
        """
        if n < 0:
            message = f"prev({n}) would be an event to come; x['+5s'] is the value after a length of time"
            raise ValueError(message)
        return self._made(lambda own: own.prev(n))

    def diff(self, n: int = 1) -> Stream:
        """Give at each event the difference to the n-th one before it.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 5, 6], "x": [1.0, 2.0, 4.0]}, time="t")["x"]
        >>> x.diff().collect().to_dict()
        {'t': [5, 6], 'x': [1.0, 2.0]}
        """
        return self._made(lambda own, past: own.binary("-", past), self.prev(n))

    def hold(self, max_age: Duration | None = None) -> Stream:
        """Keep each value until the next event, at most for ``max_age``: points become a step function.

        >>> import tilt as tl
        >>> quotes = tl.stream({"t": [1, 4], "bid": [9.0, 9.5]}, time="t")["bid"]
        >>> trades = tl.stream({"t": [3, 4, 9], "px": [9.1, 9.4, 9.6]}, time="t")["px"]
        >>> (trades - quotes.hold(max_age=5)).round().collect().to_dict()
        {'t': [3, 4], 'px': [0.0, -0.0]}
        """
        age = _length(max_age)
        return self._made(lambda own: own.hold(age))

    def time(self) -> Stream:
        """Give the end of each event, which for a point is its time.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [7, 9], "x": [1.0, 2.0]}, time="t", unit="s")["x"]
        >>> x.time().second().collect().to_dict()
        {'t': [7, 9], 'x': [7, 9]}
        """
        return self._made(lambda own: own.time())

    def start(self) -> Stream:
        """Give the start of each event.

        >>> import tilt as tl
        >>> jobs = tl.stream({"begin": [1, 4], "end": [3, 8], "job": [7, 9]}, valid=("begin", "end"))["job"]
        >>> jobs.start().collect()["job"]
        [1, 4]
        """
        return self._made(lambda own: own.start())

    def at(self, other: Stream) -> Stream:
        """Look at the value at the events of another stream.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 4], "x": [1.0, 2.0]}, time="t")["x"]
        >>> marks = tl.stream({"t": [2, 5], "id": [1, 2]}, time="t")
        >>> x.hold().at(marks).collect().to_dict()
        {'t': [2, 5], 'x': [1.0, 2.0]}
        """
        if not hasattr(other, "_sources"):
            message = f"at() takes a stream at whose events to look, not {kind_of(other)}"
            raise TypeError(message)
        return self._made(lambda own, clock: own.at(clock), other)

    def every(self, period: Duration, offset: Duration | None = None) -> Stream:
        """Look at the value at the points of a grid.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 4], "x": [1.0, 2.0]}, time="t")["x"]
        >>> x.hold().every(2).collect().to_dict()
        {'t': [2, 4], 'x': [1.0, 2.0]}
        """
        size, start = _length(period), _length(offset)
        return self._made(lambda own: own.every(size, start))

    def on_change(self) -> Stream:
        """Give an event for each interval on which nothing that this is computed from changes.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 4], "x": [1.0, 2.0]}, time="t")["x"].hold()
        >>> y = tl.stream({"t": [2, 6], "y": [5.0, 7.0]}, time="t")["y"].hold()
        >>> (x + y).on_change().collect().to_dict()
        {'start': [1, 3, 5], 'end': [3, 5, 6], 'x': [6.0, 7.0, 9.0]}
        """
        return self._made(lambda own: own.on_change())

    def changes(self) -> Stream:
        """Keep the events at which the value differs from the one before.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1, 1, 2]}, time="t")["x"]
        >>> x.changes().collect().to_dict()
        {'t': [1, 3], 'x': [1, 2]}
        """
        return self._made(lambda own: own.changes())

    def held_for(self, duration: Duration) -> Stream:
        """Say whether a condition has been true for that long without a break.

        >>> import tilt as tl
        >>> rows = {"t": [0, 5, 10], "hot": [True, True, False]}
        >>> hot = tl.stream(rows, time="t", valid="until_next", unit="s")["hot"]
        >>> hot.held_for("8s").collect().to_dict()
        {'start': [7], 'end': [9], 'hot': [True]}
        """
        size = _length(duration)
        return self._made(lambda own: own.held_for(size))

    def fill_null(
        self,
        value: object = None,
        *,
        strategy: Literal["forward", "backward", "linear"] | None = None,
        max_gap: Duration | None = None,
    ) -> Stream:
        """Fill in values where there are none: another stream's, a constant, or what is around the gap.

        On a grid (:meth:`every`) the instants without an event are filled.

        Parameters
        ----------
        value
            What to fill in: a constant, or a stream, which is looked at there.
        strategy
            Instead of a value: the last one, the next one, or the line between both.
        max_gap
            How far apart the values around a gap may be. A longer gap stays as it is, all of it; whether it is longer
            is known when it ends, so the query looks that far ahead. To repeat a value for some time whatever follows,
            use ``resample(period, method="hold", max_gap=...)`` or ``hold(max_age)``.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 5, 9], "x": [1.0, 2.0, 5.0, 7.0]}, time="t", period=1)["x"]
        >>> x.every(1).fill_null(strategy="forward", max_gap=3).collect().to_dict()
        {'t': [1, 2, 3, 4, 5, 9], 'x': [1.0, 2.0, 2.0, 2.0, 5.0, 7.0]}
        >>> x.every(1).fill_null(0.0).collect()["x"]
        [1.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 7.0]

        """
        gap = _length(max_gap)
        if (value is None) == (strategy is None):
            message = f"give a value or a strategy, not {'both' if strategy else 'none'}: fill_null(0), or 'forward'"
            raise TypeError(message)
        if strategy is not None:
            return self._made(lambda own: own.fill_gaps(strategy, gap))
        return self._made(
            lambda own, operand: own.fill_null(operand, gap), self._resolved(value), columns={} if gap is None else None
        )

    def interpolate(self, method: Literal["linear", "nearest"] = "linear", max_gap: Duration | None = None) -> Stream:
        """Give a value at every instant between two events, from both.

        Parameters
        ----------
        method
            The line between both (``"linear"``), or the value of the nearer one.
        max_gap
            How far apart both may be: the query looks that far ahead, so it has to be said.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [0, 4], "x": [1.0, 2.0]}, time="t")["x"]
        >>> marks = tl.stream({"t": [1, 2], "id": [1, 2]}, time="t")
        >>> x.interpolate("linear", max_gap=10).at(marks).collect().to_dict()
        {'t': [1, 2], 'x': [1.25, 1.5]}

        """
        if max_gap is None:
            message = "interpolate() looks ahead for the next event; say how far: max_gap='20ms'"
            raise TypeError(message)
        gap = _length(max_gap)
        return self._made(lambda own: own.interpolate(method, gap))

    def resample(
        self,
        period: Duration,
        *,
        method: Literal["hold", "linear", "nearest", "mean"] = "hold",
        max_gap: Duration | None = None,
    ) -> Stream:
        """Give samples at a fixed distance.

        Parameters
        ----------
        period
            The distance.
        method
            The last value (``"hold"``), between the values around (``"linear"``, ``"nearest"``), or the mean of the
            events since the sample before.
        max_gap
            How old a held value may be; how far apart the values around may be for ``"linear"``, how far away the value
            for ``"nearest"``.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [0, 4], "x": [1.0, 2.0]}, time="t")["x"]
        >>> x.resample(2, method="linear", max_gap=4).collect().to_dict()
        {'t': [0, 2, 4], 'x': [1.0, 1.5, 2.0]}

        """
        size, gap = _length(period), _length(max_gap)
        return self._made(lambda own: own.resample(size, method, gap))

    def lfilter(self, b: Sequence[float], a: Sequence[float] = (1.0,)) -> Stream:
        """Filter samples by a rational transfer function, as :func:`scipy.signal.lfilter` does.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3], "x": [1.0, 0.0, 0.0]}, time="t", period=1)["x"]
        >>> x.lfilter([1.0], [1.0, -0.5]).collect()
        tilt.Table: 3 rows
         t      x
         Int64  Float64
        ────────────────
             1        1
             2      0.5
             3     0.25
        """
        return self._made(lambda own: own.lfilter([float(v) for v in b], [float(v) for v in a]))

    def peaks(self, min_distance: Duration, threshold: object = None) -> Stream:
        """Keep the local maxima that no larger value is near to, and that reach a threshold.

        >>> import tilt as tl
        >>> x = tl.stream({"t": [1, 2, 3, 4], "x": [1.0, 5.0, 2.0, 3.0]}, time="t", period=1)["x"]
        >>> x.peaks(2).collect()
        tilt.Table: 1 row
         t      x
         Int64  Float64
        ────────────────
             2        5
        """
        size = _length(min_distance)
        return self._made(lambda own, level: own.peaks(size, level), self._resolved(threshold))

    def join_asof(  # noqa: PLR0913
        self,
        other: Stream,
        *,
        strategy: Literal["backward", "forward", "nearest"] = "backward",
        tolerance: Duration | None = None,
        suffix: str = "_right",
        on: None = None,
        by: None = None,
    ) -> Stream:
        """Add to each event the columns of the last event of another stream, or of the next or the nearest one.

        Streams know their times, and those with keys (:meth:`tilt.Stream.key_by`) are joined key by key: ``on`` and
        ``by`` of other libraries are there to say so. A key that both call the same is in the result once.
        What looks for the next event looks ahead, and needs a ``tolerance`` to say how far.

        >>> import tilt as tl
        >>> quotes = tl.stream({"t": [1, 4], "bid": [9.0, 9.5]}, time="t")
        >>> trades = tl.stream({"t": [3, 4, 9], "px": [9.1, 9.4, 9.6]}, time="t")
        >>> trades.join_asof(quotes, tolerance=3).collect().to_dict()
        {'t': [3, 4, 9], 'px': [9.1, 9.4, 9.6], 'bid': [9.0, 9.5, None]}
        """
        if (on, by) != (None, None):
            message = (
                "join_asof() takes no `on` and no `by`: streams know their times, and are joined by the key that "
                "key_by(column) gives both"
            )
            raise TypeError(message)
        within = _length(tolerance)
        return self._made(lambda own, right: own.join_asof(right, strategy, within, suffix), self._beside(other))

    def join(self, other: Stream, *, suffix: str = "_right") -> Stream:
        """Pair events of both streams that are active at the same time, for as long as both are.

        >>> import tilt as tl
        >>> a = tl.stream({"s": [0, 5], "e": [4, 9], "a": [1, 2]}, valid=("s", "e"))
        >>> b = tl.stream({"s": [2], "e": [7], "b": [10]}, valid=("s", "e"))
        >>> a.join(b).collect().to_dict()
        {'s': [2, 5], 'e': [4, 7], 'a': [1, 2], 'b': [10, 10]}
        """
        return self._made(lambda own, right: own.join_overlap(right, suffix), self._beside(other))


def _by_time(by: Duration, unit: str) -> str | int:
    """Give how far events are moved; refuse a number where it might count events, samples or ticks."""
    if unit != "tick" and isinstance(by, int) and by != 0:
        n = abs(by)
        message = (
            f"{by} of what? shift('{n}s') moves by time, prev({n}) is the {n}. event before, x[-{n}] the {n}. sample"
        )
        raise TypeError(message)
    return length(by)


def _length(value: Duration | None) -> Any:  # noqa: ANN401
    """Give a length of time, if there is one, as the native builder takes it."""
    return None if value is None else length(value)
