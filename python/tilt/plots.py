"""Pictures of streams over time: charts of Altair, or SVG, for which nothing else is needed."""

from __future__ import annotations

import datetime as dt
import math
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tilt import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from tilt.durations import Instant
    from tilt.plans import Picture
    from tilt.streams import Stream
    from tilt.table import Table

_COLOURS = ("#2563eb", "#dc2626", "#16a34a", "#9333ea", "#ea580c", "#0891b2")
_MARGIN = 48
_BINS = 400
_MANY = 4 * _BINS
"""More events than these are drawn as bins."""
_POINTS = 120


def plot(
    *streams: Stream,
    start: Instant | None = None,
    end: Instant | None = None,
    width: int = 760,
    height: int = 220,
    backend: Literal["altair", "svg"] | None = None,
) -> Any:  # noqa: ANN401
    """Draw streams over time: points, samples as lines, and what lasts as steps.

    With Altair it is a chart that can be moved, layered and saved. Without it, it is a picture: notebooks show it, and
    ``str()`` of it is SVG. Many events are drawn as the range of their values in each of some hundred windows, which
    tilt computes.

    Parameters
    ----------
    *streams
        Streams of numbers or conditions; of a record all such columns.
    start, end
        Only events that end in ``(start, end]``: instants, or times of the first day such as ``"09:30"``.
    width, height
        The size in pixels.
    backend
        ``"altair"`` or ``"svg"``; by default Altair if it is installed (``pip install pytilt[plot]``).

    >>> import tilt as tl
    >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> str(tl.plot(x, x.window(3).mean().alias("mean"), backend="svg")).count("stroke-width")
    2

    """
    from tilt.plans import Picture  # noqa: PLC0415

    if backend not in {None, "altair", "svg"}:
        message = f'backend is "altair" or "svg", not {backend!r}'
        raise ValueError(message)
    if backend is None:
        backend = "svg" if find_spec("altair") is None else "altair"
    odd = next((stream for stream in streams if not hasattr(stream, "_sources")), None)
    if odd is not None:
        message = f"plot() draws streams, not {type(odd).__name__}; tl.stream(rows, time=...) makes one of rows"
        raise TypeError(message)
    start, end = (_on_first_day(limit, streams) for limit in (start, end))
    lines = [line for stream in streams for line in series(stream, start, end)]
    if not lines:
        message = "there is nothing to draw: give streams of numbers or conditions"
        raise ValueError(message)
    if backend == "svg":
        return Picture(svg(lines, width, height))
    from tilt.charts import chart  # noqa: PLC0415

    return chart(lines, width, height)


def _on_first_day(limit: Instant | None, streams: Sequence[Stream]) -> Instant | None:
    """Give the instant of a time of day, on the day of the first row and in the zone of the rows."""
    try:
        at = dt.time.fromisoformat(limit) if isinstance(limit, str) else None
    except ValueError:
        at = None
    if at is None:
        return limit
    first = min((at for at in map(_first, streams) if at is not None), default=None)
    if not isinstance(first, dt.datetime):
        message = (
            f"{limit!r} is a time of a day that is not known; write it with its date, such as '2026-01-05 {limit}'"
        )
        raise ValueError(message)  # noqa: TRY004
    return dt.datetime.combine(first.date(), at, at.tzinfo or first.tzinfo)


def _first(stream: Stream) -> Any:  # noqa: ANN401
    """Give the time of the first row, or of the first event if rows are still to be read."""
    extents = [source.extent() for source in stream._sources.values()]
    known = [extent[0] for extent in extents if extent is not None]
    if known or not any(source.is_stored for source in stream._sources.values()):
        return min(known, default=None)
    event = next(stream.collect_batches(1, layout="point", progress=False), None)
    return None if event is None else event[event.columns[0]][0]


Event = tuple[float, float, float, float]
"""From, to, least and largest value."""
Series = tuple[str, str, list[Event]]
"""A name, a kind (``points``, ``line``, ``steps`` or ``range``) and the events."""


def series(
    stream: Stream,
    start: Instant | None = None,
    end: Instant | None = None,
    progress: bool | Callable[[float], object] = False,  # noqa: FBT001, FBT002
) -> list[Series]:
    """Run a stream and give what is drawn of it: its events, or if they are many the range of values in each bin.

    No more events are held than are drawn, however many there are.

    >>> import tilt as tl
    >>> from tilt.plots import series
    >>> x = tl.stream({"t": range(1, 10_001), "x": [float(i % 7) for i in range(10_000)]}, time="t")["x"]
    >>> [(name, kind, len(events), events[0][2:]) for name, kind, events in series(x)]
    [('x', 'range', 400, (0.0, 6.0))]
    """
    columns = [column for column, dtype in stream.schema.items() if is_drawn(dtype)]
    if not columns:
        return []
    part = None
    if start is not None or end is not None:
        part = (-(2**62) if start is None else start, 2**62 if end is None else end)
    waiting: list[Table] = []
    binned: dict[str, list[Event]] = {}
    for table in stream.collect_batches(part=part, layout="interval", progress=progress):
        waiting.append(table)
        if binned or sum(map(len, waiting)) > _MANY:
            for column in columns:
                events = binned.get(column, []) + [event for rows in waiting for event in _binned(rows, column)]
                binned[column] = events if len(events) < _MANY else _merged(events)
            waiting = []
    if binned:
        return [(column, "range", _merged(events)) for column, events in binned.items()]
    span, _ = _native.events(stream._handle)
    found: list[Series] = []
    for column in columns:
        events = [event for table in waiting for event in _rows(table, [column])]
        # Samples and grid cells that follow each other at once are a step function.
        apart = span == "point" or (span != "interval" and any(b[0] > a[1] for a, b in pairwise(events)))
        found.append((column, ("points" if len(events) <= _POINTS else "line") if apart else "steps", events))
    return found


def _binned(table: Table, column: str) -> list[Event]:
    """Give the range of a column in each of some hundred windows."""
    from tilt.inputs import stream as make  # noqa: PLC0415
    from tilt.reductions import max as largest  # noqa: PLC0415
    from tilt.reductions import min as least  # noqa: PLC0415
    from tilt.windows import tumbling  # noqa: PLC0415

    if len(table) == 0:
        return []
    begin, finish = table.columns[:2]
    events = make(table.select(begin, finish, column), valid=(begin, finish), overlap="bag")
    first, last = (number(table[edge][name][0]) for edge, name in ((slice(0, 1), begin), (slice(-1, None), finish)))
    width = max(1, round((last - first) * _scale(table.schema[finish]) / _BINS))
    bins = events[column].window(tumbling(width)).agg(lo=least(), hi=largest())
    return _rows(bins.collect(layout="interval", progress=False), ["lo", "hi"])


def _merged(events: list[Event]) -> list[Event]:
    """Put events and bins that end near to each other into one bin."""
    if len(events) <= _BINS:
        return events
    first, last = min(event[1] for event in events), max(event[1] for event in events)
    width = (last - first) / _BINS or 1.0
    bins: dict[int, Event] = {}
    for a, b, lo, hi in events:
        place = min(int((b - first) / width), _BINS - 1)
        known = bins.get(place, (a, b, lo, hi))
        bins[place] = min(known[0], a), max(known[1], b), min(known[2], lo), max(known[3], hi)
    return [bins[place] for place in sorted(bins)]


def is_drawn(dtype: str) -> bool:
    """Whether values of a type are drawn: numbers and conditions.

    >>> from tilt.plots import is_drawn
    >>> is_drawn("f64"), is_drawn("bool"), is_drawn("utf8")
    (True, True, False)
    """
    return dtype == "bool" or dtype[1:].isdigit()


def _rows(table: Table, values: Sequence[str]) -> list[Event]:
    edges = [[number(value) for value in table[name]] for name in table.columns[:2]]
    columns = [table[name] for name in (values[0], values[-1])]
    rows = zip(*edges, *columns, strict=True)
    known = [(a, b, float(lo), float(hi)) for a, b, lo, hi in rows if lo is not None]
    # No place of a picture is infinite, or no number.
    return [row for row in known if math.isfinite(row[2]) and math.isfinite(row[3])]


def number(value: Any) -> float:  # noqa: ANN401
    """Give an instant or a length of time as a number: of seconds, unless it is one already."""
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)).timestamp()
    return value.total_seconds() if isinstance(value, dt.timedelta) else float(value)


def _scale(dtype: str) -> float:
    """Count the ticks of a unit in which times are numbers."""
    for unit, ticks in (("(ns", 1e9), ("(µs", 1e6), ("(ms", 1e3)):
        if unit in dtype:
            return ticks
    return 1.0


def svg(lines: Sequence[Series], width: int, height: int, across: tuple[float, float] | None = None) -> str:
    """Draw series, from one instant to another if they are given."""
    import html  # noqa: PLC0415

    rows = [row for _, _, events in lines for row in events]
    left, right = across or _extent(lines)
    low, high = min((row[2] for row in rows), default=0.0), max((row[3] for row in rows), default=1.0)
    # Half of the range is a number whatever the range is.
    wide, up = (right - left) or 1.0, (high / 2 - low / 2) or 1.0

    def x(at: float) -> float:
        return _MARGIN + (max(at, left) - left) / wide * (width - _MARGIN - 12)

    def y(value: float) -> float:
        return height - 30 - (value / 2 - low / 2) / up * (height - 60)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"',
        ' style="max-width:100%;background:#fff" font-family="sans-serif" font-size="10.5">',
        f'<rect x="{_MARGIN}" y="24" width="{width - _MARGIN - 12}" height="{height - 48}" fill="none" stroke="#ddd"/>',
    ]
    for at, text in _instants(left, right, width // 100):
        parts.append(f'<path d="M{x(at):.1f} 24V{height - 24}" stroke="#eee"/>')
        parts.append(f'<text x="{x(at):.1f}" y="{height - 9}" text-anchor="middle" fill="#555">{text}</text>')
    for value, text in _values(low, high, height // 45):
        parts.append(f'<path d="M{_MARGIN} {y(value):.1f}H{width - 12}" stroke="#eee"/>')
        parts.append(f'<text x="{_MARGIN - 4}" y="{y(value) + 3:.1f}" text-anchor="end" fill="#555">{text}</text>')
    between = _between(left, right) if rows else ""
    parts.append(f'<text x="{width - 12}" y="15" text-anchor="end" fill="#555">{between}</text>')
    labelled = float(_MARGIN)
    for (name, kind, events), colour in zip(lines, _COLOURS * len(lines), strict=False):
        parts.append(_path(kind, [(x(a), x(b), y(lo), y(hi)) for a, b, lo, hi in events], colour))
        parts.append(f'<text x="{labelled:.0f}" y="15" fill="{colour}">{html.escape(name)}</text>')
        labelled += 14 + 6.5 * len(name)
    return "".join([*parts, "</svg>"])


def _extent(lines: Sequence[Series]) -> tuple[float, float]:
    """Give the first and the last instant at which something is drawn."""
    ends = [event[1] for _, _, events in lines for event in events]
    return min(ends, default=0.0), max(ends, default=1.0)


def panels(streams: Sequence[Stream], height: int, width: int = 760) -> Picture:
    """Draw streams below each other, over the same time.

    >>> import tilt as tl
    >>> from tilt.plots import panels
    >>> x = tl.stream({"t": [1, 2, 5], "x": [1.0, 2.0, 6.0]}, time="t")["x"]
    >>> both = panels([x, x.filter(x < 3)], 90)
    >>> both.svg.count("<svg"), 'viewBox="0 0 760 180"' in both.svg
    (3, True)
    """
    from tilt.plans import Picture  # noqa: PLC0415

    drawn = [series(stream) for stream in streams]
    across = _extent([line for lines in drawn for line in lines])
    total = height * len(drawn)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" width="{width}" height="{total}">'
    # A picture within another is as high as that unless it says how high it is.
    places = (f'<svg y="{height * i}" height="{height}" ' for i in range(len(drawn)))
    placed = (
        svg(lines, width, height, across).replace("<svg ", place, 1) for lines, place in zip(drawn, places, strict=True)
    )
    return Picture("".join([head, *placed, "</svg>"]))


def _path(kind: str, events: list[Event], colour: str) -> str:
    if kind == "points":
        dots = "".join(f"M{b:.1f} {lo:.1f}h0.01" for _, b, lo, _ in events)
        return f'<path d="{dots}" stroke="{colour}" stroke-width="5" stroke-linecap="round"/>'
    if kind == "steps":
        moves = "".join(f"M{a:.1f} {lo:.1f}H{max(b, a + 0.5):.1f}" for a, b, lo, _ in events)
    elif kind == "range":
        moves = "".join(f"M{b:.1f} {lo + 0.5:.1f}V{hi - 0.5:.1f}" for _, b, lo, hi in events)
    else:
        moves = "".join(f"{'L' if i else 'M'}{b:.1f} {lo:.1f}" for i, (_, b, lo, _) in enumerate(events))
    return f'<path d="{moves}" fill="none" stroke="{colour}" stroke-width="1.3"/>'


def is_date(at: float) -> bool:
    """Whether a number of seconds is taken for a date: plain ticks rarely are as large, or larger than any year.

    >>> from tilt.plots import is_date
    >>> is_date(1_750_000_000.0), is_date(250.0), is_date(1_750_000_000_000.0)
    (True, False, False)
    """
    return _PLAIN < at < _YEAR_9999


def instant_text(at: float) -> str:
    """Write an instant: as a date if it can be one.

    >>> from tilt.plots import instant_text
    >>> instant_text(250.0), instant_text(1_750_000_000.0)
    ('250', '2025-06-15 15:06:40')
    """
    if not is_date(at):
        return f"{at:g}"
    return dt.datetime.fromtimestamp(at, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _between(left: float, right: float) -> str:
    """Write from when to when, the date once.

    >>> from tilt.plots import _between
    >>> _between(1_750_000_000.0, 1_750_000_090.0), _between(1.0, 5.0)
    ('2025-06-15 15:06:40 to 15:08:10', '')
    """
    if not (is_date(left) and is_date(right)):
        return ""
    first, last = instant_text(left), instant_text(right)
    return f"{first} to {last.removeprefix(first[:11])}"


def _values(low: float, high: float, about: int) -> list[tuple[float, str]]:
    """Give about so many round numbers of a range, and how they are written.

    >>> from tilt.plots import _values
    >>> [text for _, text in _values(99.1, 105.8, 3)], [text for _, text in _values(2e-14, 0.09, 3)]
    (['100', '102', '104'], ['0.02', '0.04', '0.06', '0.08'])
    """
    if not high > low:
        return [(low, f"{low:.5g}")]
    # The range may be more than a float can hold, or too little to divide.
    step = _round(max(high / max(about, 1) - low / max(about, 1), abs(high) * 1e-12, abs(low) * 1e-12, 1e-300))
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step), math.floor(high / step)
    is_plain = step >= 1e-4 and max(abs(low), abs(high)) < 1e6  # noqa: PLR2004
    values = [n * step for n in range(first, last + 1)]
    return [(value, f"{value:.{digits}f}" if is_plain else f"{value:.4g}") for value in values]


def _round(step: float) -> float:
    """Give the next number that is 1, 2 or 5 times a power of ten, or a little less."""
    power = 10.0 ** math.floor(math.log10(step))
    return next((many * power for many in (1, 2, 5) if many * power >= step * 0.65), 10 * power)


_PLAIN, _YEAR_9999 = 99_999_999.0, 253_370_764_800.0
"""Numbers up to this one are those of plain ticks; seconds until the last year that has a date."""
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
"""Seconds between instants that are named, up to a day."""


def _instants(left: float, right: float, about: int) -> list[tuple[float, str]]:
    """Give about so many round instants of a range, and how they are written.

    >>> from tilt.plots import _instants
    >>> [text for _, text in _instants(1_750_000_000.0, 1_750_000_090.0, 5)]
    ['15:06:45', '15:07:00', '15:07:15', '15:07:30', '15:07:45', '15:08:00']
    >>> [text for _, text in _instants(1.0, 9.0, 4)]
    ['2', '4', '6', '8']
    """
    if not (is_date(left) and is_date(right)) or right <= left:
        return _values(left, right, about)
    least = (right - left) / max(about, 1)
    day, second = _STEPS[-1], _STEPS[0]
    if least > day:
        step: float = day * math.ceil(least / day)
    elif least < second:
        step = _round(least)
    else:
        step = next(many for many in _STEPS if many >= least * 0.65)
    digits = max(0, -math.floor(math.log10(step)))
    written = "%Y-%m-%d" if step >= day else "%H:%M" if step >= 60 else "%H:%M:%S"  # noqa: PLR2004
    instants = [n * step for n in range(math.ceil(left / step), math.floor(right / step) + 1)]

    def text(at: float) -> str:
        whole = math.floor(at + 10.0**-digits / 2) if digits else round(at)
        begun = dt.datetime.fromtimestamp(whole, dt.timezone.utc).strftime(written)
        return begun + f"{max(at - whole, 0.0):.{digits}f}"[1:] if digits else begun

    return [(at, text(at)) for at in instants]
