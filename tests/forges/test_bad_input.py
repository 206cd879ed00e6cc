"""What goes wrong between detent and GitHub: a state that names the cause, and a next action."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.integrations import tracker_keeper
from detent.kernel import commands as c
from detent.kernel.decide import comments
from detent.operations.registry import OWNER, call
from tests.agents.repository import git
from tests.agents.scene import PERSON, Step
from tests.forges.conftest import FILES
from tests.forges.world import REPO, TOKEN, World, world
from tests.worker.waiting import until
from verification.github.github_server import SECONDARY_LIMIT

CHANGE: list[Step] = [{"write": {"code.py": "a = 1\nb = 20\nc = 3\n"}}, {"commit": "fix b"}]
AGAIN: list[Step] = [{"write": {"more.py": "d = 4\n"}}, {"commit": "more"}]


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for all tests: each has its own issue, branch and pull request."""
    with world(Path(tmp_path_factory.mktemp("forge")), FILES) as made:
        made.agent(CHANGE, AGAIN, [], [])
        with made.s.working():
            yield made


def test_a_closed_request_ends_the_task(w: World) -> None:
    task_id = w.opened()
    w.people.close(w.pull)
    w.deliver()
    w.reaches("closed", task_id)
    assert "was closed without a merge" in w.comment(task_id)


def test_a_deleted_branch_ends_the_task_and_is_named(w: World) -> None:
    task_id = w.opened()
    git(w.repo.directory, "update-ref", "-d", f"refs/heads/{w.pull.branch}")
    w.people.pushed(w.pull.branch)
    w.deliver()
    w.reaches("closed", task_id)
    assert f"its branch {w.pull.branch} was deleted" in w.comment(task_id)


def test_a_request_that_is_closed_while_the_agent_works_cancels_it(tmp_path: Path) -> None:
    with world(tmp_path, FILES) as w:
        w.agent(CHANGE, [{"hang": 600}])
        with w.s.working():
            task_id = w.opened()
            w.s.do(c.SendEvent(task_id, "task_changes_requested", "more"))
            until(lambda: w.task(task_id).state == "running", "the agent works")
            w.people.close(w.pull)
            w.deliver()
            w.reaches("closed", task_id)
            assert w.events(task_id)[-1] == "task_cancelled"


def test_a_forced_push_under_a_running_agent_needs_a_person(w: World) -> None:
    task_id = w.opened()
    before = w.repo.head_of(w.pull)
    w.s.do(c.SendEvent(task_id, "task_changes_requested", "more"))
    w.change(w.pull.branch, {"other.py": "x = 1\n"})
    w.reaches("needs_person", task_id)
    assert "the push of" in w.comment(task_id)
    assert "rejected" in w.comment(task_id)
    assert {"accept", "task_continued", "cancel"} <= set(w.actions(task_id))
    # The person restores the branch, and has it pushed again.
    git(w.repo.directory, "update-ref", f"refs/heads/{w.pull.branch}", before)
    w.s.do(c.AcceptTask(task_id))
    w.reaches("open", task_id)
    assert git(w.repo.directory, "show", f"{w.pull.branch}:more.py") == "d = 4"


def test_commits_of_others_are_not_overwritten(w: World) -> None:
    task_id = w.opened()
    theirs = w.change(w.pull.branch, {"other.py": "x = 1\n"})
    w.people.check(w.pull, "tests", "failure", "E")
    w.deliver()
    w.reaches("needs_person", task_id)
    assert "others have pushed to it" in w.comment(task_id)
    assert w.repo.head_of(w.pull) == theirs


def test_a_revoked_token_is_named_and_nothing_is_lost(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker_keeper, "REST_S", 0)
    task_id = w.opened()
    login = w.server.tokens.pop(TOKEN)
    w.people.merge(w.pull)
    w.deliver()
    w.sync()
    assert "does not accept the token: Bad credentials" in w.status()["error"]
    assert "Create another one" in w.status()["hint"]
    assert w.task(task_id).state == "open"
    w.server.tokens[TOKEN] = login
    w.reaches("merged", task_id)
    assert w.status()["error"] is None


def test_a_refused_token_is_not_tried_all_the_time(w: World) -> None:
    login = w.server.tokens.pop(TOKEN)
    w.new_keeper()
    asked = len(w.server.asked)
    w.sync(passes=5)
    w.server.tokens[TOKEN] = login
    assert len(w.server.asked) == asked + 1


def test_a_new_token_is_read_without_a_restart(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_keeper, "REST_S", 0)
    file = w.s.directory / "token"
    login = w.server.tokens.pop(TOKEN)
    w.new_keeper()
    w.sync()
    assert "does not accept the token" in w.status()["error"]
    file.write_text("ghp_new")
    w.server.tokens["ghp_new"] = login
    w.sync(passes=2)
    assert w.status()["error"] is None
    file.write_text(TOKEN)
    w.server.tokens = {TOKEN: login}
    w.new_keeper()


def test_a_removed_repository_does_not_stop_the_others(tmp_path: Path) -> None:
    both = ("acme/gone=fix", f"{REPO}=fix")
    with world(tmp_path, FILES, github_repositories=both) as w:
        w.agent([])
        w.s.core.intents = {"fix": {"workspace": "worktree"}}  # no worker
        issue = w.people.open_issue("found by polling", labels=("detent",))
        w.sync()
        assert w.task(f"github.acme.app.{issue.number}").source == "github"
        assert w.status()["error"].startswith("The issues of acme/gone cannot be read: ")
        assert "github.repositories" in w.status()["hint"]
        asked = len(w.server.asked)
        w.sync(passes=3)
        assert "GET /repos/acme/gone/issues" not in w.server.asked[asked:]
        w.server.add_repo("acme/gone")
        w.new_keeper()
        w.sync()
        assert w.status()["error"] is None


def test_a_rate_limit_is_named_and_waited_for(w: World) -> None:
    task_id = w.opened()
    w.people.merge(w.pull)
    w.deliver()
    w.server.answers.append(SECONDARY_LIMIT)
    asked = len(w.server.asked)
    w.sync(passes=3)
    assert len(w.server.asked) == asked + 1
    assert "limits the rate of requests; next request in 1 s" in w.status()["error"]
    w.reaches("merged", task_id)


def test_a_request_that_github_refuses_needs_a_person(w: World) -> None:
    w.change("main", {"new.py": "n = 1\n"})
    issue = w.people.open_issue("an empty change", labels=("detent",))
    task_id = f"github.acme.app.{issue.number}"
    w.deliver()
    w.sync()

    def pushed() -> bool:
        state = w.task(task_id).state
        if state == "draft":
            w.sync()
        return state == "pushed"

    until(pushed, "the branch is pushed")
    git(w.repo.directory, "update-ref", "-d", f"refs/heads/detent/{task_id}")
    w.reaches("needs_person", task_id)
    assert f"has no branch detent/{task_id} any more" in w.comment(task_id)
    w.s.do(c.SendEvent(task_id, "task_accepting"))
    w.reaches("open", task_id)


def test_when_no_round_is_left_a_person_decides(w: World) -> None:
    task_id = w.opened()
    w.s.do(c.EditTask(task_id, {"options": {**w.task(task_id).options, "max_rounds": 0}}))
    w.people.check(w.pull, "tests", "failure", "E  assert b == 21")
    w.deliver()
    w.reaches("needs_person", task_id)
    assert "which is its limit" in w.comment(task_id)
    assert "assert b == 21" in w.comment(task_id)
    w.s.do(c.SendEvent(task_id, "task_continued", "Read the fixture."))
    w.reaches("open", task_id)
    assert any("Read the fixture." in each for each in w.s.sessions()[-1]["prompts"])


def test_a_log_of_a_check_that_a_quota_refuses_is_left_out(
    w: World, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = w.opened()
    call("set_project_quota", w.s.core, OWNER, name="default", stored_bytes=1)
    try:
        w.people.check(w.pull, "tests", "failure", "E")
        w.deliver()
        w.sync()
    finally:
        call("set_project_quota", w.s.core, OWNER, name="default", clear=["stored_bytes"])
    assert "task_checks_failed" in w.events(task_id)
    assert "checks/tests-" in caplog.text
    assert "is left out: Project 'default' has stored" in caplog.text
    w.s.core.engine.do(c.CancelTask(task_id, "done"), PERSON)


def test_a_cancel_is_left_alone_by_late_deliveries(w: World) -> None:
    task_id = w.opened()
    w.s.core.engine.do(c.CancelTask(task_id, "not wanted"), PERSON)
    w.people.check(w.pull, "tests", "failure", "E")
    w.deliver(copies=2)
    w.sync(passes=2)
    assert w.task(task_id).state == "closed"


def test_a_reviewer_may_change_the_name_of_the_account(w: World) -> None:
    task_id = w.opened()
    thread = w.people.comment_on_line(w.pull, "code.py", 1, "Why?")
    w.people.reply(w.pull, thread, "And how?")
    w.deliver()
    w.reaches("open", task_id, rounds=1)
    for each in thread.comments:
        each.author = "alice-2"
    w.people.review(w.pull, "APPROVED", author="alice-2")
    w.deliver()
    w.reaches("approved", task_id)


def test_what_one_task_cannot_take_does_not_stop_the_others(
    w: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, first = w.opened(), w.pull
    other_id, other = w.opened("c is wrong"), w.pull
    monkeypatch.setattr(comments, "MAX_REPLIES", 1)
    thread = w.people.comment_on_line(first, "code.py", 1, "Why?")
    for text in ("And how?", "And when?"):
        w.people.reply(first, thread, text)
    w.people.merge(other)
    w.deliver()
    w.reaches("merged", other_id)
    w.reaches("needs_person", task_id)
    assert "has 1 replies, which is the limit" in w.comment(task_id)
    w.people.merge(first)
    w.deliver()
    w.reaches("merged", task_id)
