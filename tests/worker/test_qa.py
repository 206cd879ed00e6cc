"""What `runQA` runs tells tests that pass from tests that fail and from none at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from detent.app.app import App
from detent.intent_config import STARTER
from detent.store.types import Query
from tests.plugins.wheel import Installed
from tests.worker.waiting import installation, until, working

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
        ({"test_it.py": "x = 1\n"}, "NOTHING TO TEST: no tests were found in /", 5),
        ({"notes.txt": "nothing"}, "NOTHING TO TEST: no tests were found in /", 5),
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


def test_without_pytest_the_report_says_how_tests_for_it_are_run(
    tmp_path: Path, python: str
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("def test_it():\n    assert True\n")
    done = subprocess.run(
        [python, "-m", "detent.qa"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    report = (tmp_path / "QA-DECISION.md").read_text()
    if python == sys.executable:
        assert (done.returncode, "- Decision: PASS" in report) == (0, True)
    else:
        assert done.returncode == 5
        assert f"NOTHING TO TEST: no tests were found in {tmp_path}" in report
        assert f"{python} has no pytest" in report


def test_the_sample_project_has_tests_that_pass(tmp_path: Path, python: str) -> None:
    (tmp_path / "test_it.py").write_text(TEST.format(body="self.fail()"))
    done = subprocess.run(
        [python, "-m", "detent.qa"],
        cwd=tmp_path,
        env={**os.environ, "DETENT_PROJECT": "demo"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "Ran 3 tests" in done.stderr
    report = (tmp_path / "QA-DECISION.md").read_text()
    assert "- Decision: PASS" in report
    assert "demo (the sample of detent)" in report


@pytest.mark.parametrize(("lifecycle", "state"), [("board", "blocked"), ("review", "failed")])
def test_a_task_with_nothing_to_test_fails_immediately_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifecycle: str, state: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with installation(tmp_path / "data") as core:
        app = App.from_config({"runQA": STARTER["runQA"]}).bind(core)
        core.intents = {"runQA": STARTER["runQA"]}
        with working(core, app):
            handle = app.submit("runQA", lifecycle=lifecycle)
            until(lambda: handle.state() == state, "the task has failed")
        task, job = handle.task(), handle.job()
        assert task is not None
        assert (job.state, job.attempt) == ("failed", 1)
        assert "NOTHING TO TEST" in str(job.error)
        assert "set `directory` of [intents.runQA]" in str(job.error)
        if lifecycle == "board":
            assert (task.blocked_by, task.retries_left) == ("error", 0)
        with core.store.read() as view:
            (kept,) = view.page(Query("evidence"))
        assert (kept["file"], kept["kind"]) == ("QA-DECISION.md", "qa_report")
