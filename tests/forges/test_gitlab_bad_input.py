"""What goes wrong between detent and GitLab: a state that names the cause, and a next action."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.operations.queries import why
from detent.operations.registry import Caller
from tests.agents.repository import git
from tests.agents.scene import Step
from tests.forges.case_world import CaseWorld, case_world

CHANGE: list[Step] = [{"write": {"code.py": "a = 1\nb = 20\nc = 3\n"}}, {"commit": "fix b"}]
AGAIN: list[Step] = [{"write": {"more.py": "d = 4\n"}}, {"commit": "more"}]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseWorld]:
    """One world for all tests: each has its own issue, branch and merge request."""
    with case_world("gitlab", Path(tmp_path_factory.mktemp("forge")), gitlab_merge="") as w:
        w.agent(CHANGE, AGAIN)
        with w.s.working():
            yield w


@pytest.fixture
def w(made: CaseWorld) -> CaseWorld:
    """The world with an open merge request."""
    number = made.case.open_issue("b is wrong", "", "detent")
    made.post(made.case.people.waiting.pop())
    made.task_id = f"gitlab.acme.app.{number}"
    made.case.branch = f"detent/{made.task_id}"
    made.reaches("open")
    return made


def actions(w: CaseWorld) -> set[str]:
    found = why(w.s.core, Caller("person", frozenset()), task_id=w.task_id)
    return {*found["actions"], *found["events"]}


def status(w: CaseWorld) -> dict[str, str]:
    with w.s.core.store.read() as view:
        found: dict[str, str] = view.rows("system_state").get("gitlab_status") or {}
    return found


def comment(w: CaseWorld) -> str:
    task = w.task()
    assert task is not None
    return task.comment or ""


def test_a_deleted_branch_is_named_and_pushed_again(w: CaseWorld) -> None:
    git(w.case.repo.directory, "update-ref", "-d", f"refs/heads/{w.case.branch}")
    w.deliver()
    w.reaches("needs_person")
    assert f"The branch {w.case.branch} of " in comment(w)
    assert "was deleted" in comment(w)
    assert {"accept", "cancel"} <= actions(w)
    w.s.do(c.AcceptTask(w.task_id))
    w.reaches("open")
    assert git(w.case.repo.directory, "show", f"{w.case.branch}:code.py") == "a = 1\nb = 20\nc = 3"


def test_a_closed_request_ends_the_task(w: CaseWorld) -> None:
    w.case.close_request()
    w.deliver()
    w.reaches("closed")
    assert "was closed without a merge" in comment(w)


def test_a_revoked_token_is_named_and_nothing_is_lost(w: CaseWorld) -> None:
    tokens = dict(w.case.server.tokens)
    w.case.revoke()
    w.case.close_request()
    w.deliver()
    w.keeper.service.run_once()
    assert "does not accept the token" in status(w)["error"]
    assert "set gitlab.token" in status(w)["hint"]
    w.case.server.tokens.update(tokens)
    w.reaches("closed")
    assert status(w)["error"] is None


def test_a_rate_limit_is_named_and_waited_for(w: CaseWorld) -> None:
    w.case.close_request()
    w.deliver()
    w.case.answer(429, {"Retry-After": "1"})
    w.keeper.service.run_once()
    assert "limits the rate of requests; next request in 1 s" in status(w)["error"]
    w.reaches("closed")


def test_a_forced_push_under_a_running_agent_needs_a_person(w: CaseWorld) -> None:
    w.s.do(c.SendEvent(w.task_id, "task_changes_requested", "more"))
    w.change({"other.py": "x = 1\n"}, w.case.branch)
    w.reaches("needs_person", rounds=1)
    assert "the push of" in comment(w)
    assert "rejected" in comment(w)
    assert {"accept", "task_continued", "cancel"} <= actions(w)
