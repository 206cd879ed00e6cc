"""`detent lifecycle check` with documents."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli

DOCUMENTS = Path(__file__).parent / "documents"
RELEASE = (DOCUMENTS / "release.toml").read_text(encoding="utf-8")


def check(path: Path | str, *more: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["lifecycle", "check", str(path), *more], input=stdin)


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_correct_document_is_searched() -> None:
    result = check(DOCUMENTS / "release.toml")
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert first == "release: no errors"
    assert second.startswith("search: ")
    assert " states (all of them), depth " in second
    assert second.endswith(", bound 20000: no violation")


def test_the_bound_is_shown() -> None:
    result = check(DOCUMENTS / "release.toml", "--max-states", "50")
    assert result.exit_code == 0
    wanted = "search: 50 states (the bound was reached; there are more), depth "
    assert result.stdout.splitlines()[1].startswith(wanted)


def test_flaws_have_line_and_field(tmp_path: Path) -> None:
    text = RELEASE.replace('then = ["task_ready"]', "then = []")
    result = check(written(tmp_path, text))
    assert result.exit_code == 1
    line = text.split("\n").index("then = []") + 1
    assert f"mine.toml:{line}: rules[1].then: After job_completed" in result.stdout
    assert result.stdout.splitlines()[-1] == "release: 2 errors; not searched"
    plain = json.loads(check(written(tmp_path, text), "--json").stdout)["lifecycles"][0]
    assert plain["search"] is None
    assert {"line": line, "rule": "rule-stays"}.items() <= plain["flaws"][1].items()


def test_stdin_is_read() -> None:
    assert check("-", stdin=RELEASE).exit_code == 0
    assert check("-", stdin=RELEASE.replace("draft", "moon", 1)).exit_code == 1


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (RELEASE.replace("limit = 2", "most = 2").encode(), 2, 7),
        (RELEASE.replace("[states.released]", "[states.draft]").encode(), 2, 28),
        (RELEASE.encode() + b"# " + b"x" * 70_000, 5, 121),
    ],
)
def test_unreadable_documents(tmp_path: Path, content: bytes, code: int, line: int) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    result = check(path, "--json")
    assert result.exit_code == code
    error = json.loads(result.stderr)
    assert error["detail"].startswith(f"mine.toml:{line}: ")
    assert error["line"] == line


def test_text_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff")
    assert check(path).exit_code == 2
