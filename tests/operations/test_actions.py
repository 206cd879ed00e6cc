"""The actions that `why` lists are exactly those that are not refused, in every state."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from detent.errors import Refused
from detent.kernel.state_mapping import BlockReason
from detent.task_lifecycles import all_lifecycles
from tests.operations.operations_client import OperationsClient

LIFECYCLES = all_lifecycles()

Scene = Callable[[OperationsClient, str], str]

VERBS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "run": ("run_task", {}),
    "cancel": ("cancel_task", {}),
    "accept": ("accept_task", {}),
    "reject": ("reject_task", {}),
    "answer": ("answer_task", {"answer": "yes"}),
    "resume": ("resume_task", {}),
    "retry": ("retry_task", {}),
    "delete": ("delete_task", {}),
    "dismiss": ("dismiss_task", {}),
}


def fresh(client: OperationsClient, lifecycle: str) -> str:
    return client.submit(lifecycle=lifecycle, run=False)


def queued(client: OperationsClient, lifecycle: str) -> str:
    return client.submit(lifecycle=lifecycle)


def at_work(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.claim()
    return made


def finished(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.complete()
    return made


def accepted(client: OperationsClient, lifecycle: str) -> str:
    made = finished(client, lifecycle)
    client.call("accept_task", task_id=made)
    return made


def cancelled(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.call("cancel_task", task_id=made)
    return made


def failed(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle, options={"retry": {"max_attempts": 1}})
    client.fail()
    return made


def timed_out(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.time_out()
    return made


def stopped(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle, max_budget_usd=1)
    held = client.claim()
    client.charge(held, 2)
    client.fail(held, "budget")
    return made


def asking(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.suspend("question")
    return made


def confirming(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.suspend("confirmation")
    return made


def over_budget(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle, max_budget_usd=1)
    held = client.claim()
    client.charge(held, 2)
    client.suspend("budget", held)
    return made


def waiting_for_subtasks(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    held = client.claim()
    client.submit(lifecycle=lifecycle, parent_id=made)
    client.complete(held)
    return made


def behind_another(client: OperationsClient, lifecycle: str) -> str:
    first = client.submit(lifecycle=lifecycle)
    return client.submit(lifecycle=lifecycle, depends_on=[first])


def trying_again(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.fail(kind="network")
    return made


def rate_limited(client: OperationsClient, lifecycle: str) -> str:
    made = client.submit(lifecycle=lifecycle)
    client.fail(kind="rate_limit", reset_at=client.clock.now + 60_000_000)
    return made


def behind_a_failure(client: OperationsClient, lifecycle: str) -> str:
    first = client.submit(lifecycle=lifecycle)
    made = client.submit(lifecycle=lifecycle, depends_on=[first])
    client.call("cancel_task", task_id=first)
    return made


#: By scene and lifecycle, the state and the reason of the block that it must lead to.
SCENES: Mapping[tuple[str, str], tuple[Scene, str, str | None]] = {
    ("fresh", "board"): (fresh, "inbox", None),
    ("fresh", "review"): (fresh, "pending", None),
    ("queued", "board"): (queued, "todo", None),
    ("queued", "review"): (queued, "queued", None),
    ("at work", "board"): (at_work, "doing", None),
    ("at work", "review"): (at_work, "running", None),
    ("finished", "board"): (finished, "done", None),
    ("finished", "review"): (finished, "ready", None),
    ("accepted", "review"): (accepted, "completed", None),
    ("cancelled", "board"): (cancelled, "cancelled", None),
    ("cancelled", "review"): (cancelled, "cancelled", None),
    ("failed", "board"): (failed, "blocked", "error"),
    ("failed", "review"): (failed, "failed", None),
    ("timed out", "review"): (timed_out, "timed_out", None),
    ("stopped", "review"): (stopped, "budget_exceeded", None),
    ("stopped", "board"): (stopped, "blocked", "budget"),
    ("question", "board"): (asking, "blocked", "question"),
    ("question", "review"): (asking, "blocked", "question"),
    ("confirm", "board"): (confirming, "blocked", "needs_user"),
    ("confirm", "review"): (confirming, "blocked", "needs_user"),
    ("budget", "board"): (over_budget, "blocked", "budget"),
    ("budget", "review"): (over_budget, "blocked", "budget"),
    ("subtasks", "review"): (waiting_for_subtasks, "blocked", "subtasks"),
    ("subtasks", "board"): (waiting_for_subtasks, "blocked", "subtasks"),
    ("dependency", "board"): (behind_another, "blocked", "dependency"),
    ("dependency", "review"): (behind_another, "queued", None),
    ("failed dependency", "board"): (behind_a_failure, "blocked", "dependency"),
    ("failed dependency", "review"): (behind_a_failure, "failed", None),
    ("retry", "board"): (trying_again, "blocked", "retry"),
    ("retry", "review"): (trying_again, "blocked", "retry"),
    ("rate limit", "board"): (rate_limited, "blocked", "rate_limit"),
    ("rate limit", "review"): (rate_limited, "blocked", "rate_limit"),
}


def test_the_scenes_have_every_state_and_reason() -> None:
    for lifecycle in ("board", "review"):
        seen = {state for (_, each), (_, state, _) in SCENES.items() if each == lifecycle}
        assert seen == set(LIFECYCLES[lifecycle].state_names)
    assert {reason for _, _, reason in SCENES.values()} >= set(BlockReason) - {"resource"}


@pytest.mark.parametrize(("scene", "lifecycle"), list(SCENES), ids=str)
def test_listed_is_legal_and_unlisted_is_refused(scene: str, lifecycle: str) -> None:
    build, state, reason = SCENES[scene, lifecycle]
    first = OperationsClient()
    task = first.task(build(first, lifecycle))
    assert (task["state"], task["blocked_by"]) == (state, reason)
    listed = first.why(task["id"])["actions"]
    assert {verb for verb in VERBS if allowed(build, lifecycle, verb)} == set(listed) - {"raise"}
    if "raise" in listed:
        client = OperationsClient()
        client.call("edit_task", task_id=build(client, lifecycle), max_budget_usd=10)


def allowed(build: Scene, lifecycle: str, verb: str) -> bool:
    """Whether the action is accepted, tried on a new scene."""
    client = OperationsClient()
    task_id = build(client, lifecycle)
    operation, arguments = VERBS[verb]
    before = client.head()
    try:
        client.call(operation, task_id=task_id, **arguments)
    except Refused:
        assert client.head() == before, "refused, and yet something was stored"
        return False
    return True


# ---- what a refusal says ---------------------------------------------------------------------


def refusal(client: OperationsClient, operation: str, task_id: str, **more: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        client.call(operation, task_id=task_id, **more)
    return caught.value


@pytest.mark.parametrize("verdict", ["accept", "cancel"])
def test_a_refusal_after_a_verdict_says_whose_it_was_and_when(verdict: str) -> None:
    client = OperationsClient()
    task_id = finished(client, "review")
    client.call(*VERBS[verdict][:1], task_id=task_id)
    done = {"accept": "accepted", "cancel": "cancelled"}
    for later, word in {**done, "reject": "rejected"}.items():
        late = refusal(client, VERBS[later][0], task_id)
        assert late.message == (
            f"Task {task_id} cannot be {word}: it was {done[verdict]} by owner at "
            "2030-01-01T12:00:00.000Z."
        )
        assert (late.code, late.legal) == ("illegal_transition", ())
        assert f"`detent delete {task_id}`" in late.hint


def test_a_refusal_before_a_verdict_says_the_state_and_what_is_possible() -> None:
    client = OperationsClient()
    task_id = queued(client, "review")
    early = refusal(client, "accept_task", task_id)
    assert early.message == f"Task {task_id} cannot be accepted: it is queued."
    assert early.hint == f"Task {task_id} is queued. Possible now: `detent cancel {task_id}`."


def test_a_second_verdict_of_a_rejected_task_names_the_rejection() -> None:
    client = OperationsClient()
    task_id = finished(client, "review")
    client.call("reject_task", task_id=task_id)
    late = refusal(client, "accept_task", task_id)
    assert late.message.startswith(f"Task {task_id} cannot be accepted: it was rejected by owner ")


# ---- events instead of actions ---------------------------------------------------------------


def test_an_event_is_sent_in_any_letter_case() -> None:
    client = OperationsClient()
    task_id = finished(client, "review")
    client.call("send_event", task_id=task_id, event="Task_Accepted")
    assert client.state(task_id) == "completed"


def test_an_event_for_an_older_version_of_the_task_is_refused() -> None:
    client = OperationsClient()
    task_id = finished(client, "review")
    version = client.task(task_id)["version"]
    client.call("edit_task", task_id=task_id, title="new")
    event: dict[str, Any] = {"event": "task_cancelled", "seen": version}
    assert refusal(client, "send_event", task_id, **event).code == "version_conflict"


def test_a_cancel_that_is_sent_as_an_event_reaches_the_subtasks() -> None:
    client = OperationsClient()
    task_id = waiting_for_subtasks(client, "review")
    (subtask,) = client.call("subtasks", task_id=task_id)["items"]
    assert client.state(subtask["id"]) == "queued"
    client.call("send_event", task_id=task_id, event="task_cancelled")
    assert client.state(task_id) == client.state(subtask["id"]) == "cancelled"


def test_a_retry_by_the_job_is_refused_while_a_dependency_has_failed() -> None:
    client = OperationsClient()
    task_id = behind_a_failure(client, "review")
    with pytest.raises(Refused) as caught:
        client.call("retry_job", job_id=f"{task_id}-j1")
    assert caught.value.code == "dependency_failed"
    assert client.state(task_id) == "failed"


def test_the_tombstone_counts_the_runs_of_all_jobs() -> None:
    client = OperationsClient()
    task_id = finished(client, "review")
    client.call("reject_task", task_id=task_id, run=True)
    client.complete()
    client.call("delete_task", task_id=task_id)
    last = client.call("list_events", after=client.head() - 1)["events"][-1]
    assert last["name"] == "task_deleted"
    assert (last["data"]["jobs"], last["data"]["runs"]) == (2, 2)
