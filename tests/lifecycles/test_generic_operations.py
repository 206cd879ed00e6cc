"""What was written for the shipped lifecycles works for an installed one without code."""

from pathlib import Path
from typing import Any

import pytest

from detent.cli.wait import exit_code
from detent.errors import DetentError
from detent.keeper import scheduler, state_timers
from detent.keeper.state_timers import StateTimers
from detent.operations.registry import Caller, Scope
from tests.operations.operations_client import OperationsClient

TEXT = (Path(__file__).parent / "documents" / "seven_states.toml").read_text()
REVIEWER = Caller("person", frozenset({Scope.REVIEW, Scope.READ}))


@pytest.fixture
def detent() -> OperationsClient:
    client = OperationsClient()
    client.call("install_lifecycle", document=TEXT)
    return client


def approved(detent: OperationsClient, **fields: Any) -> str:
    """A task that waits for its approval."""
    task = detent.submit(lifecycle="delivery", **fields)
    detent.complete()
    return task


def test_why_names_events_timers_and_used_rounds(detent: OperationsClient) -> None:
    task = approved(detent)
    why = detent.why(task)
    assert why["events"] == ["task_approved", "task_sent_back"]
    review, timer = why["reasons"]
    assert [each["command"] for each in review["actions"]][:2] == [
        f"detent send {task} task_approved",
        f"detent send {task} task_sent_back",
    ]
    assert (timer["reason"], timer["detail"]["event"]) == ("timer", "task_cancelled")
    assert timer["looks_again_at"] is not None
    detent.call("send_event", task_id=task, event="task_sent_back", comment="again")
    assert detent.task(task)["comment"] == "again"
    detent.complete()
    rounds = detent.reasons(task)["rounds_used"]
    assert (rounds["detail"]["limit"], rounds["detail"]["events"]) == (1, ["task_sent_back"])
    with pytest.raises(DetentError) as caught:
        detent.call("send_event", task_id=task, event="task_sent_back")
    assert f"detent send {task} task_approved" in caught.value.hint


def test_the_inbox_and_the_counts_have_it(detent: OperationsClient) -> None:
    task = approved(detent)
    found = detent.call("inbox")
    assert [(each["id"], each["events"][0]) for each in found["items"]] == [(task, "task_approved")]
    counts = detent.call("counts")
    assert (counts["lifecycles"]["delivery"], counts["active"]) == ({"approval": 1}, 1)
    assert detent.call("list_tasks", active=True)["items"][0]["phase"] == "idle"
    detent.call("send_event_to_many", ids=[task, "nothing"], event="task_approved")
    assert detent.state(task) == "delivered"
    assert detent.call("counts")["active"] == 0


def test_a_reviewer_may_not_cancel_by_an_event(detent: OperationsClient) -> None:
    task = approved(detent)
    with pytest.raises(DetentError) as caught:
        detent.call("send_event", caller=REVIEWER, task_id=task, event="task_cancelled")
    assert caught.value.code == "forbidden"
    detent.call("send_event", caller=REVIEWER, task_id=task, event="task_approved")
    assert detent.state(task) == "delivered"


@pytest.mark.parametrize(
    ("wanted", "code"), [("approval", 0), ("blocked", 11), ("cancelled", 12), ("building", 15)]
)
def test_states_are_set_and_have_exit_codes(
    detent: OperationsClient, wanted: str, code: int
) -> None:
    task = detent.submit(lifecycle="delivery", run=False)
    detent.call("set_task_state", task_id=task, state=wanted)
    assert detent.state(task) == wanted
    assert exit_code(detent.task(task)) == code
    with pytest.raises(DetentError) as caught:
        detent.call("set_task_state", task_id=task, state="delivered")
    assert "approval" in str(caught.value.details["allowed"])


def test_webhooks_take_its_events(detent: OperationsClient) -> None:
    hook: dict[str, Any] = {"name": "chat", "url": "https://example.org/hook"}
    made = detent.call("put_webhook", **hook, events=["task_approved"])
    assert made["events"] == ["task_approved"]
    with pytest.raises(DetentError):
        detent.call("put_webhook", **hook, events=["task_painted"])


def test_a_schedule_does_not_overlap_work_and_does_not_wait_for_people(
    detent: OperationsClient,
) -> None:
    given: dict[str, Any] = {"name": "nightly", "intent": "build", "every_s": 60}
    detent.call("put_schedule", **given, lifecycle="delivery")
    scheduler.run(detent.core)
    fired = []
    for _ in range(3):
        detent.clock.advance(seconds=61)
        fired.append(scheduler.run(detent.core))
        if len(fired) == 2:
            detent.complete()  # it waits for a person now
    assert fired == [1, 0, 1]


def test_a_timer_is_fired_by_the_keeper(detent: OperationsClient) -> None:
    draft = detent.submit(lifecycle="delivery", run=False)
    timers = StateTimers()
    assert timers.run(detent.core) == 0
    detent.clock.advance(seconds=2)
    assert timers.run(detent.core) == 1
    assert detent.state(draft) == "cancelled"


TIMER_OF_BUILDS = '\n[[timers]]\nin = "building"\nafter = "1h"\nevent = "task_cancelled"\n'


def test_tasks_that_cannot_be_sent_an_event_do_not_block_the_others(
    detent: OperationsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds whose workers do not obey the cancel stay where they are; all others are reached."""
    monkeypatch.setattr(state_timers, "MAX_ROWS", 2)
    detent.call("install_lifecycle", document="version = 2\n" + TEXT + TIMER_OF_BUILDS)
    tasks = [detent.submit(lifecycle="delivery") for _ in range(5)]
    assert len(detent.claims()) == len(tasks)
    detent.clock.advance(seconds=3_600)
    timers = StateTimers()
    for passes in range(1, 4):
        timers.run(detent.core)
        assert len(cancelled(detent, tasks)) == min(2 * passes, len(tasks))
    timers.run(detent.core)
    assert {detent.state(each) for each in tasks} == {"building"}


def cancelled(detent: OperationsClient, tasks: list[str]) -> list[str]:
    """The tasks whose cancel was requested."""
    with detent.core.store.read() as view:
        return [task.id for task, _ in view.tasks(tasks) if task.cancel_reason is not None]


def test_a_document_is_searched_before_it_is_installed(detent: OperationsClient) -> None:
    done = detent.call("install_lifecycle", document="version = 2\n" + TEXT)
    assert done["search"]["exhausted"]
    assert 0 < done["search"]["states"] < done["search"]["max_states"]
    again = detent.call("install_lifecycle", document="version = 2\n" + TEXT)
    assert (again["changed"], again["search"]) == (False, None)


def test_the_settings_of_one_project_do_not_change_lifecycles(detent: OperationsClient) -> None:
    caller = Caller("ci", frozenset(Scope), project="p")
    for name, given in (
        ("install_lifecycle", {"document": TEXT}),
        ("remove_lifecycle", {"name": "delivery"}),
        ("migrate_lifecycle", {"name": "delivery"}),
    ):
        with pytest.raises(DetentError) as caught:
            detent.call(name, caller=caller, **given)
        assert caught.value.code == "forbidden"


# ---- subtasks of a task that is cancelled ----------------------------------------------------


def test_a_timer_that_cancels_a_task_cancels_its_subtasks(detent: OperationsClient) -> None:
    draft = detent.submit(lifecycle="delivery", run=False)
    subtask = detent.submit(lifecycle="delivery", parent_id=draft)
    detent.clock.advance(seconds=2)
    StateTimers().run(detent.core)
    assert detent.state(draft) == detent.state(subtask) == "cancelled"


def test_a_rule_that_cancels_a_task_cancels_its_subtasks(detent: OperationsClient) -> None:
    when = '[[rules]]\nwhen = "job_failed"\nthen = ["task_blocked"]'
    assert when in TEXT
    cancels = "version = 2\n" + TEXT.replace(when, when.replace("task_blocked", "task_cancelled"))
    detent.call("install_lifecycle", document=cancels)
    task = detent.submit(lifecycle="delivery")
    held = detent.claim()
    subtask = detent.submit(lifecycle="delivery", parent_id=task)
    detent.fail(held, "needs_user")
    assert detent.state(task) == detent.state(subtask) == "cancelled"
