"""The race as a small picture: a bar for each entrant, its spread as a line across the end.

Plain SVG, written by hand: a title and text that is read aloud, colours that both a light and a
dark page can bear. Pure: from figures to text.
"""

import math
from collections.abc import Iterator
from html import escape

from bench.harness import shown
from bench.race.entrants import ENTRANTS
from bench.race.report import MEASURED, Race

WIDTH, NAMES, ROW, BAR, HEAD = 760, 190, 22, 12, 52
#: Room at the right for the figure itself.
FIGURE = 90
OWN, OTHER, INK = "#0f766e", "#94a3b8", "#64748b"


def chart(race: Race, name: str) -> str:
    """One figure of the race. Lengths are logarithmic, since the field is wide."""
    result = race.result(name)
    question, unit, less = MEASURED[name]
    entrants = [each.name for each in ENTRANTS if each.name in result.figures]
    entrants.sort(key=lambda who: result.spread(who).median, reverse=not less)
    every = [figure for who in entrants for figure in result.figures[who]]
    scale = _Scale(min(every), max(every))
    height = HEAD + ROW * len(entrants) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(name)}: {escape(question)}</title>",
        f'<text x="8" y="20" font-size="14" font-weight="bold">{escape(name)}, {unit}</text>',
        f'<text x="8" y="38">{escape(question)} Logarithmic; {_direction(less)}.</text>',
    ]
    for number, who in enumerate(entrants):
        lines += _bar(HEAD + ROW * number, who, result.spread(who), scale)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _direction(less: bool) -> str:
    return "shorter is better" if less else "longer is better"


class _Scale:
    """From a figure to a length. The shortest bar still shows."""

    def __init__(self, least: float, most: float) -> None:
        self._floor = math.log10(least) - 0.3
        self._decades = math.log10(most) - self._floor

    def __call__(self, figure: float) -> float:
        room = WIDTH - NAMES - FIGURE
        return round(room * (math.log10(figure) - self._floor) / self._decades, 1)


def _bar(y: int, who: str, found: tuple[float, float, float], scale: _Scale) -> Iterator[str]:
    middle, least, most = found
    colour = OWN if who.startswith("detent") else OTHER
    across = y + BAR // 2
    yield f'<text x="{NAMES - 8}" y="{y + 10}" text-anchor="end">{escape(who)}</text>'
    yield f'<rect x="{NAMES}" y="{y}" width="{scale(middle)}" height="{BAR}" fill="{colour}"/>'
    ends = (NAMES + scale(least), NAMES + scale(most))
    places = f'x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{across}" y2="{across}"'
    yield f'<line {places} stroke="{INK}"/>'
    yield f'<text x="{ends[1] + 6:.1f}" y="{y + 10}">{shown(middle)}</text>'
