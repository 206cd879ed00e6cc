"""Documents of lifecycles as TOML text: every error names its line and its field."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import detent.task_lifecycles
from detent.errors import Invalid
from detent.kernel.lifecycle_lint import Flaw
from detent.task_lifecycles.document_file import LIMIT_BYTES, located, read_document
from detent.task_lifecycles.document_lines import line_of, lines

SHIPPED = Path(detent.task_lifecycles.__file__).parent
BOARD = (SHIPPED / "board.toml").read_text(encoding="utf-8")
REVIEW = (SHIPPED / "review.toml").read_text(encoding="utf-8")

INLINE = """\
name = "x" # not = "y"
retry = { retries = 0,  classes = { timeout = { retries = 0 } } }
[states]
a = { meaning = 'a "quoted" text', phase = "queued" }
b.meaning = "dotted"
"c".meaning = "quoted"

[[rows]]
from = [
    "a",  # [[rows]]
    "b",
]
why = \"\"\"\\
several lines
[[rows]]
to = "nowhere\"\"\"
to = "c"
[[ rows ]]
event = "e"
"""


def paths(value: Any, path: str = "") -> Iterator[str]:
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from paths(each, f"{path}[{index}]")


@pytest.mark.parametrize("text", [BOARD, REVIEW, INLINE])
def test_every_field_has_a_line(text: str) -> None:
    document = tomllib.loads(text)
    assert set(paths(document)) == set(lines(text))


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("name", 1),
        ("retry.classes.timeout.retries", 2),
        ("states", 3),
        ("states.a.phase", 4),
        ("states.b.meaning", 5),
        ("states.c", 6),
        ("rows[0]", 8),
        ("rows[0].from[1]", 11),
        ("rows[0].why", 13),
        ("rows[0].to", 17),
        ("rows[1].event", 19),
        ("rows[1].missing", 18),
        ("missing", 1),
    ],
)
def test_lines_of_fields(field: str, line: int) -> None:
    assert line_of(INLINE, field) == line


def test_flaws_have_lines() -> None:
    flaw = Flaw("dead-state", "states.b", "text")
    assert located(INLINE, [flaw]) == [
        {"line": 5, "rule": "dead-state", "field": "states.b", "text": "text"}
    ]


def test_a_document_is_read() -> None:
    document, lifecycle = read_document(REVIEW, "review.toml")
    assert document["name"] == lifecycle.name == "review"
    assert lifecycle.place(len(lifecycle.rows) - 1) == f"rows[{len(document['rows']) - 1}]"


def changed(old: str, new: str) -> str:
    assert old in BOARD
    return BOARD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "field", "found", "message"),
    [
        (
            changed('if = ["subtasks_are_open"]', 'if = ["moon"]'),
            "rules[1].if",
            'if = ["moon"]',
            "rules[1].if must be one of",
        ),
        (
            changed("[states.done]", "[states.todo]"),
            "states.todo",
            "[states.todo]",
            "states.todo is declared a second time",
        ),
        (
            changed('initial = "inbox"', 'initial = "inbox"\ninitial = "todo"'),
            "initial",
            'initial = "todo"',
            "initial is declared a second time",
        ),
        (changed("initial =", "begin ="), "begin", "begin =", "begin is not known. Known: name"),
        (
            changed('phase = "queued"', 'stage = "queued"'),
            "states.todo.stage",
            'stage = "queued"',
            "states.todo.stage is not known",
        ),
        (
            changed('who = ["worker"]', 'who = ["moon"]'),
            "rows[2].who",
            'who = ["moon"]',
            "rows[2].who must be one of person",
        ),
        (changed('to = "doing"', "to = doing"), "document", "to = doing", "is not valid TOML"),
        (changed('name = "board"', ""), "name", "# The board task", "name is missing"),
    ],
)
def test_errors_name_line_and_field(text: str, field: str, found: str, message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_document(text, "mine.toml")
    error = refusal.value
    line = error.details["line"]
    assert error.field == field
    assert isinstance(line, int)
    assert text.split("\n")[line - 1].startswith(found)
    assert error.message.startswith(f"mine.toml:{line}: ")
    assert message in error.message


def test_the_size_is_limited() -> None:
    text = BOARD + "#" * (LIMIT_BYTES - len(BOARD.encode()))
    assert read_document(text)[1].name == "board"
    with pytest.raises(Invalid) as refusal:
        read_document(text + "\n#")
    assert (refusal.value.code, refusal.value.field) == ("too_large", "document")
    assert refusal.value.details["line"] == BOARD.count("\n") + 1


@pytest.mark.parametrize("text", ["a = " + "[" * 5_000, "a = [", 'a = "', "\ud800 = 1", ""])
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_document(text)
    assert isinstance(refusal.value.details["line"], int)
