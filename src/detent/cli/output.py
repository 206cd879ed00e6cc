"""What commands say: JSON for programs, tables for people, errors on stderr.

All text may come from somebody hostile: it is cleaned here, before a terminal can act on it.
Colour and rich only on a terminal; a pipe gets plain columns that are easy to cut.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

from detent.errors import DetentError
from detent.kernel.lifecycle import State
from detent.kernel.look import APPEARANCES

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

# Escape sequences with their parameters, or with their text up to the terminator.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Single letters that move, hide or turn round what stands around them: C0 and C1 controls, bidi
# marks, line separators, invisible tags, and halves of surrogate pairs, which cannot be encoded.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    r"\U000e0000-\U000e007f\ud800-\udfff]"
)


class Styled(NamedTuple):
    """A piece of text with the style it has on a terminal."""

    text: str
    style: str


Cell = str | Styled


def clean(text: str) -> str:
    """Text that a terminal shows and does not obey; line breaks and tabs stay."""
    return _HIDDEN.sub("", _ESCAPES.sub("", text))


def state_cell(state: State) -> Styled:
    """A state as its sign and name, in its colour."""
    look = APPEARANCES[state.look]
    return Styled(f"{look.glyph} {state.name}", look.terminal)


def say(text: str) -> None:
    """A sentence for a person."""
    click.echo(clean(text))


def print_json(value: object) -> None:
    """JSON for a program. Pure ASCII, so that no letter in it can move a terminal."""
    click.echo(json.dumps(value, indent=2))


def complain(error: DetentError) -> None:
    """What went wrong and what to do now, on stderr."""
    click.echo(clean(f"detent: {error.message} [{error.code}]\n  {error.hint}"), err=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """A table: drawn and coloured on a terminal, plain aligned columns elsewhere."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(headings, cells)
        return
    plain = [list(headings), *([cell.text for cell in row] for row in cells)]
    widths = [max(map(len, column)) for column in zip(*plain, strict=True)]
    for line in plain:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _cell(cell: Cell) -> Styled:
    """One line of clean text: a break inside a cell would look like another row."""
    text, style = cell if isinstance(cell, Styled) else (cell, "")
    return Styled(" ".join(clean(text).split()), style)


def _draw(headings: Sequence[str], rows: Sequence[Sequence[Styled]]) -> None:
    from rich import box  # rich takes longer to import than most commands take to run
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*headings, box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for row in rows:
        drawn.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    Console().print(drawn)
