"""What commands import: nothing that they do not use, so that they start fast."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port

#: Never needed to ask a store: servers, workers, clients, and what only a few commands draw with.
FOREIGN = (
    *("fastapi", "starlette", "uvicorn", "pydantic", "httpx2", "prometheus_client", "psutil"),
    *("mcp", "asyncio", "psycopg", "rich", "opentelemetry"),
    *("detent.gateway", "detent.worker", "detent.keeper", "detent.integrations"),
    *("detent.service", "detent.client", "detent.testing", "detent.demo"),
)
#: Not needed either by what asks no store.
OF_A_STORE = ("detent.operations", "detent.engine", "detent.store", "apsw", "msgspec")
#: The check of the sandbox belongs to the worker.
SANDBOX = ("detent.worker", "detent.worker.sandbox")

PROGRAM = """
import json, sys
from detent.cli.main import cli
try:
    cli(sys.argv[1:], prog_name="detent")
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(data: Path, *arguments: str) -> list[str]:
    """The modules that a command has imported by its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=data.parent,
        env={**os.environ, "DETENT_STORE_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stderr.splitlines()[-1])
    return names


def among(names: list[str], parts: tuple[str, ...]) -> list[str]:
    return [name for name in names for part in parts if name == part or name.startswith(f"{part}.")]


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "submit --help",
        "tasks --help",
        "watch --help",
        "up --help",
        "worker --help",
        "db --help",
        "export --help",
        "mcp --help",
        "config show",
        "config show --json",
        "lifecycle mapping",
        "completion bash",
    ],
)
def test_what_asks_no_store_imports_none(data: Path, command: str) -> None:
    names = imported(data, *command.split())
    assert "detent.cli.main" in names
    assert among(names, (*FOREIGN, *OF_A_STORE)) == []


def test_the_doctor_imports_no_app_and_no_engine(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_GATEWAY_PORT", str(free_port()))
    names = imported(data, "doctor")
    assert "detent.cli.doctor_checks" in names
    foreign = [name for name in among(names, FOREIGN) if name not in SANDBOX]
    assert foreign == []
    assert among(names, ("detent.operations", "detent.engine", "detent.app.app")) == []


@pytest.mark.parametrize(
    "command",
    [
        "submit runQA",
        "tasks",
        "jobs --json",
        "runs",
        "limits",
        "pause --all",
        "schedules",
        "inbox --json",
        "events",
        "health --json",
        "workers",
        "verify",
        "watch --once --json",
    ],
)
def test_what_asks_a_store_imports_no_server_and_no_worker(data: Path, command: str) -> None:
    names = imported(data, *command.split())
    assert "detent.operations" in names
    assert among(names, FOREIGN) == []


#: Prints how often Python has searched for garbage until a worker that has no work ends.
STARTED_WORKER = """
import atexit, gc
from detent.cli.main import main
searches = []
gc.callbacks.append(lambda phase, _: searches.append(phase))
atexit.register(lambda: print(len(searches), flush=True))
main()
"""


def test_a_worker_starts_without_a_search_for_garbage(data: Path) -> None:
    """Imports leave almost none, and each search goes through the objects that they have made."""
    done = subprocess.run(
        [sys.executable, "-c", STARTED_WORKER, "worker", "--once"],
        cwd=data.parent,
        env={**os.environ, "DETENT_STORE_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0"
