"""`detent completion`: the completions that real shells offer on Tab."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.terminal import DEADLINE_S, Terminal

#: What is typed, and the one word that completes it.
CASES = [("subm", "submit"), ("db ba", "backup"), ("submit --prio", "--priority")]


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """One in which the shells find a program of that name: they ask it for every word."""
    program = tmp_path / "bin" / "detent"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m detent "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def output_of(environment: Mapping[str, str], *argv: str) -> str:
    return subprocess.run(
        argv, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S
    ).stdout


# ---- bash --------------------------------------------------------------------------------------

#: What bash does on the tabulator: words as typed, the last one unfinished.
TABULATOR = """
eval "$(detent completion bash)"
function=$(complete -p detent | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$function detent "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_bash_completes(environment: Mapping[str, str], typed: str, offered: str) -> None:
    words = typed.split()
    assert output_of(environment, "bash", "-c", TABULATOR, "bash", "detent", *words).split() == [
        offered
    ]


def test_bash_completes_commands_without_importing_them() -> None:
    bash = shutil.which("bash")
    environment = {**os.environ, "COMP_WORDS": "detent ta", "COMP_CWORD": "1"}
    environment |= {"_DETENT_COMPLETE": "bash_complete"}
    shown = subprocess.run(
        [sys.executable, "-m", "detent"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert bash is not None
    assert shown == "plain,tasks\n"


# ---- fish --------------------------------------------------------------------------------------

ASKED = 'detent completion fish | source; complete --do-complete "detent $argv"'


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_fish_completes(environment: Mapping[str, str], typed: str, offered: str) -> None:
    (line,) = output_of(environment, "fish", "--no-config", "-c", ASKED, typed).splitlines()
    assert line.split("\t")[0] == offered


def test_fish_shows_a_description_whole(environment: Mapping[str, str]) -> None:
    line = output_of(environment, "fish", "--no-config", "-c", ASKED, "stats").strip()
    assert line == "stats\tShow throughput, success rate, durations, cost and queue age."


# ---- zsh ---------------------------------------------------------------------------------------

SET_UP = 'autoload -Uz compinit && compinit -D && eval "$(detent completion zsh)"; echo all-"set"'


def test_zsh_completes(environment: Mapping[str, str]) -> None:
    zsh = shutil.which("zsh")
    assert zsh is not None, "the tests need zsh"
    terminal = Terminal([zsh, "-f", "-i"], {**environment, "TERM": "dumb"})
    try:
        terminal.types(f"{SET_UP}\n", until="all-set")
        for typed, offered in CASES:
            terminal.types(f"detent {typed}\t", until=f"{offered} ")
            terminal.types("\x15", until="\r")
    finally:
        terminal.types("\x15exit\n")
        terminal.end()


# ---- any ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_program(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    assert "_DETENT_COMPLETE" in script
    assert json.loads(run("completion", shell, "--json").stdout)["script"] in script
