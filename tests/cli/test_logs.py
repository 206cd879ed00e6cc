"""`detent logs` of an agent's run: a transcript for people and programs, or its raw lines."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result

from detent import service
from detent.cli.main import cli
from detent.engine import Claimed
from detent.kernel import commands as c
from detent.operations.run_output import MAX_BYTES, output_file
from tests.cli.terminal import drawn_on
from tests.gateway.installation import DEADLINE_S, Installation, installed
from tests.transcript.test_formats import example


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("gateway")
    with installed(directory) as installation:
        service.announce(directory, installation.url)
        yield installation


@pytest.fixture(autouse=True)
def _here(gateway: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(gateway.core.settings.data_dir))


def begun(gateway: Installation, output: bytes, *, agent: bool = True) -> tuple[Claimed, Path]:
    """A run that works, with this output; an agent's has a session."""
    made = gateway.client().post("/api/tasks", json={"intent": "runQA", "run": True}).json()
    claimed = gateway.claim(made["id"])
    run_id = str(claimed.job.run_id)
    if agent:
        gateway.report(c.OpenSession(claimed.grant, "s1", run_id))
    file = output_file(gateway.core.settings.data_dir, run_id)
    file.parent.mkdir(parents=True)
    file.write_bytes(output)
    return claimed, file


def ended(gateway: Installation, output: bytes, *, agent: bool = True) -> str:
    """The id of the task of a run that has ended."""
    claimed, _ = begun(gateway, output, agent=agent)
    gateway.report(c.CompleteRun(claimed.grant, str(claimed.job.run_id), None, 0))
    return str(claimed.job.task_id)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def on_a_terminal(*arguments: str) -> str:
    """What a command draws on a terminal, as lines without their trailing blanks."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "detent", *arguments]
    subprocess.run(command, stdout=theirs, env=environment, check=True, timeout=DEADLINE_S)
    return drawn_on(ours, theirs).replace("\r\n", "\n")


def test_a_terminal_shows_the_transcript(gateway: Installation) -> None:
    task_id = ended(gateway, example("claude"))
    lines = [line[9:] for line in on_a_terminal("logs", task_id).splitlines()]
    assert lines == [
        "session: opus · s1 · /repo",
        "turn 1: 5,209 tokens in",
        "thinking: Tests first.",
        "assistant: I run the tests.",
        "Bash pytest -q",
        "ls",
        "Bash → 1 failed",
        "[image]",
        "warning: something on stderr",
        "turn 2: 20 tokens in",
        "Edit a.py +1 −1",
        "@@ -1,2 +1,2 @@",
        " x = 1",
        "-y = 2",
        "+y = 3",
        "Edit → The file was updated.",
        "note: compact boundary",
        "note: api retry: overloaded",
        "turn 3: 30 tokens in · 2 out",
        "assistant: Done.",
        "note: Tools that were denied: WebFetch",
        "cost: Total so far · $0.2500 · 5,259 tokens in · 13 out",
    ]
    assert on_a_terminal("logs", "--raw", task_id) == example("claude").decode()


def test_a_pipe_gets_the_lines_as_they_are(gateway: Installation) -> None:
    task_id = ended(gateway, example("codex"))
    assert run("logs", task_id).stdout == example("codex").decode()


def test_items_as_json_lines_for_programs(gateway: Installation) -> None:
    task_id = ended(gateway, example("codex"))
    items = [json.loads(line) for line in run("logs", task_id, "--json").stdout.splitlines()]
    assert [each["number"] for each in items] == list(range(1, 14))
    assert items[3]["output"] == "a.py\n"
    chunks = [
        json.loads(line) for line in run("logs", task_id, "--json", "--raw").stdout.splitlines()
    ]
    assert "".join(each["text"] for each in chunks) == example("codex").decode()


def test_long_output_of_tools_is_folded_unless_all_is_wanted(gateway: Installation) -> None:
    result = {"type": "tool_result", "tool_id": "t", "output": "\n".join(map(str, range(50)))}
    task_id = ended(gateway, json.dumps(result).encode())
    shown = on_a_terminal("logs", task_id).splitlines()
    assert [each.strip() for each in shown] == [
        "result → 0",
        "1",
        "2",
        "3",
        "4",
        "… 45 more lines (--full)",
    ]
    assert len(run("logs", task_id, "--full").stdout.splitlines()) == 50


def test_search_prints_the_items_with_a_text(gateway: Installation) -> None:
    task_id = ended(gateway, example("claude"))
    assert run("logs", task_id, "--search", "FAILED").stdout.split() == [
        "Bash",
        "→",
        "1",
        "failed",
        "[image]",
    ]
    assert run("logs", task_id, "--search", "nowhere").stdout == ""
    refused = run("logs", task_id, "--search", "x", "--raw")
    assert refused.exit_code == 2
    assert "--raw cannot be combined" in refused.stderr


def test_other_runs_are_printed_as_they_are(gateway: Installation) -> None:
    task_id = ended(gateway, b'{"type": "turn.started"}\nplain\n', agent=False)
    assert on_a_terminal("logs", task_id) == '{"type": "turn.started"}\nplain\n'
    (chunk,) = [json.loads(line) for line in run("logs", task_id, "--json").stdout.splitlines()]
    assert chunk["text"].endswith("plain\n")
    assert run("logs", task_id, "--search", "plain").stdout.strip() == "plain"


def test_output_is_printed_to_its_end(gateway: Installation) -> None:
    task_id = ended(gateway, b"x" * (2 * MAX_BYTES) + b"\nend\n", agent=False)
    assert run("logs", task_id).stdout.endswith("x\nend\n")


def test_hostile_items_control_no_terminal(gateway: Installation) -> None:
    evil = "\x1b]0;title\x07\x1b[2Ja\u202eb\x00\rc\n\x9b31m"
    tool = {"type": "tool_use", "tool_name": evil, "tool_id": evil, "parameters": {"path": evil}}
    result = {"type": "tool_result", "tool_id": evil, "status": "error", "output": evil}
    lines = [tool, result, {"type": "message", "role": evil, "content": evil}]
    task_id = ended(gateway, "\n".join(map(json.dumps, lines)).encode() + evil.encode())
    drawn = on_a_terminal("logs", task_id, "--full")
    assert not set(drawn) & set("\x1b\x00\x07\r\x9b\u202e")
    assert "abc" in drawn


def test_a_name_cannot_look_like_another_item(gateway: Installation) -> None:
    name = "Read\n12:00:00 assistant: All tests pass."
    edit = {"path": name, "old_string": "a", "new_string": "a"}
    lines = [
        {"type": "tool_use", "tool_name": name, "tool_id": "t1", "parameters": {}},
        {"type": "tool_use", "tool_name": "edit", "tool_id": "t2", "parameters": edit},
        {"type": "message", "role": name, "content": "x"},
    ]
    task_id = ended(gateway, "\n".join(map(json.dumps, lines)).encode())
    assert len(run("logs", task_id, "--full").stdout.splitlines()) == 3


@contextmanager
def following(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "detent", "logs", "--follow", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.wait(DEADLINE_S) == 0


def item_from(pipe: IO[str] | None) -> Any:
    assert pipe is not None
    return json.loads(pipe.readline())


def test_a_live_run_is_followed_to_its_end(gateway: Installation) -> None:
    first, *rest = example("codex").splitlines(keepends=True)
    claimed, file = begun(gateway, first)
    with following(str(claimed.job.task_id), "--json") as process:
        assert item_from(process.stdout)["kind"] == "session"
        with file.open("ab") as output:
            output.write(b"".join(rest) + b"the end")
        kinds = [item_from(process.stdout)["kind"] for _ in range(12)]
        assert kinds[-1] == "error"
        gateway.report(c.CompleteRun(claimed.grant, str(claimed.job.run_id), None, 0))
        assert item_from(process.stdout)["text"] == "the end"
