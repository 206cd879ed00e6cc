"""What `runQA` runs tells tests that pass from tests that fail and from none at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.wheel import Installed

TEST = "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        {body}\n"


@pytest.fixture(params=["pytest", "unittest"])
def python(request: pytest.FixtureRequest, installed: Installed) -> str:
    """A Python that has pytest, and one that has not."""
    return sys.executable if request.param == "pytest" else str(installed() / "python")


@pytest.mark.parametrize(
    ("files", "decision", "code"),
    [
        ({"test_it.py": TEST.format(body="pass")}, "PASS", 0),
        ({"test_it.py": TEST.format(body="self.fail()")}, "FAIL (exit code 1)", 1),
        ({"test_it.py": "x = 1\n"}, "NOTHING TO TEST", 0),
        ({"notes.txt": "nothing"}, "NOTHING TO TEST", 0),
        ({"qa.sh": "exit 5\n"}, "FAIL (exit code 5)", 5),
    ],
    ids=["passes", "fails", "empty", "unknown", "own"],
)
def test_what_is_decided(
    tmp_path: Path, python: str, files: dict[str, str], decision: str, code: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [python, "-m", "detent.qa"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert f"- Decision: {decision}" in (tmp_path / "QA-DECISION.md").read_text()
    assert done.stdout.endswith((tmp_path / "QA-DECISION.md").read_text())
