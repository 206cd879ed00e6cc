"""The actions that `why` lists are exactly those that are not refused, in every state."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from detent.errors import Refused
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.state_mapping import BlockReason
from tests.operations.desk import Desk

Scene = Callable[[Desk, str], str]

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


def fresh(desk: Desk, lifecycle: str) -> str:
    return desk.submit(lifecycle=lifecycle, run=False)


def queued(desk: Desk, lifecycle: str) -> str:
    return desk.submit(lifecycle=lifecycle)


def at_work(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.claim()
    return made


def finished(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.complete()
    return made


def accepted(desk: Desk, lifecycle: str) -> str:
    made = finished(desk, lifecycle)
    desk.ask("accept_task", task_id=made)
    return made


def cancelled(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.ask("cancel_task", task_id=made)
    return made


def failed(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle, options={"retry": {"max_attempts": 1}})
    desk.fail()
    return made


def timed_out(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.time_out()
    return made


def stopped(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle, max_budget_usd=1)
    held = desk.claim()
    desk.charge(held, 2)
    desk.fail(held, "budget")
    return made


def asking(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.suspend("question")
    return made


def confirming(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.suspend("confirmation")
    return made


def over_budget(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle, max_budget_usd=1)
    held = desk.claim()
    desk.charge(held, 2)
    desk.suspend("budget", held)
    return made


def waiting_for_subtasks(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    held = desk.claim()
    desk.submit(lifecycle=lifecycle, parent_id=made)
    desk.complete(held)
    return made


def behind_another(desk: Desk, lifecycle: str) -> str:
    first = desk.submit(lifecycle=lifecycle)
    return desk.submit(lifecycle=lifecycle, depends_on=[first])


def trying_again(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.fail(kind="network")
    return made


def rate_limited(desk: Desk, lifecycle: str) -> str:
    made = desk.submit(lifecycle=lifecycle)
    desk.fail(kind="rate_limit", reset_at=desk.clock.now + 60_000_000)
    return made


def behind_a_failure(desk: Desk, lifecycle: str) -> str:
    first = desk.submit(lifecycle=lifecycle)
    made = desk.submit(lifecycle=lifecycle, depends_on=[first])
    desk.ask("cancel_task", task_id=first)
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
    first = Desk()
    task = first.task(build(first, lifecycle))
    assert (task["state"], task["blocked_by"]) == (state, reason)
    listed = first.why(task["id"])["actions"]
    assert {verb for verb in VERBS if allowed(build, lifecycle, verb)} == set(listed) - {"raise"}
    if "raise" in listed:
        desk = Desk()
        desk.ask("edit_task", task_id=build(desk, lifecycle), max_budget_usd=10)


def allowed(build: Scene, lifecycle: str, verb: str) -> bool:
    """Whether the action is accepted, tried on a new scene."""
    desk = Desk()
    task_id = build(desk, lifecycle)
    operation, arguments = VERBS[verb]
    before = desk.head()
    try:
        desk.ask(operation, task_id=task_id, **arguments)
    except Refused:
        assert desk.head() == before, "refused, and yet something was stored"
        return False
    return True
