"""Issues become tasks by a label, an assignment or a comment; comments answer questions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.integrations.forges import issue_sync
from detent.operations.registry import OWNER, call
from detent.store.types import Query
from tests.agents.scene import Step
from tests.forges.conftest import FILES
from tests.forges.world import World, world
from tests.worker.waiting import until

ASK: list[Step] = [{"ask": {"text": "Which value?", "options": ["20", "Twenty"]}}]


@pytest.fixture(scope="module")
def w(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(Path(tmp_path_factory.mktemp("forge")), FILES, github_assignee="bot") as made:
        made.agent(ASK, [])
        made.s.core.intents = {"fix": {"workspace": "worktree"}}  # no worker
        call("create_project", made.s.core, OWNER, name="default")
        yield made


def tasks(w: World) -> set[str]:
    with w.s.core.store.read() as view:
        return {row["id"] for row in view.page(Query("tasks", limit=100))}


def test_a_label_an_assignment_or_a_comment_makes_a_task(w: World) -> None:
    before = tasks(w)
    labelled = w.people.open_issue("labelled", labels=("detent",))
    assigned, commented, other = (w.people.open_issue(each) for each in ("two", "three", "four"))
    w.people.assign(assigned, "bot")
    w.people.assign(other, "alice")
    w.people.label(other, "bug")
    w.people.comment(commented, "/detent please")
    w.people.comment(other, "/detent", author="stranger", association="NONE")
    w.people.comment(other, "please do not use /detent here")
    w.deliver(copies=2)
    w.sync()
    made = {f"github.acme.app.{each.number}" for each in (labelled, assigned, commented)}
    assert tasks(w) - before == made


def test_an_issue_of_an_unknown_task_type_does_not_stop_others(
    w: World, caplog: pytest.LogCaptureFixture
) -> None:
    w.people.open_issue("first", labels=("detent",))
    intents, w.s.core.intents = w.s.core.intents, {}
    w.deliver()
    w.sync()
    w.s.core.intents = intents
    assert "intent must be one of none, not 'fix'" in caplog.text
    assert w.status()["error"] is None


@contextmanager
def quota(w: World, **numbers: int) -> Iterator[None]:
    """A quota of the project to which the issues belong."""
    set_limit(w, **numbers)
    try:
        yield
    finally:
        set_limit(w, clear=list(numbers)[:1])


def set_limit(w: World, **given: Any) -> None:
    call("set_project_quota", w.s.core, OWNER, name="default", **given)


def labelled(w: World, count: int) -> set[str]:
    """New issues with the label; the ids of their tasks."""
    issues = [w.people.open_issue(f"issue {each}", labels=("detent",)) for each in range(count)]
    w.deliver()
    return {f"github.acme.app.{each.number}" for each in issues}


@pytest.mark.parametrize(
    ("numbers", "accepted"),
    [({"submit_rate": 1, "submit_per_s": 3_600}, 1), ({"stored_bytes": 1}, 0)],
)
def test_an_issue_that_a_quota_refuses_is_not_lost(
    w: World, caplog: pytest.LogCaptureFixture, numbers: dict[str, int], accepted: int
) -> None:
    with quota(w, **numbers):
        made = labelled(w, 3)
        w.sync(passes=2)
        assert len(made & tasks(w)) == accepted
        assert "quota of" in caplog.text
        assert w.status()["error"] is None
        asked = len(w.server.asked)
        w.sync(passes=3)
        assert len(w.server.asked) == asked  # the forge is not asked while the issues wait
    w.new_keeper()
    w.sync()
    assert made <= tasks(w)


@pytest.mark.parametrize("numbers", [{"submit_rate": 1}, {"stored_bytes": 1}])
def test_an_issue_that_a_quota_refuses_is_taken_when_there_is_room(
    w: World, monkeypatch: pytest.MonkeyPatch, numbers: dict[str, int]
) -> None:
    monkeypatch.setattr(issue_sync, "FULL_S", 1)
    with quota(w, **numbers):
        made = labelled(w, 3)
        w.sync()
        assert len(made & tasks(w)) < 3
        if "stored_bytes" in numbers:
            set_limit(w, stored_bytes=1_000_000_000)

        def are_taken() -> bool:
            w.sync()
            return made <= tasks(w)

        until(are_taken, "the tasks")


def test_an_issue_is_found_without_deliveries(w: World) -> None:
    """Where no webhook can reach the gateway, the keeper polls."""
    issue = w.people.open_issue("found by polling", labels=("detent",))
    w.people.waiting = []
    w.new_keeper()
    w.sync()
    task_id = f"github.acme.app.{issue.number}"
    assert w.task(task_id).source == "github"
    asked = len(w.server.asked)
    w.sync()
    assert len(w.server.asked) == asked  # the next poll is due in an hour


def test_comments_answer_the_question_of_a_task(w: World) -> None:
    issue = w.people.open_issue("ask me", labels=("detent",))
    task_id = f"github.acme.app.{issue.number}"
    w.deliver()
    with w.s.working():
        w.reaches("blocked", task_id)
        w.new_keeper()  # a crash after the question was asked does not ask it again
        w.sync()
        (asked,) = issue.comments
        assert asked.body.startswith("Which value?\n\nAnswer with one of:\n- 20\n- Twenty\n")
        w.people.comment(issue, "21", author="stranger", association="NONE")
        w.people.comment(issue, "21")
        w.deliver(copies=2)
        w.sync(passes=2)
        assert [each.author for each in issue.comments] == [
            *("detent-bot", "stranger", "alice", "detent-bot")
        ]
        assert "not one of the options. The options are: 20, Twenty." in issue.comments[-1].body
        w.people.comment(issue, "twenty")
        w.deliver()
        w.reaches("needs_person", task_id)
    assert "No commits between main and" in w.comment(task_id)  # the agent has changed nothing
    assert w.data(task_id, "task_answered")[0]["answer"] == "Twenty"
    assert "task_answered" in w.events(task_id)
    assert w.s.sessions()[-1]["prompts"][-1].endswith("The answer: Twenty")
