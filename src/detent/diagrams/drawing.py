"""Draws a lifecycle as Mermaid, as Graphviz dot, and as SVG with the layout of `layout.py`.

Text out of a table. Rows with the same ends share one arrow; extension rows are dashed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape

from detent.diagrams.layout import Edge, Placement, Point, Route, Size, place
from detent.kernel.lifecycle import Lifecycle, Row, State
from detent.kernel.state_shapes import APPEARANCES

START = ""  # the name of the dot that creation rows come from: no state is called so


class Format(StrEnum):
    """The kinds of diagram."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


def diagram(lifecycle: Lifecycle, kind: Format) -> str:
    """Return the lifecycle drawn in one of the formats."""
    return _DRAW[kind](lifecycle)


@dataclass(frozen=True, slots=True)
class _Arrow:
    """The rows that lead from one state to another in the same style."""

    source: str
    target: str
    extension: bool
    rows: tuple[Row, ...]

    @property
    def events(self) -> list[str]:
        return [row.event for row in self.rows]


def _arrows(lifecycle: Lifecycle) -> list[_Arrow]:
    groups: dict[tuple[str, str, bool], list[Row]] = {}
    for row in lifecycle.rows:
        groups.setdefault((row.source or START, row.target, row.extension), []).append(row)
    return [_Arrow(*ends, tuple(rows)) for ends, rows in groups.items()]


def mermaid(lifecycle: Lifecycle) -> str:
    """Return a Mermaid state diagram; extension rows are marked (ext)."""
    lines = ["stateDiagram-v2"]
    for arrow in _arrows(lifecycle):
        mark = " (ext)" if arrow.extension else ""
        label = " / ".join(arrow.events)
        lines.append(f"    {arrow.source or '[*]'} --> {arrow.target} : {label}{mark}")
    lines += [f"    {name} --> [*]" for name in lifecycle.terminal]
    return "\n".join(lines) + "\n"


def dot(lifecycle: Lifecycle) -> str:
    """Return a Graphviz digraph; terminal states have a double border."""
    lines = [
        f'digraph "{lifecycle.name}" {{',
        f'    label="{lifecycle.title}"; labelloc=t; rankdir=LR; fontname=monospace;',
        '    node [shape=box, style="rounded,filled", fontname=monospace];',
        "    edge [fontname=monospace, fontsize=10];",
        '    "" [shape=point, width=0.15];',
    ]
    for state in lifecycle.states:
        look = APPEARANCES[state.look]
        borders = 2 if state.name in lifecycle.terminal else 1
        lines.append(
            f'    "{state.name}" [label="{look.glyph} {state.name}", peripheries={borders}, '
            f'color="{look.ink}", fillcolor="{look.paper}"];'
        )
    for arrow in _arrows(lifecycle):
        style = ", style=dashed" if arrow.extension else ""
        label = r"\n".join(arrow.events)
        lines.append(f'    "{arrow.source}" -> "{arrow.target}" [label="{label}"{style}];')
    return "\n".join([*lines, "}"]) + "\n"


# The SVG picture. Lengths are in pixels; a monospaced letter is about 0.6 of its font size wide.

INK = "#3b4550"
MARGIN = 24.0
TITLE_HEIGHT = 40.0
STATE_FONT = 13.0
LABEL_FONT = 11.0
LINE_HEIGHT = 14.0
LETTER_WIDTH = 0.602
BOX_PADDING = 12.0
DOT_SIZE = 14.0

STYLE = f"""\
text {{ font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: {INK}; }}
.title {{ font-size: 15px; font-weight: bold; }}
.state {{ font-size: {STATE_FONT:g}px; font-weight: bold; text-anchor: middle; }}
.note {{ font-size: {LABEL_FONT:g}px; }}
.label {{ font-size: {LABEL_FONT:g}px; text-anchor: middle; }}
.line {{ fill: none; stroke: #7b8794; stroke-width: 1.3; }}
.extension {{ stroke-dasharray: 5 4; }}"""


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The positions of a diagram: boxes, arrows with their routes, and events that lead back."""

    placement: Placement
    routed: tuple[tuple[_Arrow, Route], ...]
    loops: Mapping[str, Sequence[str]]


def _drawing(lifecycle: Lifecycle) -> _Drawing:
    arrows = _arrows(lifecycle)
    loops = {arrow.source: arrow.events for arrow in arrows if arrow.source == arrow.target}
    straight = [arrow for arrow in arrows if arrow.source != arrow.target]
    boxes = _box_sizes(lifecycle, loops)
    edges = [Edge(arrow.source, arrow.target, _text_size(arrow.events)) for arrow in straight]
    placement = min(
        (place(boxes, edges, downward=downward) for downward in (False, True)), key=_awkwardness
    )
    return _Drawing(placement, tuple(zip(straight, placement.routes, strict=True)), loops)


def outline(lifecycle: Lifecycle) -> dict[str, object]:
    """Return the positions as numbers, for a program that draws the diagram itself."""
    drawing = _drawing(lifecycle)
    downward = drawing.placement.downward
    return {
        "id": lifecycle.id,
        "name": lifecycle.name,
        "width": drawing.placement.size[0],
        "height": drawing.placement.size[1],
        "boxes": [
            {
                "state": name,
                "x": x - width / 2,
                "y": y - height / 2,
                "width": width,
                "height": height,
                "loops": list(drawing.loops.get(name, ())),
            }
            for name, ((x, y), (width, height)) in drawing.placement.boxes.items()
        ],
        "arrows": [
            {
                "source": arrow.source or None,
                "target": arrow.target,
                "extension": arrow.extension,
                "events": arrow.events,
                "path": _path(route, downward=downward),
                "x": route.label[0],
                "y": route.label[1],
            }
            for arrow, route in drawing.routed
        ],
    }


def svg(lifecycle: Lifecycle) -> str:
    """Return an SVG picture; the tooltip of a label shows who causes the event, and why."""
    drawing = _drawing(lifecycle)
    placement, routed, loops = drawing.placement, drawing.routed, drawing.loops
    parts = [_draw_line(arrow, route, downward=placement.downward) for arrow, route in routed]
    parts += [_draw_label(arrow, route) for arrow, route in routed]
    parts.append(_draw_start(placement))
    for state in lifecycle.states:
        ended = state.name in lifecycle.terminal
        parts.append(_draw_state(state, placement, loops.get(state.name, []), ended=ended))
    return _page(lifecycle, placement.size, parts)


def _awkwardness(placement: Placement) -> float:
    """Return the layout that can be shown larger on a page that is wider than high."""
    width, height = placement.size
    return max(width, height * 1.25)


def _text_size(lines: Sequence[str], font: float = LABEL_FONT) -> Size:
    return max(map(len, lines)) * font * LETTER_WIDTH + 8, len(lines) * LINE_HEIGHT + 2


def _box_sizes(lifecycle: Lifecycle, loops: Mapping[str, Sequence[str]]) -> dict[str, Size]:
    """Return the box sizes: equally wide, higher for events that lead back to the same state."""
    names = [f"· {name}" for name in lifecycle.state_names]
    looped = [f"↻ {event}" for events in loops.values() for event in events]
    width = max(_text_size(names, STATE_FONT)[0], _text_size(looped or [""])[0]) + BOX_PADDING
    sizes: dict[str, Size] = {START: (DOT_SIZE, DOT_SIZE)}
    for name in lifecycle.state_names:
        sizes[name] = (width, (1 + len(loops.get(name, ()))) * LINE_HEIGHT + 2 * BOX_PADDING)
    return sizes


def _draw_line(arrow: _Arrow, route: Route, *, downward: bool) -> str:
    style = "line extension" if arrow.extension else "line"
    path = _path(route, downward=downward)
    return f'<path class="{style}" d="{path}" marker-end="url(#head)"/>'


def _path(route: Route, *, downward: bool) -> str:
    """Curves between the layers, straight lines within them."""
    curves = zip(route.points[::2], route.points[1::2], strict=True)
    return "M" + " L".join(_curve(start, end, downward=downward) for start, end in curves)


def _curve(start: Point, end: Point, *, downward: bool) -> str:
    (x0, y0), (x1, y1) = start, end
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    bend = (
        f"{x0:.1f},{y:.1f} {x1:.1f},{y:.1f}" if downward else f"{x:.1f},{y0:.1f} {x:.1f},{y1:.1f}"
    )
    return f"{x0:.1f},{y0:.1f} C{bend} {x1:.1f},{y1:.1f}"


def _draw_label(arrow: _Arrow, route: Route) -> str:
    (x, y), (width, height) = route.label, _text_size(arrow.events)
    tooltip = "\n".join(f"{row.event} ({row.who}): {row.why}" for row in arrow.rows)
    return (
        f"<g><title>{escape(tooltip)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="3" fill="#ffffff"/>{_lines(arrow.events, x, y)}</g>'
    )


def _lines(texts: Sequence[str], x: float, y: float, first: str = "label") -> str:
    """Lines of text, centred around a point; the first may have a class of its own."""
    top = y - (len(texts) - 1) * LINE_HEIGHT / 2
    return "".join(
        f'<text class="{"label" if index else first}" x="{x:.1f}" '
        f'y="{top + index * LINE_HEIGHT:.1f}" dy="0.35em">{escape(text)}</text>'
        for index, text in enumerate(texts)
    )


def _draw_start(placement: Placement) -> str:
    (x, y), _ = placement.boxes[START]
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT_SIZE / 2:g}" fill="{INK}"/>'


def _draw_state(state: State, placement: Placement, loops: Sequence[str], *, ended: bool) -> str:
    """A box with the state's sign and name; a terminal state has a double border."""
    (x, y), (width, height) = placement.boxes[state.name]
    look = APPEARANCES[state.look]
    borders = "".join(
        f'<rect x="{x - width / 2 + inset:.1f}" y="{y - height / 2 + inset:.1f}" '
        f'width="{width - 2 * inset:.1f}" height="{height - 2 * inset:.1f}" rx="{9 - inset:g}" '
        f'fill="{look.paper}" stroke="{look.ink}" stroke-width="1.4"/>'
        for inset in ((0, 3) if ended else (0,))
    )
    texts = [f"{look.glyph} {state.name}", *(f"↻ {event}" for event in loops)]
    tooltip = f"<title>{escape(state.meaning)}</title>"
    return f"<g>{tooltip}{borders}{_lines(texts, x, y, first='state')}</g>"


def _page(lifecycle: Lifecycle, size: Size, parts: Sequence[str]) -> str:
    """The whole document: head, style, title, and the parts moved below it."""
    title = escape(lifecycle.title)
    note = "dashed: extension, double border: terminal"
    wide, high = size[0] + 2 * MARGIN, size[1] + 2 * MARGIN + TITLE_HEIGHT
    wide = max(wide, _text_size([lifecycle.title], 15)[0] + 2 * MARGIN)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
            f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE}\n</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
            'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            '<path d="M0,0.5 L8,4 L0,7.5 z" fill="#5b6672"/></marker></defs>',
            '<rect width="100%" height="100%" rx="10" fill="#ffffff"/>',
            f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 6:g}">{title}</text>',
            f'<text class="note" x="{MARGIN:g}" y="{MARGIN + 24:g}">{note}</text>',
            f'<g transform="translate({MARGIN:g},{MARGIN + TITLE_HEIGHT:g})">',
            *parts,
            "</g>",
            "</svg>",
            "",
        ]
    )


_DRAW: Mapping[Format, Callable[[Lifecycle], str]] = {
    Format.MERMAID: mermaid,
    Format.DOT: dot,
    Format.SVG: svg,
}
