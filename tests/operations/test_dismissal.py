"""Dismissing a failed subtask: by operations, in the inbox, and in the hints of refusals."""

from typing import Any

import pytest

from detent.errors import Forbidden, Refused
from detent.operations.registry import OWNER, Caller, Scope
from detent.testing.audit import audit
from tests.operations.operations_client import OperationsClient

ONCE = {"retry": {"max_attempts": 1}}


@pytest.fixture
def client() -> OperationsClient:
    return OperationsClient()


def family(
    client: OperationsClient, lifecycle: str = "review", children: int = 1
) -> tuple[str, list[str]]:
    """A parent whose job has completed, and subtasks that are queued."""
    parent = client.submit(lifecycle=lifecycle, title="parent")
    held = client.claim()
    made = [
        client.submit(parent_id=parent, lifecycle=lifecycle, options=ONCE) for _ in range(children)
    ]
    client.complete(held)
    assert client.state(parent) == "blocked"
    return parent, made


def inbox(client: OperationsClient) -> dict[str, list[str]]:
    """By task in the inbox, its actions."""
    items = client.call("inbox")["items"]
    return {each["id"]: [action["action"] for action in each["actions"]] for each in items}


@pytest.mark.parametrize(("lifecycle", "ended"), [("review", "ready"), ("board", "done")])
def test_the_parent_continues_in_the_same_transaction(
    client: OperationsClient, lifecycle: str, ended: str
) -> None:
    parent, (child,) = family(client, lifecycle)
    client.fail()
    moved = client.call("dismiss_task", task_id=child, reason="it is not needed")
    assert (moved["id"], moved["outcome"]) == (child, "dismissed")
    assert client.state(parent) == ended
    events = client.call("task_events", task_id=parent)["events"]
    (dismissed,) = [each for each in events if each["name"] == "subtask_dismissed"]
    assert (dismissed["stream"], dismissed["actor"]) == (parent, OWNER.actor.name)
    assert dismissed["data"]["task_id"] == child
    assert dismissed["data"]["reason"] == "it is not needed"
    assert "subtask_dismissed" not in client.events(child)
    audit(client.core.store)


def test_a_second_dismissal_succeeds_without_an_event(client: OperationsClient) -> None:
    _, (child,) = family(client)
    client.fail()
    client.call("dismiss_task", task_id=child)
    before = client.head()
    assert client.call("dismiss_task", task_id=child)["outcome"] == "repeated"
    assert client.head() == before


def test_many_subtasks_are_dismissed_in_one_request(client: OperationsClient) -> None:
    parent, children = family(client, children=3)
    client.fail()
    client.fail()
    answer = client.call("dismiss_many", ids=[*children, parent], reason="all of them")
    assert [each["outcome"] for each in answer["items"]] == ["dismissed", "dismissed"]
    assert {each["id"]: each["code"] for each in answer["refused"]} == {
        children[2]: "not_dismissible",
        parent: "not_dismissible",
    }
    client.complete()
    assert client.state(parent) == "ready"


def test_a_dismissal_needs_the_scope_review(client: OperationsClient) -> None:
    parent, (child,) = family(client)
    client.fail()
    operator = Caller("operator", frozenset({Scope.READ, Scope.OPERATE}))
    with pytest.raises(Forbidden):
        client.call("dismiss_task", operator, task_id=child)
    agent = Caller("agent", frozenset(Scope), root_id=parent)
    with pytest.raises(Forbidden) as refused:
        client.call("dismiss_task", agent, task_id=child)
    assert refused.value.code == "own_work"


# ---- why and the inbox -----------------------------------------------------------------------


def test_why_names_the_legal_actions(client: OperationsClient) -> None:
    parent, (failed, cancelled, live) = family(client, children=3)
    client.fail()
    client.call("cancel_task", task_id=cancelled)
    reason = client.reasons(parent)["subtasks"]
    assert reason["how"] == (
        f"wait, or retry or dismiss {failed}, or dismiss {cancelled}, or retry or cancel"
    )
    assert [each["id"] for each in reason["detail"]["subtasks"]] == [failed, cancelled, live]
    assert f"detent dismiss {cancelled}" in [each["command"] for each in reason["actions"]]
    found = [each for each in client.why(parent)["reasons"] if each["reason"] == "failed_subtask"]
    assert [each["detail"]["task"] for each in found] == [failed, cancelled]


def test_why_names_descendants_too(client: OperationsClient) -> None:
    parent, (child,) = family(client)
    held = client.claim()
    below = client.submit(parent_id=child, options=ONCE)
    client.complete(held)
    client.call("cancel_task", task_id=below)
    assert client.reasons(parent)["failed_subtask"]["how"] == f"dismiss {below}"
    client.call("dismiss_task", task_id=below)
    assert client.state(parent) == "ready"


def test_a_cancelled_subtask_waits_in_the_inbox_until_it_is_dismissed(
    client: OperationsClient,
) -> None:
    _, (child, other) = family(client, children=2)
    beside = client.submit(lifecycle="review")
    client.call("cancel_task", task_id=beside)
    client.call("cancel_task", task_id=child)
    assert inbox(client) == {child: ["dismiss"]}
    client.call("dismiss_task", task_id=child)
    assert inbox(client) == {}
    client.fail()
    assert inbox(client) == {other: ["dismiss", "retry"]}


def test_a_failed_subtask_leaves_the_inbox_with_its_dismissal(client: OperationsClient) -> None:
    parent, (child,) = family(client)
    client.fail()
    assert inbox(client) == {child: ["dismiss", "retry"]}
    client.call("dismiss_task", task_id=child)
    assert inbox(client) == {parent: ["accept", "cancel", "delete", "reject"]}


def test_the_inbox_names_the_budget_that_is_spent(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=1)
    top = client.claim()
    child = client.submit(parent_id=parent)
    held = client.claim()
    client.charge(held, 2)
    client.suspend("budget", held)
    (item,) = [each for each in client.call("inbox")["items"] if each["id"] == child]
    assert [each["command"] for each in item["actions"]] == [
        f"detent raise {parent} DOLLARS",
        f"detent cancel {child}",
    ]
    client.call("edit_task", task_id=parent, max_budget_usd=5)
    assert client.state(child) == "queued"
    client.complete(top)


# ---- refusals --------------------------------------------------------------------------------


def refusal(client: OperationsClient, operation: str, task_id: str, **more: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        client.call(operation, task_id=task_id, **more)
    return refused.value


@pytest.mark.parametrize("lifecycle", ["board", "review"])
@pytest.mark.parametrize("verb", ["accept", "reject", "run", "resume", "retry"])
def test_a_refusal_names_the_open_question_and_its_command(
    client: OperationsClient, verb: str, lifecycle: str
) -> None:
    made = client.submit(lifecycle=lifecycle)
    client.suspend("question")
    found = refusal(client, f"{verb}_task", made)
    assert (found.code, found.message) == ("open_question", f"Task {made} has an open question.")
    assert found.hint.startswith(f"Answer it first: `detent answer {made} ANSWER`.")


def test_a_live_subtask_may_be_cancelled_instead(client: OperationsClient) -> None:
    _, (child,) = family(client)
    found = refusal(client, "dismiss_task", child)
    assert found.code == "not_dismissible"
    assert found.hint == f"Task {child} is queued. Possible now: `detent cancel {child}`."
    assert found.details["legal"] == ["cancel"]


def test_a_failed_dependency_that_cannot_run_is_not_suggested(client: OperationsClient) -> None:
    first = client.submit()
    second = client.submit(depends_on=[first])
    client.call("cancel_task", task_id=first)
    found = refusal(client, "retry_task", second)
    assert found.code == "dependency_failed"
    assert found.hint == f"Task {second} is failed. Possible now: `detent delete {second}`."
    (reason,) = [each for each in client.why(second)["reasons"] if each["reason"] == "failed"]
    assert reason["how"] == "delete"


def test_a_refusal_on_an_ended_task_names_only_delete(client: OperationsClient) -> None:
    made = client.submit(lifecycle="board")
    client.complete()
    found = refusal(client, "cancel_task", made)
    assert found.hint == f"Task {made} is done. Possible now: `detent delete {made}`."


def test_a_rejection_is_not_offered_when_the_rounds_are_used(client: OperationsClient) -> None:
    made = client.submit(options={"max_rounds": 1})
    client.complete()
    client.call("reject_task", task_id=made, run=True)
    client.complete()
    assert client.why(made)["actions"] == ["accept", "cancel", "delete"]
    found = refusal(client, "reject_task", made)
    assert found.code == "rounds_used"
    assert "`detent reject" not in found.hint


# ---- history -------------------------------------------------------------------------------


def test_an_earlier_time_shows_the_subtask_before_its_dismissal(client: OperationsClient) -> None:
    parent, (child,) = family(client)
    client.fail()
    before = client.head()
    client.call("dismiss_task", task_id=child)
    then = client.call("task_at", task_id=parent, position=before)["task"]
    assert (then["state"], then["settled"], then["open_subtasks"]) == ("blocked", [], 1)
    now = client.call("task_at", task_id=parent)["task"]
    assert (now["state"], now["settled"], now["open_subtasks"]) == ("ready", [child], 0)
    assert client.task(parent)["settled"] == [child]


def test_a_signal_to_a_task_without_a_job_suggests_run(client: OperationsClient) -> None:
    made = client.submit(run=False)
    found = refusal(client, "signal_task", made, name="go")
    assert "`detent run " in found.hint
    client.call("cancel_task", task_id=made)
    found = refusal(client, "signal_task", made, name="go")
    assert found.hint == f"Task {made} is cancelled. Possible now: `detent delete {made}`."
