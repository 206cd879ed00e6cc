"""An installation of one's own for commands: a working directory, and its data below it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli

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
