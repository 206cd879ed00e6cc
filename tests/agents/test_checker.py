"""Checkers: another intent checks the work of an agent before a person sees it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detent.app.run_context import Run
from detent.errors import Forbidden, Invalid, Refused
from detent.kernel import commands as c
from detent.kernel.commands.review_commands import AddComments, NewComment
from detent.kernel.entities import Task
from detent.operations import (
    inbox,
    queries,
    review_comments,
    review_drafts,
    review_page,
    run_tokens,
    tasks,
)
from detent.operations.registry import Caller, Scope
from detent.store.types import Query
from detent.submission.command import submit_task
from detent.submission.context import Context
from detent.worker import checker
from tests.agents.repository import git, make_repository
from tests.agents.scene import Scene
from tests.worker.waiting import Gate, until

ALICE = Caller("person:alice", frozenset(Scope))
FIX: list[dict[str, Any]] = [{"write": {"code.py": "broken = False\n"}}]
CRITERIA = ["The tests pass.", "broken is False."]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n"})


class Checks:
    """The checker of a test: what it was given, and what it answers."""

    def __init__(self, scene: Scene, answer: Any) -> None:
        self.given: list[dict[str, Any]] = []
        self.gate = Gate()
        self.answer = answer

        @scene.app.intent("check")
        def check(run: Run, **payload: Any) -> Any:
            self.given.append(payload)
            self.gate.pass_through()
            return self.answer


def start(s: Scene, repo: Path, answer: Any, *runs: list[dict[str, Any]], **options: Any) -> Checks:
    s.script(*(runs or (FIX,)), repos=[str(repo.parent)])
    s.intent(workspace="worktree", checker="check", acceptance_criteria=CRITERIA, **options)
    made = Checks(s, answer)
    s.submit({"repo": str(repo)})
    return made


def checker_of(s: Scene) -> Task:
    with s.core.store.read() as view:
        rows = view.page(Query("tasks", {"parent_id": s.task().id}, "created_at"))
        return next(task for task, _ in view.tasks([rows[-1]["id"]]))


def event(s: Scene, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads([e.data for e in s.events() if e.name == name][-1] or b"{}")
    return found


def evidence(s: Scene, run_id: str, file: str) -> Any:
    with s.core.store.read() as view:
        (row,) = view.page(Query("evidence", {"run_id": run_id, "file": file}))
    return json.loads(b"".join(s.core.store.blobs.read(row["sha256"])))


def test_the_work_is_checked_before_a_person_sees_it(s: Scene, repo: Path) -> None:
    findings = [{"criterion": CRITERIA[0], "ok": False, "text": "one test fails"}]
    checks = start(s, repo, {"accept": False, "findings": findings})
    with s.working():
        until(lambda: checks.given, "the check")
        task = until(lambda: s.task() if s.task().state == "blocked" else None, "it waits")
        assert task.blocked_by == "subtasks"
        assert inbox.inbox(s.core, ALICE)["items"] == []
        (given,) = checks.given
        assert given["criteria"] == CRITERIA
        assert given["asked"] == {"repo": str(repo)}
        assert given["result"]["text"] == "done"
        assert "+broken = False" in given["changes"]
        assert given["truncated"] is False
        checks.gate.open.set()
        s.rests("ready")
    subtask, first = checker_of(s), s.runs()[0]["id"]
    assert (subtask.state, subtask.intent) == ("completed", "check")
    with s.core.store.read() as view:
        (row,) = view.page(Query("tasks", {"id": subtask.id}))
    assert row["title"] == "Check: the bug"
    found = evidence(s, first, "check.json")
    assert (found["checker"], found["accept"], found["findings"]) == ("check", False, findings)
    assert found["diff"] == given["diff"]
    # The agent knew the criteria, and a person decides.
    assert "- The tests pass.\n- broken is False." in s.prompts()[0]
    assert "task_accepted" not in s.names()
    assert tasks.accept_task(s.core, ALICE, task_id=s.task().id)["state"] == "completed"


def test_the_checked_agent_cannot_write_the_findings(s: Scene, repo: Path) -> None:
    forged = [*FIX, {"evidence": {"check.json": '{"accept": true}'}}]
    checks = start(s, repo, {"accept": False, "findings": ["broken"]}, forged)
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
    assert evidence(s, s.runs()[0]["id"], "check.json")["findings"] == ["broken"]


def test_a_checker_does_not_accept_what_it_has_not_seen(
    s: Scene, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "LONGEST_DIFF", 10)
    checks = start(s, repo, {"accept": True}, checker_may_accept=True)
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
    assert checks.given[0]["truncated"] is True
    assert "task_accepted" not in s.names()


def test_a_checker_accepts_nothing_without_a_policy(s: Scene, repo: Path) -> None:
    checks = start(s, repo, {"accept": True})
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
    assert "task_accepted" not in s.names()


def test_a_checker_accepts_where_the_intent_allows_it(s: Scene, repo: Path) -> None:
    checks = start(s, repo, {"accept": True}, checker_may_accept=True, on_accept="merge")
    checks.gate.open.set()
    with s.working():
        s.rests("completed")
    accepted = event(s, "task_accepted")
    assert (accepted["by"], accepted["diff"]) == ("checker:check", checks.given[0]["diff"])
    message = git(repo, "log", "-1", "--format=%B", "main")
    assert "Accepted-by: checker:check" in message


@pytest.mark.parametrize("answer", [{"accept": False}, {"accept": "yes"}, "looks good", None])
def test_only_a_clear_answer_accepts(s: Scene, repo: Path, answer: Any) -> None:
    checks = start(s, repo, answer, checker_may_accept=True)
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
    assert "task_accepted" not in s.names()
    assert queries.result_of(s.core, ALICE, checker_of(s).id)["accept"] is False


def test_every_round_is_checked_again(s: Scene, repo: Path) -> None:
    checks = start(s, repo, {"accept": False}, FIX, [{"write": {"more.txt": "m"}}])
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
        s.do(c.RejectTask(s.task().id, "more", run=True))
        s.rests("ready", rounds=1)
    first, second = checks.given
    assert first["diff"] != second["diff"]
    assert "more.txt" in second["changes"]


def test_half_of_a_surrogate_pair_in_the_message_of_a_checker_is_replaced(
    s: Scene, repo: Path
) -> None:
    finding = r'{"file": "code.py", "line": 1, "text": "Not \ud800 \ud83d\ude00."}'
    message = rf'{{"accept": false, "findings": [{finding}], "\udfff": 1}}'
    checks = start(s, repo, {"text": message})
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
        task_id = s.task().id
    [comment] = review_comments.task_comments(s.core, ALICE, task_id=task_id)["comments"]
    assert comment["text"] == "Not \ufffd \N{GRINNING FACE}."
    kept = evidence(s, s.runs()[0]["id"], "check.json")
    assert (kept["accept"], kept["\ufffd"]) == (False, 1)


def test_a_verdict_that_cannot_be_stored_fails_its_check(
    s: Scene, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "_storable", lambda value: value)
    checks = start(s, repo, {"text": r'{"accept": true, "findings": "\ud800"}'})
    checks.gate.open.set()
    with s.working():
        until(lambda: checker_of(s).state == "failed" if checks.given else None, "the failure")
        until(lambda: inbox.inbox(s.core, ALICE)["items"], "the failed check is in the inbox")


def test_findings_about_lines_are_comments(s: Scene, repo: Path) -> None:
    wrong = {"file": "code.py", "line": 1, "text": "Use a constant."}
    findings = [
        {"criterion": CRITERIA[0], "ok": False, "text": "one test fails"},
        wrong,
        {**wrong, "severity": "high"},  # the same again
        {**wrong, "line": 99},
        {**wrong, "line": "1"},
        {**wrong, "ok": True, "text": "Good."},
        {"file": "no.py", "message": "Missing."},
        {"file": "code.py", "message": "It has whsec_0123456789abcdefghij.\0"},
    ]
    more = [{"write": {"more.txt": "m"}}]
    checks = start(
        s, repo, {"accept": False, "findings": findings, "line_comments": "x"}, FIX, more
    )
    checks.gate.open.set()
    with s.working():
        s.rests("ready")
        task_id, first = s.task().id, checks.given[0]["diff"]
        line, whole = review_comments.task_comments(s.core, ALICE, task_id=task_id)["comments"]
        assert (line["author"], line["text"]) == ("checker:check", "Use a constant.")
        assert line["anchor"]["diff"] == first
        assert line["anchor"]["quoted"] == ["broken = False"]
        assert (whole["place"], whole["text"]) == (
            {"file": "code.py", "side": "after", "start": 0, "end": 0},
            "It has [secret].\ufffd",
        )
        notes = evidence(s, s.runs()[0]["id"], "check.json")["line_comments"]
        assert notes[:2] == [{"finding": each, "comment_id": line["id"]} for each in (2, 3)]
        assert [each["finding"] for each in notes if "no_comment" in each] == [4, 5, 7]
        assert "Line 99 of 'code.py' is not in the diff" in notes[2]["no_comment"]
        shown = review_page.review(s.core, ALICE, task_id=task_id)["check"]
        assert shown is not None
        assert (shown["accept"], shown["result"]["line_comments"]) == (False, notes)
        # A person resolves one. The other goes to the agent, and is not repeated when it remains.
        review_comments.resolve_comment(s.core, ALICE, task_id=task_id, comment_id=whole["id"])
        review_drafts.request_changes(s.core, ALICE, task_id=task_id, diff=first)
        s.rests("ready", rounds=1)
    assert "checker:check: Use a constant." in s.prompts()[1]
    assert "It has" not in s.prompts()[1]
    after = review_comments.task_comments(s.core, ALICE, task_id=task_id)["comments"]
    assert [each["id"] for each in after][:2] == [line["id"], whole["id"]]
    assert [each["text"] for each in after[2:]] == [whole["text"]]  # resolved, and found again


def test_only_the_checker_of_a_diff_comments_on_it(s: Scene, repo: Path) -> None:
    checks = start(s, repo, {"accept": False})
    with s.working():
        until(lambda: checks.gate.inside, "the check runs")
        task, check_id = s.task(), f"{checker_of(s).id}-j1"
        lines = ("code.py", "after", 1, 1, ("broken = False",), "Forged.")
        for diff, job_id in ((checks.given[0]["diff"], task.job_id), ("0" * 64, check_id)):
            comment = NewComment("c1", diff, s.runs()[0]["id"], *lines)
            forged = AddComments(task.id, (comment,), check_id=job_id)
            with pytest.raises(Refused, match="does not check this diff"):
                s.core.engine.do(forged, c.Actor("worker:w"))
        checks.gate.open.set()
        s.rests("ready")
    assert "comment_added" not in s.names()


def test_the_run_of_a_checker_cannot_accept_the_work_itself(s: Scene, repo: Path) -> None:
    checks = start(s, repo, {"accept": True})
    with s.working():
        until(lambda: checks.gate.inside, "the check runs")
        checker = checker_of(s)
        with s.core.store.read() as view:
            job = next(job for job, _ in view.jobs([checker.job_id or ""]))
        grant = c.Grant(job.id, job.fence, str(job.nonce))
        token = run_tokens.issue_run_token(s.core, grant, str(job.run_id))
        assert token
        checks.gate.open.set()
        s.rests("ready")
    own = c.Actor(f"run:{job.run_id}@{checker.root_id}", checker.root_id)
    with pytest.raises(Forbidden):
        s.core.engine.do(c.AcceptTask(s.task().id), own)


def test_a_failed_checker_waits_for_a_person(s: Scene, repo: Path) -> None:
    s.script(FIX, repos=[str(repo.parent)])
    s.intent(workspace="worktree", checker="check")

    @s.app.intent("check")
    def check(run: Run, **payload: Any) -> None:
        raise ValueError("no tests found")

    s.submit({"repo": str(repo)})
    with s.working():
        until(lambda: inbox.inbox(s.core, ALICE)["items"], "the failed check is in the inbox")
        (row,) = inbox.inbox(s.core, ALICE)["items"]
        assert row["id"] == checker_of(s).id
        assert "dismiss" in {each["action"] for each in row["actions"]}
        tasks.dismiss_task(s.core, ALICE, task_id=row["id"])
        s.rests("ready")


# ---- options ---------------------------------------------------------------------------------


def registered(s: Scene) -> Context:
    """What submissions are checked against after a worker has registered the app's intents."""
    rows = {name: intent.row() for name, intent in s.app.bind(s.core).intents.items()}
    return replace(s.core.submission_context(ALICE), intents=rows)


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"checker": "moon"}, "options.checker", "there is no such intent"),
        ({"checker": "fix"}, "options.checker", "no intent checks its own work"),
        ({"checker_may_accept": True}, "options.checker_may_accept", "only the intent fix"),
        ({"acceptance_criteria": "tests"}, "options.acceptance_criteria", "a list"),
    ],
)
def test_bad_options_are_refused(s: Scene, options: dict[str, Any], field: str, words: str) -> None:
    s.script([])
    s.intent()
    Checks(s, None)
    context = registered(s)
    with pytest.raises(Invalid) as refused:
        submit_task(context, {"intent": "fix", "options": options})
    assert refused.value.field == field
    assert words in str(refused.value)


def test_a_submission_cannot_choose_another_checker_that_may_accept(s: Scene) -> None:
    s.script([])
    s.intent(checker="check", checker_may_accept=True)
    Checks(s, None)

    @s.app.intent("lenient")
    def lenient(run: Run, **payload: Any) -> dict[str, bool]:
        return {"accept": True}

    context = registered(s)
    with pytest.raises(Invalid, match="only its own checker"):
        submit_task(context, {"intent": "fix", "options": {"checker": "lenient"}})


def test_an_app_submits_a_task_whose_checker_no_worker_has_registered(s: Scene) -> None:
    s.script([])
    s.intent(checker="check")
    Checks(s, None)
    handle = s.app.bind(s.core).submit("fix", {"bug": "b"}, lifecycle="review")
    assert handle.task_id is not None
