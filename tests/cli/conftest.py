"""Fixtures for tests of commands: a working directory, its data directory, and a command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli
from detent.engine import Engine
from detent.gateway.auth import ensure_token
from detent.gateway.server import Server
from detent.operations.context import Core
from detent.service import announce
from detent.testing.conformance.work_actions import claim_one, complete, submit_job, submit_task
from tests.cli.databases import opened

Run = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory that commands find; nothing is in it yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def run(data: Path) -> Run:
    """Run a command and check its exit code."""

    def invoke(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == code, result.output + repr(result.exception)
        return result

    return invoke


@pytest.fixture
def job(data: Path) -> str:
    """A database with a job that has ended and a task that waits; the job's id."""
    with opened(data) as store:
        engine = Engine(store)
        made = submit_job(engine, payload={"secret": 1})
        complete(engine, claim_one(engine))
        submit_task(engine)
    return made


@contextmanager
def served(core: Core, data: Path) -> Iterator[None]:
    """A gateway that commands on this data directory use."""
    ensure_token(core)
    server = Server(core)
    announce(data, f"http://127.0.0.1:{server.start()}")
    try:
        yield
    finally:
        server.stop()


@pytest.fixture(params=["direct", "gateway"])
def ready(core: Core, data: Path, request: pytest.FixtureRequest) -> Iterator[Core]:
    """The module's `core`, which commands reach through the store and through a live gateway."""
    if request.param == "direct":
        yield core
        return
    with served(core, data):
        yield core
