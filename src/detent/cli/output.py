"""What commands say: JSON for programs, tables for people, errors on stderr.

All text may come from somebody hostile: it is cleaned here, before a terminal can act on it.
Colour only on a terminal, and not where NO_COLOR is set. A table fits the terminal, or the
columns that COLUMNS names; any other pipe gets whole columns that are easy to cut.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import combining, east_asian_width

import click

from detent.errors import DetentError

if TYPE_CHECKING:
    from detent.kernel.lifecycle import State

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
GAP = "  "
#: A wide column is cut down to this before one is left out.
NARROWEST = 12
USUAL_COLUMNS = 80


class Styled(NamedTuple):
    """A piece of text with the style it has on a terminal."""

    text: str
    style: str


Cell = str | Styled


def clean(text: str) -> str:
    """Text that a terminal shows and does not obey; line breaks and tabs stay."""
    return _HIDDEN.sub("", _ESCAPES.sub("", text))


def state_cell(lifecycle: str, state: str) -> Styled:
    """A state of one of the five lifecycles as its sign and name, in its colour."""
    from detent.kernel.lifecycles import LIFECYCLES  # only a table for people needs the tables

    return shown_state(LIFECYCLES[lifecycle].state(state))


def shown_state(state: "State") -> Styled:
    """A state as its sign and name, in its colour."""
    from detent.kernel.state_shapes import APPEARANCES

    look = APPEARANCES[state.look]
    return Styled(f"{look.glyph} {state.name}", look.terminal)


def say(text: str) -> None:
    """A sentence for a person."""
    click.echo(clean(text))


def answer(facts: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    """What a command has done: the facts for a program, a sentence for a person."""
    print_json(facts) if as_json else say(sentence)


def note(text: str) -> None:
    """Something beside the answer, on stderr, so that the answer stands alone on stdout."""
    click.echo(clean(text), err=True)


def print_json(value: object) -> None:
    """JSON for a program. Pure ASCII, so that no letter in it can move a terminal."""
    click.echo(json.dumps(value, indent=2))


#: Whether errors are for a program, too: set from the arguments of the command.
json_errors: ContextVar[bool] = ContextVar("json_errors", default=False)


def complain(error: DetentError) -> None:
    """What went wrong and what to do now, on stderr; with --json as one line of JSON."""
    if not json_errors.get():
        note(f"detent: {error.message} [{error.code}]\n  {error.hint}")
        return
    said = {"code": error.code, "detail": error.message, "hint": error.hint}
    document = {**error.details, **said, "exit_code": error.exit_code}
    click.echo(json.dumps(document, default=str), err=True)


def complain_of_usage(error: click.ClickException) -> None:
    """A command line that click refuses, as one line of JSON."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    hint = "" if ctx is None else f"See `{ctx.command_path} --help`."
    said = {"code": "invalid", "detail": error.format_message(), "hint": hint}
    click.echo(json.dumps({**said, "exit_code": error.exit_code}), err=True)


class Group(click.Group):
    """Commands of one noun; each says in its help what it does, to the end of the sentence."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _sentence(command)) for name, command in named if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _sentence(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


# ---- tables ----------------------------------------------------------------------------------


def fields(title: str, values: Mapping[str, Any]) -> None:
    """One thing as a table of its fields; what is empty is left out."""
    rows = [
        (name, value if isinstance(value, Styled) else text_of(value))
        for name, value in values.items()
        if value not in (None, "", [], {}, ())
    ]
    table(("", title), rows, wrap=True)


def text_of(value: Any) -> str:
    """A value of somebody's as a person reads it."""
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, wrap: bool = False) -> None:
    """Aligned columns, the most important first: what does not fit is cut, or left out.

    With `wrap` long texts go on in the next line instead.
    """
    coloured = has_colour()
    for line in lines_of(headings, rows, room(), wrap=wrap):
        text = GAP.join(_styled(cell, coloured) for cell in line)
        click.echo(text.rstrip(), color=True)


def lines_of(
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    most: int | None,
    *,
    wrap: bool = False,
) -> list[list[Styled]]:
    """The lines of a table that is at most so wide: cells padded to their columns."""
    head = [Styled(heading, "bold") for heading in headings]
    lines = [head, *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(width_of(cell.text) for cell in column) for column in zip(*lines, strict=True)]
    fitted = fit(widths, most)
    return [
        [_padded(cell, width) for cell, width in zip(part, fitted, strict=False)]
        for line in lines
        for part in (_wrapped(line, fitted) if wrap else [line])
    ]


def _wrapped(line: Sequence[Styled], widths: Sequence[int]) -> Iterable[list[Styled]]:
    """One row as several lines, none wider than its columns."""
    texts = [wrapped(cell.text, width) for cell, width in zip(line, widths, strict=False)]
    for number in range(max(map(len, texts))):
        yield [
            Styled(text[number] if number < len(text) else "", cell.style)
            for cell, text in zip(line, texts, strict=False)
        ]


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many columns, broken between words where that is possible."""
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if width_of(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while width_of(word) > width:
            fitting = cut(word, width + 1)[:-1] or word[0]
            lines.append(fitting)
            word = word[len(fitting) :]
        line = word
    return [*lines, line]


def fit(widths: Sequence[int], most: int | None) -> list[int]:
    """The widths that the columns get: the widest give way first, the last ones go if need be."""
    chosen = list(widths)
    while most is not None and sum(chosen) + len(GAP) * (len(chosen) - 1) > most:
        widest = max(range(1, len(chosen)), key=chosen.__getitem__, default=None)
        if widest is not None and chosen[widest] > NARROWEST:
            over = sum(chosen) + len(GAP) * (len(chosen) - 1) - most
            second = max((w for at, w in enumerate(chosen) if at not in (0, widest)), default=0)
            chosen[widest] = max(chosen[widest] - over, min(second, chosen[widest] - 1), NARROWEST)
        elif len(chosen) > 1:
            chosen = list(widths[: len(chosen) - 1])  # begin anew with one column less
        else:
            return [max(most, 1)]
    return chosen


def room() -> int | None:
    """How many columns there are to write in; None where nothing limits them."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


def has_colour() -> bool:
    """Whether stdout is a terminal whose user has not asked for none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and _term() != "dumb"


def _term() -> str:
    return os.environ.get("TERM", "")


def width_of(text: str) -> int:
    """How many columns a terminal needs for a text."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(letter: str) -> int:
    if combining(letter) or letter in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with a sign that there is more."""
    if width_of(text) <= width:
        return text
    kept, used = "", 0
    for letter in text:
        used += _columns(letter)
        if used > width - 1:
            break
        kept += letter
    return kept + "…"


def _padded(cell: Styled, width: int) -> Styled:
    text = cut(cell.text, width)
    return Styled(text + " " * (width - width_of(text)), cell.style)


def _styled(cell: Styled, coloured: bool) -> str:
    if not coloured or not cell.style:
        return cell.text
    words = cell.style.split()
    colour = next((word for word in words if word not in ("bold", "dim")), None)
    return click.style(
        cell.text, fg=colour, bold="bold" in words or None, dim="dim" in words or None
    )


def _cell(cell: Cell) -> Styled:
    """One line of clean text: a break inside a cell would look like another row."""
    text, style = cell if isinstance(cell, Styled) else (cell, "")
    return Styled(" ".join(clean(text).split()), style)
