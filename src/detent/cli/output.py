"""Print the output of commands: JSON for programs, tables for people, errors on stderr.

All text may come from untrusted input, so control characters are removed before it is printed.
Colour is used only on a terminal, and not if NO_COLOR is set. A table fits the width of the
terminal, or the width in COLUMNS. Output to a pipe is not truncated.
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
# Characters that move the cursor or hide or reorder text: C0 and C1 controls, bidi marks, line
# separators, invisible tags, and halves of surrogate pairs, which cannot be encoded.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    r"\U000e0000-\U000e007f\ud800-\udfff]"
)
GAP = "  "
#: Wide columns are truncated to this width before a column is left out.
NARROWEST = 12
USUAL_COLUMNS = 80


class Styled(NamedTuple):
    """A text and its style on a terminal."""

    text: str
    style: str


Cell = str | Styled


def clean(text: str) -> str:
    """Remove escape sequences and control characters; line breaks and tabs stay."""
    return _HIDDEN.sub("", _ESCAPES.sub("", text))


def visible(text: str) -> str:
    """Replace each control character and hidden character by its code point, such as <U+202E>.

    For text that a person reviews: what is only removed could hide what the text does.
    """
    return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def state_cell(lifecycle: str, state: str) -> Styled:
    """A state of a lifecycle, by name, as its glyph and name in its colour."""
    from detent.task_lifecycles import all_lifecycles  # imported only when a table is printed

    known = all_lifecycles().get(lifecycle)
    return Styled(state, "") if known is None else styled_state(known.state(state))


def looking_cell(name: str, look: str) -> Styled:
    """A word that is no state of a lifecycle, with the glyph and colour of a look."""
    from detent.kernel.state_shapes import APPEARANCES, Look

    appearance = APPEARANCES[Look(look)]
    return Styled(f"{appearance.glyph} {name}", appearance.terminal)


def styled_state(state: "State") -> Styled:
    """A state as its glyph and name in its colour."""
    from detent.kernel.state_shapes import APPEARANCES

    look = APPEARANCES[state.look]
    return Styled(f"{look.glyph} {state.name}", look.terminal)


def print_text(text: str) -> None:
    """Print text for a person on stdout."""
    click.echo(clean(text))


def print_line(*parts: Styled) -> None:
    """Print one line of parts, each in its style, with colour on a terminal.

    A line break in a part is printed as a space: what follows it would look like another line.
    """
    click.echo(line_text(*parts), color=True)


def line_text(*parts: Styled) -> str:
    """One line of parts as `print_line` prints it."""
    coloured = has_colour()
    cleaned = (Styled(clean(part.text).replace("\n", " "), part.style) for part in parts)
    return "".join(_styled(part, coloured) for part in cleaned).rstrip(" ")


def print_result(facts: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a command has done: JSON for a program, a sentence for a person."""
    if as_json:
        print_json(facts)
    else:
        print_text(sentence)


def print_note(text: str) -> None:
    """Print a remark on stderr, so that stdout contains the result alone."""
    click.echo(clean(text), err=True)


def print_json(value: object) -> None:
    """Print JSON for a program. It is pure ASCII, so it cannot control a terminal."""
    click.echo(json.dumps(value, indent=2))


#: Whether errors are printed as JSON; set from the arguments of the command.
json_errors: ContextVar[bool] = ContextVar("json_errors", default=False)


def print_error(error: DetentError) -> None:
    """Print on stderr what is wrong and what to do next; with --json as one line of JSON."""
    if not json_errors.get():
        print_note(f"detent: {error.message} [{error.code}]\n  {error.hint}")
        return
    described = {"code": error.code, "detail": error.message, "hint": error.hint}
    document = {**error.details, **described, "exit_code": error.exit_code}
    click.echo(json.dumps(document, default=str), err=True)


def print_usage_error(error: click.ClickException) -> None:
    """Print an invalid command line as one line of JSON on stderr."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    hint = "" if ctx is None else f"See `{ctx.command_path} --help`."
    described = {"code": "invalid", "detail": error.format_message(), "hint": hint}
    click.echo(json.dumps({**described, "exit_code": error.exit_code}), err=True)


class Group(click.Group):
    """A group of commands whose `--help` lists the whole first sentence of each command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _sentence(command)) for name, command in named if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _sentence(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


# ---- tables ----------------------------------------------------------------------------------


def print_fields(headings: tuple[str, str], values: Mapping[str, Any]) -> None:
    """Print one object as a table of its fields; empty fields are left out.

    The headings are the kind of the object and its id, or those of a name and its value.
    """
    rows = [
        (name, value if isinstance(value, Styled) else value_text(value))
        for name, value in values.items()
        if value not in (None, "", [], {}, ())
    ]
    print_table(headings, rows, wrap=True)


def alternatives(names: Iterable[str]) -> str:
    """The names as text: `a`, `a or b`, `a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def value_text(value: Any) -> str:
    """A JSON value as text for a person: strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, wrap: bool = False
) -> None:
    """Print aligned columns, the most important first; cells that do not fit are truncated, and
    columns that do not fit are left out.

    With `wrap`, long texts continue on the next line instead.
    """
    coloured = has_colour()
    for line in table_lines(headings, rows, terminal_columns(), wrap=wrap):
        text = GAP.join(_styled(cell, coloured) for cell in line)
        click.echo(text.rstrip(), color=True)


def table_lines(
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    most: int | None,
    *,
    wrap: bool = False,
) -> list[list[Styled]]:
    """The lines of a table that is at most `most` columns wide, with padded cells."""
    head = [Styled(heading, "bold") for heading in headings]
    lines = [head, *([_cell(cell) for cell in row] for row in rows)]
    widths = [
        max(display_width(cell.text) for cell in column) for column in zip(*lines, strict=True)
    ]
    fitted = column_widths(widths, most)
    return [
        [_padded(cell, width) for cell, width in zip(part, fitted, strict=False)]
        for line in lines
        for part in (_wrapped(line, fitted) if wrap else [line])
    ]


def _wrapped(line: Sequence[Styled], widths: Sequence[int]) -> Iterable[list[Styled]]:
    """One row as several lines, with each cell wrapped to its column."""
    texts = [wrapped(cell.text, width) for cell, width in zip(line, widths, strict=False)]
    for number in range(max(map(len, texts))):
        yield [
            Styled(text[number] if number < len(text) else "", cell.style)
            for cell, text in zip(line, texts, strict=False)
        ]


def wrapped(text: str, width: int) -> list[str]:
    """Wrap a text into lines of at most `width` columns, between words where possible."""
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if display_width(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while display_width(word) > width:
            fitting = truncate(word, width + 1)[:-1] or word[0]
            lines.append(fitting)
            word = word[len(fitting) :]
        line = word
    return [*lines, line]


def column_widths(widths: Sequence[int], most: int | None) -> list[int]:
    """The widths of the columns: the widest shrink first, then the last ones are left out."""
    chosen = list(widths)
    while most is not None and sum(chosen) + len(GAP) * (len(chosen) - 1) > most:
        widest = max(range(1, len(chosen)), key=chosen.__getitem__, default=None)
        if widest is not None and chosen[widest] > NARROWEST:
            over = sum(chosen) + len(GAP) * (len(chosen) - 1) - most
            second = max((w for at, w in enumerate(chosen) if at not in (0, widest)), default=0)
            chosen[widest] = max(chosen[widest] - over, min(second, chosen[widest] - 1), NARROWEST)
        elif len(chosen) > 1:
            chosen = list(widths[: len(chosen) - 1])  # start again with one column less
        else:
            return [max(most, 1)]
    return chosen


def terminal_columns() -> int | None:
    """The width of the output in columns; None if it is not limited."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


def has_colour() -> bool:
    """Whether stdout is a terminal and its user has not disabled colour."""
    return is_terminal() and not os.environ.get("NO_COLOR") and _term() != "dumb"


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def _term() -> str:
    return os.environ.get("TERM", "")


def display_width(text: str) -> int:
    """The number of terminal columns that a text needs."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(letter: str) -> int:
    if combining(letter) or letter in "\u200b\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def truncate(text: str, width: int) -> str:
    """The text, truncated with an ellipsis if it is wider than `width`."""
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for letter in text:
        used += _columns(letter)
        if used > width - 1:
            break
        kept += letter
    return kept + "…"


def _padded(cell: Styled, width: int) -> Styled:
    text = truncate(cell.text, width)
    return Styled(text + " " * (width - display_width(text)), cell.style)


def _styled(cell: Styled, coloured: bool) -> str:
    if not coloured or not cell.style:
        return cell.text
    words = cell.style.split()
    colour = next((word for word in words if word not in ("bold", "dim")), None)
    return click.style(
        cell.text, fg=colour, bold="bold" in words or None, dim="dim" in words or None
    )


def _cell(cell: Cell) -> Styled:
    """A cell as one line of clean text: a line break would look like another row."""
    text, style = cell if isinstance(cell, Styled) else (cell, "")
    return Styled(" ".join(clean(text).split()), style)
