"""Charts of streams, by Altair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from tilt.plots import is_date

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilt.plots import Series


def chart(series: Sequence[Series], width: int, height: int) -> Any:  # noqa: ANN401
    """Give a chart of series, one layer each, that the mouse moves along time.

    >>> from tilt.charts import chart
    >>> chart([("x", "points", [(0.0, 1.0, 5.0, 5.0)])], 400, 200).to_dict()["layer"][0]["mark"]["type"]
    'point'
    """
    names = [name for name, _, _ in series]
    has_dates = any(is_date(events[0][1]) for _, _, events in series if events)
    colour = alt.Color("series:N", sort=names, title=None, scale=alt.Scale(domain=names))
    layers = [_layer(name, kind, events, colour, has_dates=has_dates) for name, kind, events in series]
    return alt.layer(*layers).properties(width=width, height=height).interactive(bind_y=False)


def _layer(
    name: str,
    kind: str,
    events: Sequence[tuple[float, float, float, float]],
    colour: alt.Color,
    *,
    has_dates: bool,
) -> alt.Chart:
    # Altair counts milliseconds.
    scale = 1000.0 if has_dates else 1.0
    rows: list[dict[str, Any]] = [
        {"series": name, "start": begin * scale, "end": end * scale, "low": low, "value": high}
        for begin, end, low, high in events
    ]
    axis = alt.Scale(type="utc") if has_dates else alt.Scale(zero=False)
    base = alt.Chart(alt.InlineData(values=rows)).encode(color=colour)
    value = alt.Y("value", type="quantitative", title=None, scale=alt.Scale(zero=False))
    at_end = alt.X("end", scale=axis, title=None, type="temporal" if has_dates else "quantitative")
    layer: alt.Chart
    if kind == "points":
        layer = base.mark_point(filled=True).encode(x=at_end, y=value)
    elif kind == "line":
        layer = base.mark_line(strokeWidth=1.3).encode(x=at_end, y=value)
    elif kind == "range":
        layer = base.mark_rule().encode(x=at_end, y=value, y2=alt.Y2("low"))
    else:
        layer = base.mark_rule(strokeWidth=2).encode(x=at_end, x2=alt.X2("start"), y=value)
    return layer
