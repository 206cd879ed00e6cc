"""What reaches a terminal: nothing that it would obey, nothing that hides or turns round."""

import json
import pty
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.cli.output import Styled, clean, print_json, print_table, value_text
from tests.cli.terminal import drawn_on

HOSTILE = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "colour in one byte": ("\x9b31mred", "red"),
    "title": ("\x1b]0;owned\x07shown", "shown"),
    "link": ("\x1b]8;;http://x\x1b\\shown\x1b]8;;\x1b\\", "shown"),
    "open end": ("shown\x1b]0;owned", "shown"),
    "device control": ("\x1bPq#0\x1b\\shown", "shown"),
    "reset": ("\x1bcshown", "shown"),
    "charset": ("\x1b(0shown", "shown"),
    "lone escape": ("shown\x1b", "shown"),
    "carriage return": ("real\rfake", "realfake"),
    "backspace": ("real\b\b\bfake", "realfake"),
    "turned round": ("a\u202eb\u2066c\u200fd\u061ce", "abcde"),
    "separators": ("a\u2028b\u2029c", "abc"),
    "invisible tags": ("a\U000e0041b", "ab"),
    "half a pair": ("a\ud800b", "ab"),
    "delete and C1": ("a\x7fb\x85c", "abc"),
}


@pytest.mark.parametrize(("hostile", "shown"), HOSTILE.values(), ids=list(HOSTILE))
def test_clean_takes_away_what_a_terminal_would_obey(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


def test_clean_keeps_what_people_write() -> None:
    text = "naïve 任务 👩‍💻 ▶\ttab\nline"
    assert clean(text) == text


@given(st.text(alphabet=st.characters(codec=None)))
def test_cleaned_text_can_be_encoded_and_holds_no_control(text: str) -> None:
    cleaned = clean(text)
    assert not {letter for letter in cleaned if letter < " " and letter not in "\n\t"}
    assert "\x1b" not in cleaned.encode().decode()
    assert clean(cleaned) == cleaned


def test_json_is_ascii_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "\x1b[31m任务\u202e\ud800"}
    print_json(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed
    assert json.loads(printed) == value


def test_a_pipe_gets_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "why"), [("a", "one\nline"), (Styled("longer", "red"), "\x1b[31mtwo")])
    assert capsys.readouterr().out == "name    why\na       one line\nlonger  two\n"


def test_a_terminal_gets_colour_and_no_markup_is_read() -> None:
    program = (
        "from detent.cli.output import *;"
        "print_table(('name',), [(Styled('[bold]word', 'red'),), ('\\x1b[5mblink',)])"
    )
    shown = _on_a_terminal([sys.executable, "-c", program])
    assert "\x1b[31m[bold]word" in shown
    assert "blink" in shown
    assert "\x1b[5m" not in shown


def _on_a_terminal(arguments: list[str]) -> str:
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm-256color", "PATH": "", "COLUMNS": "80"}
    with subprocess.Popen(arguments, stdout=theirs, env=environment) as process:
        process.wait(timeout=60)
    return drawn_on(ours, theirs)


def test_values_are_json_and_strings_are_plain() -> None:
    values = [True, None, 0.5, "a b", {"a": [1]}]
    assert [value_text(each) for each in values] == ["true", "null", "0.5", "a b", '{"a": [1]}']
