"""Writes the reference pages that come from tables: the lifecycles with pictures, and the errors.

`tools.generate` writes what PAGES names; nothing here touches a file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from detent.diagrams.drawing import Format, diagram
from detent.error_codes import CODES, Code
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.state_shapes import APPEARANCES
from detent.task_lifecycles import all_lifecycles

LIFECYCLES = all_lifecycles()

LIFECYCLES_INTRODUCTION = """\
# Lifecycles

Five tables define every change of state. A transition that is not in a table does not exist; the
code may refuse more, but never allows more. An illegal event changes nothing, and the error lists
the legal events. Every transition is one event of the log, and the state of a task, job, run or
step is the fold of its events.

There are two public folds. The strict fold follows the table and reports the position of the first
illegal event. The lenient fold takes the target state of the last event that is in the table,
legal or not; use it to audit streams of other systems. Both give the same state for every legal
stream. Events that are not in the table do not change the state.

A row marked **ext** is an addition to the models that these lifecycles follow, with the reason for
it. A row marked **reopens** leaves a terminal state. In the diagrams, additions are dashed and
terminal states have a double border. `detent lifecycle` shows, draws, exports, checks and
simulates the lifecycles.
"""

ERRORS_INTRODUCTION = """\
# Errors

Every error has a code, which determines the HTTP status of a response and the exit code of a
command. Codes do not change between versions; messages may. A refused request changes nothing.
"""


def lifecycles() -> str:
    """The page of all lifecycles: states, rows, pictures, and Mermaid text at the end."""
    sections = [LIFECYCLES_INTRODUCTION, *(_lifecycle(each) for each in LIFECYCLES.values())]
    sections.append("## As Mermaid text\n")
    for each in LIFECYCLES.values():
        sections.append(
            f"### Mermaid: {each.name}\n\n```mermaid\n{diagram(each, Format.MERMAID)}```\n"
        )
    return "\n".join(sections)


def errors() -> str:
    """The page of all error codes: what happened, why, what to do."""
    rows = [(f"[`{code}`](#{code})", row.status, row.exit_code) for code, row in CODES.items()]
    overview = table(("code", "HTTP status", "exit code"), rows)
    sections = [_error(code, row) for code, row in CODES.items()]
    return "\n".join([ERRORS_INTRODUCTION, overview, *sections])


def _error(code: str, row: Code) -> str:
    return (
        f"## {code}\n\n"
        f"**What happened.** {row.meaning}\n\n"
        f"**Why.** {row.why}\n\n"
        f"**What to do.** {row.remedy}\n\n"
        f"HTTP status {row.status}, exit code {row.exit_code}.\n"
    )


def _lifecycle(each: Lifecycle) -> str:
    states = [
        (f"{APPEARANCES[state.look].glyph} `{state.name}`", state.meaning, _marks(each, state.name))
        for state in each.states
    ]
    rows = [
        (
            f"`{row.source}`" if row.source else "–",
            f"`{row.event}`",
            f"`{row.target}`",
            row.who,
            row.why,
            "**ext**" if row.extension else "**reopens**" if row.reopens else "",
        )
        for row in each.rows
    ]
    return "\n".join(
        [
            f"## {each.name}\n",
            f"{each.title}.\n",
            f"![The {each.name} lifecycle]({_picture_name(each)})\n",
            table(("state", "meaning", ""), states),
            table(("from", "event", "to", "who", "why", ""), rows),
        ]
    )


def _marks(each: Lifecycle, state: str) -> str:
    return "initial" if state == each.initial else "terminal" if state in each.terminal else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _picture_name(each: Lifecycle) -> str:
    return f"lifecycle-{each.name}.svg"


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/lifecycles.md": lifecycles,
    "docs/reference/errors.md": errors,
    **{
        f"docs/reference/{_picture_name(each)}": partial(diagram, each, Format.SVG)
        for each in LIFECYCLES.values()
    },
}
