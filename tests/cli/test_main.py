"""The root command: its table, its speed by not importing, and errors as one message."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from detent.cli import main
from detent.errors import Refused


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_of_the_table_exists_and_its_help_begins_with_the_tables(name: str) -> None:
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").startswith(main.COMMANDS[name].help)


def test_help_lists_the_commands_without_importing_them() -> None:
    program = (
        "import sys; from detent.cli.main import cli;"
        "cli(['--help'], standalone_mode=False);"
        "print(*sorted(m for m in sys.modules if m.startswith(('detent.cli.', 'rich'))))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for name, command in main.COMMANDS.items():
        assert f"  {name} " in shown
        assert command.help.split()[0] in shown
    own = ("command_table", "main", "option_names", "output", "target_options")
    assert shown.splitlines()[-1] == " ".join(f"detent.cli.{name}" for name in own)


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main.cli, ["lifecicle"])
    assert result.exit_code == 2
    assert "No such command 'lifecicle'" in result.stderr


def test_an_error_is_one_message_with_its_code_and_what_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @click.command()
    def fail() -> None:
        raise Refused("It is \x1b[31mtaken.", code="stale_fence", hint="Let it go.")

    monkeypatch.setitem(main.cli.commands, "fail", fail)
    result = CliRunner().invoke(main.cli, ["fail"])
    assert result.stdout == ""
    assert result.stderr == "detent: It is taken. [stale_fence]\n  Let it go.\n"
    assert result.exit_code == 1


def test_an_argument_that_is_not_text_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.argument("text")
    def encode(text: str) -> None:
        text.encode()

    monkeypatch.setitem(main.cli.commands, "encode", encode)
    result = CliRunner().invoke(main.cli, ["encode", "no\udc80such"])
    assert result.exit_code == 2
    assert r"'no\udc80such' is not valid in the encoding of the terminal" in result.stderr


def test_a_defect_is_not_taken_for_an_argument_that_is_not_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @click.command()
    def encode() -> None:
        "\xe9".encode("ascii")

    monkeypatch.setitem(main.cli.commands, "encode", encode)
    assert isinstance(CliRunner().invoke(main.cli, ["encode"]).exception, UnicodeEncodeError)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_does_not_fail_a_command(closed: str, tmp_path: Path) -> None:
    command = f'"$0" -m detent config show {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_the_module_is_the_program() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "detent", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert shown.startswith("detent, version ")
