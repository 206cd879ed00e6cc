"""How a state is shown: with a shape besides its colour, for people who see colours differently.

Data only, shared by the terminal, the diagrams and the dashboard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Look(StrEnum):
    """What a state means for the person who sees it."""

    WAITING = "waiting"  # continues by itself
    ACTIVE = "active"  # a worker is working on it
    ATTENTION = "attention"  # needs a person, or may soon
    GOOD = "good"  # ended well
    BAD = "bad"  # went wrong
    ENDED = "ended"  # ended, neither well nor badly


@dataclass(frozen=True, slots=True)
class Appearance:
    """The appearance of a look: shape, glyph, terminal colour, foreground and background."""

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
