"""Draws the timelines of ``concepts.md`` and the plot of ``ten_minutes.md`` into ``_static``; look at the result."""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass, field
from pathlib import Path

import tilt

INK, SOFT, BLUE, ORANGE, GREEN = "#57606a", "#d0d7de", "#0969da", "#bc4c00", "#1a7f37"
WIDTH, LEFT, ROW, UNIT = 780, 150, 58, 29


@dataclass
class Picture:
    """Rows of a timeline, one below the other, over ticks 0 to 20."""

    name: str
    rows: int
    parts: list[str] = field(default_factory=list)

    def x(self, tick: float) -> float:
        """Where a tick is."""
        return LEFT + tick * UNIT

    def y(self, row: float) -> float:
        """Where the axis of a row is."""
        return 40 + row * ROW

    def label(self, row: float, text: str, note: str = "") -> None:
        """Name a row and draw its axis."""
        y = self.y(row)
        self.parts.append(f'<text x="10" y="{y + 4}" font-weight="600">{text}</text>')
        if note:
            self.parts.append(f'<text x="10" y="{y + 20}" font-size="11">{note}</text>')
        self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y}" y2="{y}" stroke="{SOFT}"/>')

    def point(self, row: float, tick: float, text: str = "", color: str = BLUE) -> None:
        """Draw an event of one tick."""
        self.parts.append(f'<circle cx="{self.x(tick)}" cy="{self.y(row)}" r="5" fill="{color}"/>')
        self.text(row, tick, text, color)

    def event(self, row: float, start: float, end: float, text: str = "", color: str = BLUE) -> None:
        """Draw an event ``(start, end]``: open on the left, closed on the right."""
        a, b, y = self.x(start), self.x(end), self.y(row)
        self.parts += [
            f'<line x1="{a + 5}" x2="{b}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="4"/>',
            f'<circle cx="{a + 4}" cy="{y}" r="4" fill="none" stroke="{color}" stroke-width="2"/>',
            f'<circle cx="{b}" cy="{y}" r="5" fill="{color}"/>',
        ]
        self.text(row, (start + end) / 2, text, color)

    def text(self, row: float, tick: float, text: str, color: str = INK) -> None:
        """Write above a row."""
        if text:
            x, y = self.x(tick), self.y(row) - 12
            self.parts.append(f'<text x="{x}" y="{y}" text-anchor="middle" fill="{color}">{text}</text>')

    def band(self, start: float, end: float, first: float, last: float, color: str = ORANGE) -> None:
        """Shade a stretch of time over some rows."""
        x, y = self.x(start), self.y(first) - 26
        width, height = self.x(end) - x, self.y(last) + 12 - y
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}" opacity=".13" rx="4"/>'
        )

    def line(self, tick: float, first: float, last: float, text: str = "") -> None:
        """Draw an instant through some rows."""
        x, y = self.x(tick), self.y(first) - 22
        self.parts.append(
            f'<line x1="{x}" x2="{x}" y1="{y}" y2="{self.y(last) + 10}" stroke="{ORANGE}" stroke-dasharray="4 3"/>'
        )
        self.parts.append(f'<text x="{x}" y="{y - 4}" text-anchor="middle" fill="{ORANGE}">{text}</text>')

    def save(self, folder: Path) -> None:
        """Write the picture."""
        height = 40 + self.rows * ROW
        body = "\n  ".join(self.parts)
        (folder / f"{self.name}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}">\n  {body}\n</svg>\n',
            encoding="utf-8",
        )


def validity() -> Picture:
    """From rows to events."""
    picture = Picture("validity", 3)
    for row, name in enumerate(["point", "until_next", '"3s"']):
        picture.label(row, f"valid={name}" if row == 2 else f'valid="{name}"')
        for tick, after, value in [(3, 8, "10"), (8, 14, "12"), (14, 19, "11")]:
            match row:
                case 0:
                    picture.point(row, tick, value)
                case 1:
                    picture.event(row, tick - 0.15, after - 0.3, value)
                case _:
                    picture.event(row, tick - 3, tick, value)
    return picture


def window() -> Picture:
    """A window by time."""
    picture = Picture("window", 2)
    picture.label(0, "price")
    picture.label(1, '["-6s":].mean()')
    ticks = [(2, 10), (4, 14), (7, 12), (11, 18), (13, 15), (18, 11)]
    picture.band(7, 13, 0, 0)
    picture.line(13, 0, 1, "t")
    for tick, value in ticks:
        inside = [v for u, v in ticks if tick - 6 < u <= tick]
        picture.point(0, tick, str(value))
        picture.point(1, tick, f"{sum(inside) / len(inside):.1f}", ORANGE if tick == 13 else GREEN)
    return picture


def tumbling() -> Picture:
    """A value is valid on the block that it summarises."""
    picture = Picture("tumbling", 3)
    picture.label(0, "x")
    picture.label(1, "block mean")
    picture.label(2, "x - mean")
    ticks = [(1, 2), (3, 4), (6, 9), (9, 7), (12, 5), (14, 1)]
    for block in range(3):
        inside = [v for u, v in ticks if block * 5 < u <= block * 5 + 5]
        mean = sum(inside) / len(inside)
        picture.event(1, block * 5, block * 5 + 5, f"{mean:g}", GREEN)
        for tick, value in ticks:
            if block * 5 < tick <= block * 5 + 5:
                picture.point(2, tick, f"{value - mean:+g}", ORANGE)
    for tick, value in ticks:
        picture.point(0, tick, str(value))
    return picture


def as_of() -> Picture:
    """An as-of join is a held value."""
    picture = Picture("as_of", 4)
    for row, name in enumerate(["quotes", 'quotes.hold("6s")', "trades", "trade - quote"]):
        picture.label(row, name)
    quotes = [(1, 9, 100), (9, 18, 103)]
    for tick, after, value in quotes:
        picture.point(0, tick, str(value))
        picture.event(1, tick - 0.15, min(after, tick + 6) - 0.3, str(value), GREEN)
    for tick, value, result in [(3, 101, "+1"), (8, 104, "none"), (12, 102, "-1")]:
        picture.point(2, tick, str(value))
        picture.line(tick, 1, 3)
        picture.text(3, tick, result, INK if result == "none" else ORANGE)
        if result != "none":
            picture.point(3, tick, "", ORANGE)
    return picture


def sessions() -> Picture:
    """Sessions end where nothing follows for a while."""
    picture = Picture("sessions", 2)
    picture.label(0, "clicks")
    picture.label(1, 'session("4s")')
    for tick in [1, 3, 5, 11, 12, 18]:
        picture.point(0, tick)
    for start, end, n in [(0.85, 5, 3), (10.85, 12, 2), (17.85, 18, 1)]:
        picture.event(1, start, end, f"n={n}", GREEN)
    return picture


def halo() -> Picture:
    """Pieces of the timeline and what they read."""
    picture = Picture("halo", 3)
    for row, name in enumerate(["input", "piece 1", "piece 2"]):
        picture.label(row, name)
    for tick in range(1, 21):
        picture.point(0, tick)
    picture.band(6, 10, 0, 2)
    picture.text(2, 8, "halo: lookback", ORANGE)
    picture.event(1, 0, 10, "writes (0, 10]", GREEN)
    picture.event(2, 10, 20, "writes (10, 20]", GREEN)
    return picture


def live() -> str:
    """Two means, drawn as they came: by the code that the page shows."""
    page = (Path(__file__).parent / "ten_minutes.md").read_text(encoding="utf-8")
    section = page.split("\n## Live\n")[1]
    blocks = "".join(re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(blocks, {"tl": tilt}, "live", None, None)
    if doctest.DocTestRunner().run(example, clear_globs=False).failed:
        raise SystemExit(1)
    return str(example.globs["plot"])


if __name__ == "__main__":
    target = Path(__file__).parent / "_static"
    target.mkdir(exist_ok=True)
    for draw in (validity, window, tumbling, as_of, sessions, halo):
        draw().save(target)
    (target / "live.svg").write_text(live() + "\n", encoding="utf-8")
