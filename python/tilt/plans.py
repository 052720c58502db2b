"""Pictures of programs: which streams read which."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilt.run import Query, Stage

_STREAM = re.compile(r"~(`(?:[^`]|``)+`|[A-Za-z_]\w*)")
_WRAPPED = 46


@dataclass(frozen=True)
class Node:
    """A stream of a program."""

    name: str
    text: str
    """Its definition."""
    reads: tuple[str, ...]
    kind: str
    """``input``, ``stream`` or ``output``."""


def graph(program: str) -> list[Node]:
    r"""Give the streams of a program in order of definition.

    >>> from tilt.plans import graph
    >>> text = "query q unit s {\n  input ~x: f64 point\n\n  ~y[t] = ~x[t] + 1.0\n\n  output ~y\n}"
    >>> [(node.name, node.kind, node.reads) for node in graph(text)]
    [('x', 'input', ()), ('y', 'output', ('x',))]
    """
    found: dict[str, tuple[str, tuple[str, ...], str]] = {}
    output = ""
    for line in map(str.strip, program.splitlines()):
        names = [name.strip("`").replace("``", "`") for name in _STREAM.findall(line)]
        if line.startswith("input ~"):
            found[names[0]] = (line, (), "input")
        elif line.startswith("~"):
            reads = tuple(dict.fromkeys(name for name in names[1:] if name != names[0]))
            found[names[0]] = (line, reads, "stream")
        elif line.startswith("output ~"):
            output = names[0]
    return [
        Node(name, text, tuple(read for read in reads if read in found), "output" if name == output else kind)
        for name, (text, reads, kind) in found.items()
    ]


def render(nodes: Sequence[Node], format: str) -> str:  # noqa: A002
    """Give the graph as ``mermaid``, ``dot`` or ``json``.

    >>> from tilt.plans import Node, render
    >>> nodes = [Node("x", "input ~x: f64 point", (), "input"), Node("y", "~y[t] = -~x[t]", ("x",), "output")]
    >>> print(render(nodes, "mermaid"))
    flowchart TD
      n0[/"input ~x: f64 point"/]
      n1(["~y[t] = -~x[t]"])
      n0 --> n1
    <BLANKLINE>
    """
    ids = {node.name: f"n{i}" for i, node in enumerate(nodes)}
    edges = [(ids[read], ids[node.name]) for node in nodes for read in node.reads]
    if format == "json":
        listed = [{"name": n.name, "kind": n.kind, "text": n.text, "reads": list(n.reads)} for n in nodes]
        return json.dumps(listed, indent=2, ensure_ascii=False)
    if format == "mermaid":
        shapes = {"input": '[/"{}"/]', "stream": '["{}"]', "output": '(["{}"])'}
        lines = ["flowchart TD"]
        quoted = {n.name: n.text.replace('"', "#quot;") for n in nodes}
        lines += [f"  {ids[n.name]}{shapes[n.kind].format(quoted[n.name])}" for n in nodes]
        lines += [f"  {a} --> {b}" for a, b in edges]
    elif format == "dot":
        shapes = {"input": "parallelogram", "stream": "box", "output": "oval"}
        lines = ["digraph query {", '  node [fontname="monospace"];']
        lines += [
            f"  {ids[n.name]} [shape={shapes[n.kind]}, label={json.dumps(n.text, ensure_ascii=False)}];" for n in nodes
        ]
        lines += [*(f"  {a} -> {b};" for a, b in edges), "}"]
    else:
        message = f"no format is called {format!r}; there are text, mermaid, dot and json"
        raise ValueError(message)
    return "\n".join(lines) + "\n"


def shown(
    query: Query,
    stage: Stage | None,
    format: str,  # noqa: A002
    sources: Mapping[str, object] | None = None,
) -> str:
    """Give what ``explain`` shows of a query, run on sources if there are some to measure it with.

    >>> import json, tilt as tl
    >>> from tilt.plans import shown
    >>> query = tl.Query("query q unit s { input ~x: f64 point ~y[t] = ~x[t] + 1.0 output ~y }")
    >>> [node["name"] for node in json.loads(shown(query, "logical", "json"))]
    ['x', 'y']
    """
    if sources is not None:
        if stage not in {None, "loops"} or format not in {"text", "json"}:
            message = 'what a run took is told of the loops, as text or as "json": explain(analyze=True)'
            raise ValueError(message)
        return query.analyze(sources) if format == "text" else json.dumps(query.measure(sources), indent=2)
    if format == "text":
        return query.explain(stage or "loops")
    if stage not in {None, "logical", "optimized"}:
        message = f'a graph shows the streams of "logical" or "optimized"; {stage!r} is text: explain({stage!r})'
        raise ValueError(message)
    return render(graph(str(query.program) if stage == "logical" else query.explain("optimized")), format)


def svg(nodes: Sequence[Node]) -> str:
    """Draw the graph, inputs on top: needs nothing but a browser.

    >>> from tilt.plans import Node, svg
    >>> svg([Node("x", "input ~x: f64 point", (), "output")]).startswith("<svg")
    True
    """
    layer: dict[str, int] = {}
    for node in nodes:
        layer[node.name] = 1 + max((layer[read] for read in node.reads), default=-1)
    rows: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in nodes:
        rows[layer[node.name]].append(node)
    lines = {node.name: _lines(node.text) for node in nodes}
    width = {name: 16 + 7 * max(map(len, text)) for name, text in lines.items()}
    places: dict[str, tuple[float, float]] = {}
    total = max((sum(width[node.name] + 24 for node in row) for row in rows), default=0)
    top = 12.0
    for row in rows:
        left = (total - sum(width[node.name] + 24 for node in row)) / 2 + 12
        for node in row:
            places[node.name] = (left, top)
            left += width[node.name] + 24
        top += max(14 * len(lines[node.name]) for node in row) + 48
    height = {name: 10 + 14 * len(text) for name, text in lines.items()}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {top:.0f}" width="{total:.0f}"',
        ' style="max-width:100%" font-family="monospace" font-size="11.5">',
    ]
    for node in nodes:
        x, y = places[node.name]
        for read in node.reads:
            a, b = places[read]
            start, end = (a + width[read] / 2, b + height[read]), (x + width[node.name] / 2, y)
            bend = (start[1] + end[1]) / 2
            parts.append(
                f'<path d="M{start[0]:.1f} {start[1]:.1f} C{start[0]:.1f} {bend:.1f} {end[0]:.1f} {bend:.1f} '
                f'{end[0]:.1f} {end[1]:.1f}" fill="none" stroke="#888"/>'
            )
    fills = {"input": "#dbeafe", "stream": "#f3f4f6", "output": "#dcfce7"}
    for node in nodes:
        x, y = places[node.name]
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width[node.name]}" height="{height[node.name]}" rx="5" '
            f'fill="{fills[node.kind]}" stroke="#666"/>'
        )
        parts += [
            f'<text x="{x + 8:.1f}" y="{y + 15 + 14 * i:.1f}" fill="#111">{html.escape(text)}</text>'
            for i, text in enumerate(lines[node.name])
        ]
    return "".join([*parts, "</svg>"])


def _lines(text: str) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= _WRAPPED:
            lines.append("  ")
        lines[-1] += word if not lines[-1].strip() else f" {word}"
    return lines


@dataclass(frozen=True)
class Picture:
    """A drawing that notebooks show."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.svg
