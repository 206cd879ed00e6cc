"""An installation of one's own for commands: a working directory, and its data below it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli
from detent.engine import Engine
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
    """Run a command, and expect how it ends."""

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
