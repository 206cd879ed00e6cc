"""The commands of a review: list, comment, reply, resolve, request changes."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from detent.cli.review_text import summary_lines
from detent.kernel import commands as c
from detent.operations.evidence import attach_evidence
from detent.operations.manual_runs import begin_run, end_run
from detent.service import open_core
from detent.settings_loader import load
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


# ---- detent review without a terminal ----------------------------------------------------------


def test_a_program_reads_comments_and_decides(run: Run, data: Path, task_id: str) -> None:
    run("comment", task_id, "app.py:2", "Why 3?")
    read = json.loads(run("review", task_id, "--json").stdout)
    assert read["comments"][0]["text"] == "Why 3?"
    assert read["diff"]["files"][0]["hunks"][0]["lines"][0]["text"] == "a = 1"
    plain = run("review", task_id).stdout
    assert "+b = 3\n    owner: Why 3?\n+c = 4\n" in plain
    assert f"diff:      {read['diff']['sha256']}, 1 file, +3 -2, 1 open comment\n" in plain
    given = [
        {"file": "app.py", "start": 3, "text": "Unused."},
        {"reply_to": read["comments"][0]["id"], "text": "Really."},
    ]
    Path("given.json").write_text(json.dumps(given))
    for _ in range(2):  # the second time, they are the same two drafts
        saved = run("review", task_id, "--comments", "given.json").stdout
        assert saved == "2 drafts saved.\n"
    assert run("comments", task_id).stdout.count("  draft  ") == 2
    old = read["diff"]["sha256"][:8]
    sent = run("review", task_id, "--request-changes", "-m", "See below.", "--diff", old)
    assert sent.stdout == f"{task_id}: queued\n"
    with local_installation(data) as place:
        CommentedTask(place, task_id).round(SECOND)
    refused = run("review", task_id, "--accept", "--diff", old, "--json", code=1)
    assert json.loads(refused.stderr)["files"] == ["app.py", "other.py"]
    again = ("--comments", "given.json", "--accept", "--json")
    decided = json.loads(run("review", task_id, *again).stdout)
    assert (decided["state"], len(decided["published"])) == ("completed", 2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[{]", "is not JSON"),
        ("[3]", "item 1 is not an object"),
        ('[{"file": "app.py"}]', "item 1 has no text"),
        ('[{"file": "app.py", "line": 2, "text": "x"}]', "not line = 2"),
        ('[{"file": "app.py", "start": true, "text": "x"}]', "not start = True"),
        (
            '[{"file": "app.py", "text": "x"}, {"file": "app.py", "start": 9, "text": "y"}]',
            "app.py:9",
        ),
        ('[{"reply_to": "none", "text": "x"}]', "there is no comment none"),
        ("│ draft none\nWhy?\n", "line 1: there is no draft none"),
        (b"\xff".decode("latin-1"), None),
    ],
)
def test_a_file_that_is_wrong_saves_nothing(
    run: Run, task_id: str, content: str, problem: str | None
) -> None:
    Path("given").write_text(content, "latin-1" if problem is None else "utf-8")
    refused = run("review", task_id, "--comments", "given", "--publish", code=2)
    assert (problem or "is not UTF-8 text") in refused.stderr
    assert run("comments", task_id).stdout == "No comments.\n"


@pytest.mark.parametrize("verb", ["accept", "reject", "request-changes"])
def test_a_verdict_names_the_diff_that_was_read(
    run: Run, data: Path, task_id: str, verb: str
) -> None:
    first = json.loads(run("comments", task_id, "--json").stdout)["diff"]
    with local_installation(data) as place:
        task = CommentedTask(place, task_id)
        place.clock.advance(seconds=1)
        task.call("request_changes", comment="again")
        second = task.round(SECOND)
    for earlier in (first, first[:8]):
        refused = run(verb, task_id, "--comment", "x", "--diff", earlier, code=1)
        assert "[diff_changed]" in refused.stderr
    for wrong in ("0" * 64, first[:7], ""):
        unknown = run(verb, task_id, "--comment", "x", "--diff", wrong, code=2)
        assert second in unknown.stderr
    run(verb, task_id, "--comment", "x", *(("--diff", second[:8]) if verb == "reject" else ()))
    logged = [json.loads(each) for each in run("events", task_id, "--json").stdout.splitlines()]
    named = [each["data"].get("diff") for each in logged if each["data"].get("comment") == "x"]
    assert named == [second]
    if verb != "request-changes":
        run(verb, task_id, "other", "--diff", second, code=2)


def test_the_findings_of_a_checker_are_shown() -> None:
    findings = [
        "slow",
        {"file": "app.py", "line": 9, "text": "Gone."},
        {"criterion": "Tests pass.", "message": "1 fails."},
        {"score": 3},
        {"criterion": "Two digits.", "ok": True},
        {"criterion": "No warnings.", "ok": False},
    ]
    notes = [{"finding": 2, "no_comment": "Line 9 is not in the diff."}]
    result = {"findings": findings, "line_comments": notes}
    check = {"checker": "checkFix", "state": "completed", "accept": False, "result": result}
    review: dict[str, Any] = {
        "title": "Fix",
        "task_id": "t",
        "intent": "fix",
        "state": "ready",
        "diff": None,
        "asked": {
            "payload": {"bug": "It is `off`.", "a": [1], "acceptance_criteria": ["Tests pass."]},
            "acceptance_criteria": ["Tests pass."],
        },
        "rounds": 1,
        "rounds_limit": 3,
        "cost_usd": 0.5,
        "tokens_in": 1200,
        "tokens_out": 7,
        "duration_ms": 90_000,
        "tests": [{"file": "test-results.json"}],
        "test_counts": {"passed": 41, "failed": 1},
        "check": check,
        "result": {"text": "done", "summary": "Rounded."},
    }
    assert [line.text for line in summary_lines(review)] == [
        "Fix",
        "t  fix  ready",
        "asked:     bug: It is `off`.",
        "           a: [1]",
        "criterion: Tests pass.",
        "round:     2 (1 request for changes of at most 3)",
        "cost:      $0.5000, 1,200 tokens in, 7 out, 1.5 min",
        "tests:     1 failed, 41 passed (test-results.json)",
        "checker:   checkFix does not accept the work",
        "finding:   slow",
        "finding:   app.py:9: Gone. (no comment: Line 9 is not in the diff.)",
        "finding:   Tests pass: 1 fails.",
        'finding:   {"score": 3}',
        "finding:   Two digits: fulfilled",
        "finding:   No warnings: not fulfilled",
        "result:    Rounded.",
    ]
