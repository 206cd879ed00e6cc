"""With --json whatever goes wrong is one line of JSON on stderr, and nothing on stdout."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import COMMANDS, cli

Run = Callable[..., Result]


@pytest.mark.parametrize(
    ("command", "exit_code", "code"),
    [
        ("--json", 2, "invalid"),
        ("--nonsense --json", 2, "invalid"),
        ("nonsense --json", 2, "invalid"),
        ("schedules nonsense --json", 2, "invalid"),
        ("submit --json", 2, "invalid"),
        ("tasks --json --limit x", 2, "invalid"),
        ("tasks --json --limit", 2, "invalid"),
        ("pause --json", 2, "invalid"),
        ("completion --json", 2, "invalid"),
        ("submit nosuchintent --json", None, "unknown_intent"),
        ("show unknown --json", None, "unknown_task"),
        ("tasks --json --state nonsense", None, "unknown_state"),
        ("lifecycle show nonsense --json", None, "unknown_lifecycle"),
        ("schedules next nothing --json", None, "not_found"),
        ("import --json missing.zip", 2, "invalid"),
    ],
)
def test_an_error_is_one_line_of_json(
    run: Run, data: Path, command: str, exit_code: int | None, code: str
) -> None:
    result = CliRunner().invoke(cli, command.split())
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    error = json.loads(line)
    assert (error["code"], error["exit_code"]) == (code, result.exit_code)
    assert result.exit_code == (exit_code or error["exit_code"]) != 0
    assert error["detail"]
    assert "hint" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_an_unknown_option_in_json(run: Run, command: str) -> None:
    result = CliRunner().invoke(cli, [command, "--json", "--no-such-option"])
    (line,) = result.stderr.splitlines()
    assert (result.exit_code, json.loads(line)["code"]) == (2, "invalid")
    assert result.stdout == ""


def test_an_error_names_the_field_and_what_is_allowed(run: Run, data: Path) -> None:
    error = json.loads(run("submit", "nosuchintent", "--json", code=2).stderr)
    assert (error["field"], error["given"]) == ("intent", "nosuchintent")
    assert "runQA" in error["allowed"]


def test_without_json_errors_are_for_people(run: Run, data: Path) -> None:
    assert run("show", "unknown", code=3).stderr.startswith("detent: There is no task")
    assert "No such command" in run("nonsense", code=2).stderr


def test_what_comes_after_two_dashes_is_no_option(run: Run, data: Path) -> None:
    assert run("show", "--", "--json", code=3).stderr.startswith("detent: There is no task")
