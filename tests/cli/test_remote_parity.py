"""Every command with a gateway on another machine: none opens a store of this machine."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from detent.cli.main import COMMANDS, cli
from detent.cli.remote_gateway import RemoteGateway
from detent.client import Client
from detent.demo.processes import DemoProcesses
from detent.http_requests import Request
from tests.cli.gateway_process import GatewayProcess, gateway_process

LIFECYCLE = "lifecycle.toml"

#: Commands that send requests, and the exit code: 0, or that of the gateway's refusal.
REMOTE = {
    "dashboard --no-open": 0,
    "submit runQA": 0,
    "wait {task} --timeout 0": 15,
    "run {held}": 0,
    "cancel {queued}": 0,
    "retry {task}": 1,
    "resume {task}": 1,
    "accept {task}": 1,
    "reject {task} --comment no": 1,
    "review {task}": 0,
    "comments {task}": 0,
    "comment {task} a.py:1 text": 1,
    "reply {task} {task} text": 3,
    "resolve {task} {task}": 3,
    "request-changes {task}": 1,
    "answer {task} yes": 1,
    "variants {task}": 0,
    "choose {task} 1": 1,
    "signal {task} go": 0,
    "send {task} task_approved": 2,
    "dismiss {task}": 1,
    "delete {task}": 1,
    "raise {task} 5": 0,
    "fork {job} first": 3,
    "inbox --json": 0,
    "assign {task} ada": 0,
    "snooze {task} 2h": 0,
    "pause --intent runQA": 0,
    "unpause --intent runQA": 0,
    "tasks": 0,
    "tasks create runQA": 0,
    "tasks set {task} --title New": 0,
    "jobs": 0,
    "runs": 0,
    "runs create {task}": 0,
    "runs update {job}-r1 succeeded": 0,
    "steps {task}": 0,
    "show {task}": 0,
    "why {task}": 0,
    "costs {task}": 0,
    "at {task} --position 1": 0,
    "watch --once": 0,
    "logs {task}": 0,
    "evidence list {task}": 0,
    "evidence add {job}-r1 file.txt": 0,
    "diff {task}": 3,
    "events": 0,
    "health": 0,
    "stats": 0,
    "state get": 0,
    "state set colour blue": 0,
    "resources": 0,
    "resources put gpu": 0,
    "resources drain gpu": 0,
    "resources undrain gpu": 0,
    "resources reset gpu": 1,
    "resources delete gpu": 0,
    "workers": 0,
    "workers drain unknown": 3,
    "workers undrain unknown": 3,
    "schedules": 0,
    "schedules put nightly runQA --cron '0 3 * * *'": 0,
    "schedules pause nightly": 0,
    "schedules resume nightly": 0,
    "schedules trigger nightly": 0,
    "schedules next nightly": 0,
    "schedules delete nightly": 0,
    "projects": 0,
    "projects create demo": 0,
    "projects quota demo --weight 2": 0,
    "projects show demo": 0,
    "intents": 0,
    "limits": 0,
    "tokens": 0,
    "tokens create ci --scope read": 0,
    "tokens revoke ci": 0,
    "sessions": 0,
    "sessions end unknown": 3,
    "webhooks": 0,
    "webhooks put hook https://example.com/": 0,
    "webhooks deliveries hook": 0,
    "webhooks test hook": 0,
    "webhooks rotate hook": 0,
    "webhooks replay hook --after 0": 0,
    "webhooks delete hook": 0,
    "import lines.jsonl": 0,
    "lifecycle list": 0,
    "lifecycle install lifecycle.toml": 0,
    "lifecycle migrate delivery": 0,
    "lifecycle remove delivery": 0,
    "context add other --url {url} --token {token}": 0,
    "login {url} --token {token} --name again": 0,
    "doctor": 0,
    "users": 0,
    "users remove unknown": 3,
    "logout again": 0,
}
#: Commands that work only on the machine of the installation.
LOCAL = [
    "up",
    "serve",
    "worker",
    "keeper",
    "probe gateway",
    "notion sync --once",
    "verify",
    "rebuild",
    "export {task} task.zip",
    "import archive.zip",
    "gc",
    "db init",
    "db upgrade",
    "db status",
    "db sql",
    "db backup copy.db",
    "db restore copy.db",
    "db move postgresql://localhost/x",
    "db trim",
    "db clock",
]
#: Commands that need no gateway and no store.
NEITHER = [
    "init project",
    "agents",
    "config show",
    "completion bash",
    "context list",
    "context show",
    "context use local",
    "context remove other",
    "lifecycle check lifecycle.toml",
    "lifecycle show review",
    "lifecycle mapping",
    "lifecycle diagram review",
    "lifecycle simulate review task_created task_queued",
    "lifecycle export review",
]
#: Tested elsewhere: the demo has an installation and an environment of its own.
ELSEWHERE = ["mcp", "demo"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway_process(tmp_path_factory.mktemp("gateway") / "server") as running:
        yield running


@pytest.fixture(scope="module")
def values(gateway: GatewayProcess) -> dict[str, str]:
    """What the placeholders of the command lines are."""
    with Client(gateway.url, gateway.token) as client:
        task = client.call("submit_task", intent="runQA", run=True)["id"]
        queued = client.call("submit_task", intent="runQA", run=True)["id"]
        held = client.call("submit_task", intent="runQA")["id"]
        job = client.call("show_task", task_id=task)["job_id"]
    return {"task": task, "queued": queued, "held": held, "job": job, **gateway._asdict()}


@pytest.fixture
def home(tmp_path: Path, gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; the working directory is another one."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "DETENT_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DETENT_URL", gateway.url)
    monkeypatch.setenv("DETENT_TOKEN", gateway.token)
    (here / "file.txt").write_text("text")
    (here / "archive.zip").write_bytes(b"PK\x03\x04")
    (here / "lines.jsonl").write_text(
        '{"taskId": "t1", "source": "cli", "intent": "runQA", "priority": "P1", "payload": {}}\n'
    )
    (here / "copy.db").write_bytes(b"")
    source = Path(__file__).parents[2] / "docs" / "howto" / "own-lifecycle.md"
    (here / LIFECYCLE).write_text(
        source.read_text().split("```toml")[1].split("\n", 1)[1].split("```")[0]
    )
    return home


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that the commands send."""
    found: list[str] = []
    send = RemoteGateway._exchange

    def spy(self: RemoteGateway, request: Request) -> tuple[int, bytes]:
        found.append(f"{request.method} {request.target}")
        return send(self, request)

    monkeypatch.setattr(RemoteGateway, "_exchange", spy)
    return found


def leaves(command: click.Command, path: str) -> Iterator[str]:
    """The names of a command that can be run: its subcommands, and itself if it runs alone."""
    if not isinstance(command, click.Group):
        yield path
        return
    if command.invoke_without_command:
        yield path
    for name, each in command.commands.items():
        yield from leaves(each, f"{path} {name}")


def files(home: Path) -> list[str]:
    return sorted(str(each.relative_to(home)) for each in home.rglob("*") if each.is_file())


def test_every_command_is_in_one_of_the_tables() -> None:
    context = click.Context(cli)
    known: set[str] = set()
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        known |= set(leaves(command, name))
    listed = [*REMOTE, *LOCAL, *NEITHER, *ELSEWHERE]
    named = {
        max((each for each in known if f"{line} ".startswith(f"{each} ")), key=len)
        for line in listed
    }
    assert named == known


def run(line: str, values: dict[str, str]) -> tuple[int, str]:
    result = CliRunner().invoke(cli, shlex.split(line.format_map(values)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_commands_about_work_are_sent_to_the_gateway(
    home: Path, values: dict[str, str], sent: list[str]
) -> None:
    wrong = {}
    for line, code in REMOTE.items():
        sent.clear()
        ended, text = run(line, values)
        if ended != code or not sent:
            wrong[line] = (ended, len(sent), text)
    assert not wrong, "\n".join(f"{line}: {found}" for line, found in wrong.items())
    assert files(home) == [".config/detent/contexts.json"]


@pytest.mark.parametrize("line", LOCAL)
def test_commands_about_this_machine_are_refused(
    home: Path, values: dict[str, str], line: str
) -> None:
    code, text = run(line, values)
    assert (code, "[only_local]" in text) == (1, True), text
    assert f"DETENT_URL names the gateway at {values['url']}" in text
    assert "add --local" in " ".join(text.split())
    assert files(home) == []


def test_commands_that_need_no_gateway_work_without_one(
    home: Path, values: dict[str, str], sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("context add other --no-check --url {url} --token {token}", values)
    for name in ("DETENT_URL", "DETENT_TOKEN"):
        monkeypatch.delenv(name)
    run("context use other", values)
    ended = {line: run(line, values) for line in NEITHER}
    wrong = {line: found for line, found in ended.items() if found[0] != 0}
    assert not wrong, "\n".join(f"{line}: {found}" for line, found in wrong.items())
    assert sent == []
    assert files(home) == [".config/detent/contexts.json"]


def test_the_local_installation_is_used_with_the_option(
    home: Path, values: dict[str, str], sent: list[str]
) -> None:
    assert run("db init --local", values)[0] == 0
    assert run("tasks --local", values)[0] == 0
    assert sent == []
    assert ".local/share/detent/detent.db" in files(home)


def test_mcp_uses_the_gateway(home: Path) -> None:
    requests = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list_tasks", "arguments": {}},
        },
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "detent", "mcp"],
        env={**os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(json.dumps(each) + "\n" for each in requests))
    process.stdin.flush()
    found: dict[str, object] = {}
    while found.get("id") != 2:
        found = json.loads(process.stdout.readline())
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    assert "runQA" in json.dumps(found)
    assert files(home) == []


def test_the_demo_has_its_own_installation(home: Path, tmp_path: Path) -> None:
    environment = DemoProcesses(tmp_path).environment
    assert not {"DETENT_URL", "DETENT_TOKEN"} & environment.keys()
    assert environment["DETENT_CONTEXT"] == "local"
