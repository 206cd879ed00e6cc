"""How a state is shown: a shape besides its colour, so that nobody has to tell colours apart.

Data only, shared by the terminal, the diagrams and the dashboard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Look(StrEnum):
    """What a state asks of the person who sees it."""

    WAITING = "waiting"  # will go on by itself
    ACTIVE = "active"  # somebody is working on it
    ATTENTION = "attention"  # needs a person, or soon might
    GOOD = "good"  # ended well
    BAD = "bad"  # went wrong
    ENDED = "ended"  # ended, neither well nor badly


@dataclass(frozen=True, slots=True)
class Appearance:
    """The signs of one look: a shape by name, its glyph, a terminal colour, and ink on paper."""

    shape: str
    glyph: str
    terminal: str
    ink: str
    paper: str


APPEARANCES: Mapping[Look, Appearance] = {
    Look.WAITING: Appearance("ring", "○", "cyan", "#33658a", "#eaf2f8"),
    Look.ACTIVE: Appearance("play", "▶", "blue", "#1d4ed8", "#e3ebfd"),
    Look.ATTENTION: Appearance("triangle", "▲", "yellow", "#92580a", "#fdf3dc"),
    Look.GOOD: Appearance("disc", "●", "green", "#1b7340", "#e2f5e9"),
    Look.BAD: Appearance("cross", "✖", "red", "#b3261e", "#fdeae8"),
    Look.ENDED: Appearance("square", "■", "bright_black", "#55606b", "#eff1f3"),
}
