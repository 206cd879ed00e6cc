"""Manual runs and states: by legal transitions only, and refused while a worker holds the job."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.testing.audit import audit
from tests.operations.installation import OURS, LocalInstallation, local_installation

HOUR_S = 3_600


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made
        audit(made.core.store)


def begin(installed: LocalInstallation, task_id: str) -> str:
    begun = installed.call("begin_run", job_id=f"{task_id}-j1")
    assert (begun["task_id"], begun["job_id"]) == (task_id, f"{task_id}-j1")
    return str(begun["id"])


def state(installed: LocalInstallation, task_id: str) -> str:
    return str(installed.call("show_task", task_id=task_id)["state"])


def test_a_manual_run_is_a_claim_and_ends_the_task(installed: LocalInstallation) -> None:
    task_id = installed.submit(lifecycle="board")
    run_id = begin(installed, task_id)
    assert state(installed, task_id) == "doing"
    assert installed.claim() == []
    ended = installed.call("end_run", run_id=run_id, exit_code=0, result={"ok": 1})
    assert (ended["state"], ended["exit_code"], ended["worker"]) == ("succeeded", 0, "hand:owner")
    assert state(installed, task_id) == "done"
    assert installed.call("task_jobs", task_id=task_id)["items"][0]["result"] == {"ok": 1}


def test_a_manual_run_is_held_until_its_hold_ends(installed: LocalInstallation) -> None:
    task_id = installed.submit(lifecycle="board")
    begin(installed, task_id)
    installed.clock.advance(seconds=23 * HOUR_S)
    due(installed)
    assert state(installed, task_id) == "doing"
    installed.clock.advance(seconds=2 * HOUR_S)
    due(installed)
    assert installed.call("task_runs", task_id=task_id)["items"][0]["state"] == "cancelled"
    assert len(installed.claim()) == 1


def due(installed: LocalInstallation) -> None:
    from detent.keeper import timers as duty

    duty.run(installed.core)


@pytest.mark.parametrize(
    ("reported", "run_state", "task_state"),
    [
        ({"exit_code": 0}, "succeeded", "ready"),
        ({"exit_code": 3, "error": "red"}, "failed", "failed"),
        ({"exit_code": 3}, "failed", "failed"),
        ({"outcome": "timeout"}, "timeout", "timed_out"),
        ({"outcome": "cancelled"}, "cancelled", "cancelled"),
    ],
)
def test_a_manual_run_ends_with_the_given_outcome(
    installed: LocalInstallation, reported: dict[str, object], run_state: str, task_state: str
) -> None:
    task_id = installed.submit()
    ended = installed.call("end_run", run_id=begin(installed, task_id), **reported)
    assert (ended["state"], state(installed, task_id)) == (run_state, task_state)
    if run_state == "failed":
        assert ended["error"] == reported.get("error", "exit code 3")
        assert ended["exit_code"] == 3


@pytest.mark.parametrize(
    ("reported", "named"),
    [
        ({}, "exit_code"),
        ({"outcome": "perfect"}, "outcome"),
        ({"outcome": "succeeded", "exit_code": 1}, "outcome"),
        ({"exit_code": 1, "error_class": "bad luck"}, "error_class"),
    ],
)
def test_contradictory_outcomes_are_refused(
    installed: LocalInstallation, reported: dict[str, object], named: str
) -> None:
    run_id = begin(installed, installed.submit())
    with pytest.raises(DetentError) as caught:
        installed.call("end_run", run_id=run_id, **reported)
    assert caught.value.details["field"] == named
    assert installed.call("show_run", run_id=run_id)["state"] == "running"


def test_a_run_of_a_worker_is_refused(installed: LocalInstallation) -> None:
    task_id = installed.submit()
    installed.claim()
    calls: list[tuple[str, dict[str, object]]] = [
        ("begin_run", {"job_id": f"{task_id}-j1"}),
        ("end_run", {"run_id": f"{task_id}-j1-r1", "exit_code": 0}),
        ("set_task_state", {"task_id": task_id, "state": "ready"}),
        ("set_task_state", {"task_id": task_id, "state": "cancelled"}),
    ]
    for name, arguments in calls:
        with pytest.raises(DetentError) as caught:
            installed.call(name, **arguments)
        assert (caught.value.code, caught.value.details["worker"]) == ("held_by_worker", "w")
    assert state(installed, task_id) == "running"


def test_a_run_ends_once(installed: LocalInstallation) -> None:
    run_id = begin(installed, installed.submit())
    installed.call("end_run", run_id=run_id, exit_code=0)
    with pytest.raises(DetentError) as caught:
        installed.call("end_run", run_id=run_id, exit_code=1)
    assert caught.value.code == "stale_fence"


def test_a_plan_is_not_run_manually(installed: LocalInstallation) -> None:
    task_id = installed.submit(options={"plan": {"steps": [{"name": "a", "intent": "runQA"}]}})
    with pytest.raises(DetentError) as caught:
        installed.call("begin_run", job_id=f"{task_id}-j1")
    assert caught.value.code == "not_claimable"


def test_work_of_another_project_is_not_found(installed: LocalInstallation) -> None:
    task_id = installed.submit(project="theirs")
    for name, arguments in (
        ("begin_run", {"job_id": f"{task_id}-j1"}),
        ("set_task_state", {"task_id": task_id, "state": "done"}),
    ):
        with pytest.raises(DetentError) as caught:
            installed.call(name, OURS, **arguments)
        assert caught.value.code.startswith("unknown_")


# ---- states ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["todo", "doing", "blocked", "done", "cancelled"])
def test_a_board_task_is_set_to_each_state(installed: LocalInstallation, wanted: str) -> None:
    task_id = installed.submit(lifecycle="board", run=False)
    moved = installed.call("set_task_state", task_id=task_id, state=wanted, reason="because")
    assert moved["state"] == wanted == state(installed, task_id)


@pytest.mark.parametrize(
    "wanted", ["queued", "running", "blocked", "ready", "failed", "timed_out", "cancelled"]
)
def test_a_review_task_is_set_to_each_state(installed: LocalInstallation, wanted: str) -> None:
    task_id = installed.submit(run=False)
    assert installed.call("set_task_state", task_id=task_id, state=wanted)["state"] == wanted


def test_a_manually_blocked_task_shows_why_and_continues(installed: LocalInstallation) -> None:
    task_id = installed.submit(lifecycle="board")
    installed.call("set_task_state", task_id=task_id, state="blocked", reason="waits for a part")
    shown = installed.call("show_task", task_id=task_id)
    assert (shown["blocked_by"], shown["blocked_detail"]["text"]) == (
        "question",
        "waits for a part",
    )
    assert installed.call("set_task_state", task_id=task_id, state="todo")["state"] == "todo"
    assert installed.call("set_task_state", task_id=task_id, state="done")["state"] == "done"


def test_the_current_manual_run_is_used_again(installed: LocalInstallation) -> None:
    task_id = installed.submit()
    begin(installed, task_id)
    installed.call("set_task_state", task_id=task_id, state="ready")
    assert len(installed.call("task_runs", task_id=task_id)["items"]) == 1


@pytest.mark.parametrize("wanted", ["completed", "pending", "perfect"])
def test_review_states_are_not_set_manually(installed: LocalInstallation, wanted: str) -> None:
    task_id = installed.submit()
    with pytest.raises(DetentError) as caught:
        installed.call("set_task_state", task_id=task_id, state=wanted)
    assert caught.value.code == "unknown_state"
    assert "ready" in str(caught.value.details["allowed"])


def test_an_ended_task_keeps_its_state(installed: LocalInstallation) -> None:
    task_id = installed.submit(lifecycle="board")
    installed.call("set_task_state", task_id=task_id, state="done")
    for wanted in ("todo", "doing", "cancelled"):
        with pytest.raises(DetentError):
            installed.call("set_task_state", task_id=task_id, state=wanted)
    assert state(installed, task_id) == "done"
