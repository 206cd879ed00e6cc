"""Dismissing a failed subtask: by operations, in the inbox, and in the hints of refusals."""

from typing import Any

import pytest

from detent.errors import Forbidden, Refused
from detent.operations.registry import OWNER, Caller, Scope
from detent.testing.audit import audit
from tests.operations.desk import Desk

ONCE = {"retry": {"max_attempts": 1}}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def family(desk: Desk, lifecycle: str = "review", children: int = 1) -> tuple[str, list[str]]:
    """A parent whose job has completed, and subtasks that are queued."""
    parent = desk.submit(lifecycle=lifecycle, title="parent")
    held = desk.claim()
    made = [
        desk.submit(parent_id=parent, lifecycle=lifecycle, options=ONCE) for _ in range(children)
    ]
    desk.complete(held)
    assert desk.state(parent) == "blocked"
    return parent, made


def inbox(desk: Desk) -> dict[str, list[str]]:
    """By task in the inbox, its actions."""
    items = desk.ask("inbox")["items"]
    return {each["id"]: [action["action"] for action in each["actions"]] for each in items}


@pytest.mark.parametrize(("lifecycle", "ended"), [("review", "ready"), ("board", "done")])
def test_the_parent_continues_in_the_same_transaction(
    desk: Desk, lifecycle: str, ended: str
) -> None:
    parent, (child,) = family(desk, lifecycle)
    desk.fail()
    moved = desk.ask("dismiss_task", task_id=child, reason="it is not needed")
    assert (moved["id"], moved["outcome"]) == (child, "dismissed")
    assert desk.state(parent) == ended
    events = desk.ask("task_events", task_id=parent)["events"]
    (dismissed,) = [each for each in events if each["name"] == "subtask_dismissed"]
    assert (dismissed["stream"], dismissed["actor"]) == (parent, OWNER.actor.name)
    assert dismissed["data"]["task_id"] == child
    assert dismissed["data"]["reason"] == "it is not needed"
    assert "subtask_dismissed" not in desk.events(child)
    audit(desk.core.store)


def test_a_second_dismissal_succeeds_without_an_event(desk: Desk) -> None:
    _, (child,) = family(desk)
    desk.fail()
    desk.ask("dismiss_task", task_id=child)
    before = desk.head()
    assert desk.ask("dismiss_task", task_id=child)["outcome"] == "repeated"
    assert desk.head() == before


def test_many_subtasks_are_dismissed_in_one_request(desk: Desk) -> None:
    parent, children = family(desk, children=3)
    desk.fail()
    desk.fail()
    answer = desk.ask("dismiss_many", ids=[*children, parent], reason="all of them")
    assert [each["outcome"] for each in answer["items"]] == ["dismissed", "dismissed"]
    assert {each["id"]: each["code"] for each in answer["refused"]} == {
        children[2]: "not_dismissible",
        parent: "not_dismissible",
    }
    desk.complete()
    assert desk.state(parent) == "ready"


def test_a_dismissal_needs_the_scope_review(desk: Desk) -> None:
    parent, (child,) = family(desk)
    desk.fail()
    operator = Caller("operator", frozenset({Scope.READ, Scope.OPERATE}))
    with pytest.raises(Forbidden):
        desk.ask("dismiss_task", operator, task_id=child)
    agent = Caller("agent", frozenset(Scope), root_id=parent)
    with pytest.raises(Forbidden) as refused:
        desk.ask("dismiss_task", agent, task_id=child)
    assert refused.value.code == "own_work"


# ---- why and the inbox -----------------------------------------------------------------------


def test_why_names_the_legal_actions(desk: Desk) -> None:
    parent, (failed, cancelled, live) = family(desk, children=3)
    desk.fail()
    desk.ask("cancel_task", task_id=cancelled)
    reason = desk.reasons(parent)["subtasks"]
    assert reason["how"] == (
        f"wait, or retry or dismiss {failed}, or dismiss {cancelled}, or retry or cancel"
    )
    assert [each["id"] for each in reason["detail"]["subtasks"]] == [failed, cancelled, live]
    assert f"detent dismiss {cancelled}" in [each["command"] for each in reason["actions"]]
    found = [each for each in desk.why(parent)["reasons"] if each["reason"] == "failed_subtask"]
    assert [each["detail"]["task"] for each in found] == [failed, cancelled]


def test_why_names_descendants_too(desk: Desk) -> None:
    parent, (child,) = family(desk)
    held = desk.claim()
    below = desk.submit(parent_id=child, options=ONCE)
    desk.complete(held)
    desk.ask("cancel_task", task_id=below)
    assert desk.reasons(parent)["failed_subtask"]["how"] == f"dismiss {below}"
    desk.ask("dismiss_task", task_id=below)
    assert desk.state(parent) == "ready"


def test_a_cancelled_subtask_waits_in_the_inbox_until_it_is_dismissed(desk: Desk) -> None:
    _, (child, other) = family(desk, children=2)
    beside = desk.submit(lifecycle="review")
    desk.ask("cancel_task", task_id=beside)
    desk.ask("cancel_task", task_id=child)
    assert inbox(desk) == {child: ["dismiss"]}
    desk.ask("dismiss_task", task_id=child)
    assert inbox(desk) == {}
    desk.fail()
    assert inbox(desk) == {other: ["dismiss", "retry"]}


def test_a_failed_subtask_leaves_the_inbox_with_its_dismissal(desk: Desk) -> None:
    parent, (child,) = family(desk)
    desk.fail()
    assert inbox(desk) == {child: ["dismiss", "retry"]}
    desk.ask("dismiss_task", task_id=child)
    assert inbox(desk) == {parent: ["accept", "cancel", "delete", "reject"]}


def test_the_inbox_names_the_budget_that_is_spent(desk: Desk) -> None:
    parent = desk.submit(max_budget_usd=1)
    top = desk.claim()
    child = desk.submit(parent_id=parent)
    held = desk.claim()
    desk.charge(held, 2)
    desk.suspend("budget", held)
    (item,) = [each for each in desk.ask("inbox")["items"] if each["id"] == child]
    assert [each["command"] for each in item["actions"]] == [
        f"detent raise {parent} DOLLARS",
        f"detent cancel {child}",
    ]
    desk.ask("edit_task", task_id=parent, max_budget_usd=5)
    assert desk.state(child) == "queued"
    desk.complete(top)


# ---- refusals --------------------------------------------------------------------------------


def refusal(desk: Desk, operation: str, task_id: str, **more: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        desk.ask(operation, task_id=task_id, **more)
    return refused.value


@pytest.mark.parametrize("lifecycle", ["board", "review"])
@pytest.mark.parametrize("verb", ["accept", "reject", "run", "resume", "retry"])
def test_a_refusal_names_the_open_question_and_its_command(
    desk: Desk, verb: str, lifecycle: str
) -> None:
    made = desk.submit(lifecycle=lifecycle)
    desk.suspend("question")
    found = refusal(desk, f"{verb}_task", made)
    assert (found.code, found.message) == ("open_question", f"task {made} has an open question")
    assert found.hint.startswith(f"Answer it first: `detent answer {made} ANSWER`.")


def test_a_live_subtask_may_be_cancelled_instead(desk: Desk) -> None:
    _, (child,) = family(desk)
    found = refusal(desk, "dismiss_task", child)
    assert found.code == "not_dismissible"
    assert found.hint == f"Task {child} is queued. Possible now: `detent cancel {child}`."
    assert found.details["legal"] == ["cancel"]


def test_a_failed_dependency_that_cannot_run_is_not_suggested(desk: Desk) -> None:
    first = desk.submit()
    second = desk.submit(depends_on=[first])
    desk.ask("cancel_task", task_id=first)
    found = refusal(desk, "retry_task", second)
    assert found.code == "dependency_failed"
    assert found.hint == f"Task {second} is failed. Possible now: `detent delete {second}`."
    (reason,) = [each for each in desk.why(second)["reasons"] if each["reason"] == "failed"]
    assert reason["how"] == "delete"


def test_a_refusal_on_an_ended_task_names_only_delete(desk: Desk) -> None:
    made = desk.submit(lifecycle="board")
    desk.complete()
    found = refusal(desk, "cancel_task", made)
    assert found.hint == f"Task {made} is done. Possible now: `detent delete {made}`."


def test_a_rejection_is_not_offered_when_the_rounds_are_used(desk: Desk) -> None:
    made = desk.submit(options={"max_rounds": 1})
    desk.complete()
    desk.ask("reject_task", task_id=made, run=True)
    desk.complete()
    assert desk.why(made)["actions"] == ["accept", "cancel", "delete"]
    found = refusal(desk, "reject_task", made)
    assert found.code == "rounds_used"
    assert "`detent reject" not in found.hint


# ---- history -------------------------------------------------------------------------------


def test_an_earlier_time_shows_the_subtask_before_its_dismissal(desk: Desk) -> None:
    parent, (child,) = family(desk)
    desk.fail()
    before = desk.head()
    desk.ask("dismiss_task", task_id=child)
    then = desk.ask("task_at", task_id=parent, position=before)["task"]
    assert (then["state"], then["settled"], then["open_subtasks"]) == ("blocked", [], 1)
    now = desk.ask("task_at", task_id=parent)["task"]
    assert (now["state"], now["settled"], now["open_subtasks"]) == ("ready", [child], 0)
    assert desk.task(parent)["settled"] == [child]


def test_a_signal_to_a_task_without_a_job_suggests_run(desk: Desk) -> None:
    made = desk.submit(run=False)
    found = refusal(desk, "signal_task", made, name="go")
    assert "`detent run " in found.hint
    desk.ask("cancel_task", task_id=made)
    found = refusal(desk, "signal_task", made, name="go")
    assert found.hint == f"Task {made} is cancelled. Possible now: `detent delete {made}`."
