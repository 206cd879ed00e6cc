"""The commands of a review: list, comment, reply, resolve, request changes."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import Result

from detent.kernel import commands as c
from detent.operations.evidence import attach_evidence
from detent.operations.manual_runs import begin_run, end_run
from detent.service import open_core
from detent.settings import load
from tests.operations.commented_task import FIRST, SECOND, CommentedTask, lines
from tests.operations.installation import OWNER, local_installation

Run = Callable[..., Result]


@pytest.fixture
def task_id(data: Path) -> str:
    """A task with a diff, under review."""
    data.mkdir()
    with local_installation(data) as place:
        task = CommentedTask(place)
        task.round()
        return task.id


def test_a_review_from_the_command_line(run: Run, data: Path, task_id: str) -> None:
    assert run("comments", task_id).stdout == "No comments.\n"
    added = json.loads(run("comment", task_id, "app.py:2-3", "Why?", "--json").stdout)
    comment_id = added["comment_id"]
    run("comment", task_id, "app.py:1", "Gone?", "--before")
    run("comment", task_id, "app.py", "The whole file.")
    replied = run("reply", task_id, comment_id, "Because.")
    assert replied.stdout == f"Replied to comment {comment_id}.\n"
    shown = run("comments", task_id).stdout
    assert f"{comment_id}  open  app.py:2-3\n  > b = 3\n  > c = 4\n  owner: Why?\n" in shown
    assert "    owner: Because.\n" in shown
    assert "open  app.py:1 (before)\n  > a = 1\n  owner: Gone?\n" in shown
    assert "open  app.py\n  owner: The whole file.\n" in shown
    assert (
        run("request-changes", task_id, "--comment", "See below.").stdout == f"{task_id}: queued\n"
    )

    with local_installation(data) as place:
        task = CommentedTask(place, task_id)
        diff = task.round(SECOND)
        task.call("save_draft", OWNER, draft_id="d1", **lines(diff, start=1, end=1))
    again = run("comments", task_id).stdout
    assert f"{comment_id}  open  app.py:2-3  (outdated)\n" in again
    assert "d1  draft  app.py:1\n  Why 3?\n" in again
    assert run("resolve", task_id, comment_id).stdout == f"Comment {comment_id} is resolved.\n"
    assert f"{comment_id}  resolved" in run("comments", task_id).stdout
    assert run("resolve", task_id, comment_id, "--reopen").stdout.endswith("is open.\n")
    assert json.loads(run("comments", task_id, "--json").stdout)["diff"] == diff


def test_lines_that_do_not_exist_are_the_commands_error(run: Run, task_id: str) -> None:
    refused = run("comment", task_id, "app.py:99", "Why?", code=2)
    assert "Line 99 of 'app.py' is not in the diff" in refused.stderr
    assert "No comments." in run("comments", task_id).stdout
    assert "[unknown_comment]" in run("resolve", task_id, "none", code=3).stderr
    assert "[nothing_requested]" in run("request-changes", task_id, code=1).stderr


def test_a_task_without_a_diff_has_nothing_to_comment_on(run: Run, data: Path) -> None:
    data.mkdir()
    with local_installation(data) as place:
        task = CommentedTask(place)
        task.round(diff=None)
    assert "[no_diff]" in run("comment", task.id, "app.py:1", "Why?", code=1).stderr
    assert run("request-changes", task.id, "--comment", "Again.").stdout == f"{task.id}: queued\n"


def test_comments_are_exported_with_their_task(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_core(load()) as core:
        task_id = "t"
        submitted = c.SubmitTask(task_id, "p", "review", "runQA", "cli", queue=True)
        core.engine.do(submitted, OWNER.actor)
        begin_run(core, OWNER, job_id="t-j1")
        attach_evidence(core, OWNER, "t-j1-r1", "changes.diff", BytesIO(FIRST.encode()))
        end_run(core, OWNER, run_id="t-j1-r1", exit_code=0)
    comment_id = json.loads(run("comment", task_id, "app.py:2", "Why?", "--json").stdout)
    run("accept", task_id)
    before = json.loads(run("comments", task_id, "--json").stdout)
    run("at", task_id, "--position", "1000")
    run("export", task_id, "task.zip")
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path / "elsewhere"))
    run("import", "task.zip")
    assert json.loads(run("comments", task_id, "--json").stdout) == before
    resolved = run("resolve", task_id, comment_id["comment_id"])
    assert "is resolved" in resolved.stdout
    assert "Clean" in run("verify").stdout
