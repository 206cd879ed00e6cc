"""The event log of a simulation with injected faults is a sequence of steps of the TLA+ model."""

from collections.abc import Sequence

import pytest

from detent.kernel import events as e
from detent.kernel.derived_ids import job_of_task
from verification.lifecycle_model.related_tasks import DEPENDENCY, SUBTASK, TASK, relations_of
from verification.lifecycle_model.task_traces import records_of, traces_of
from verification.lifecycle_model.trace_check import Checked, check
from verification.simulation.simulation_run import simulate


def checked(records: Sequence[e.Record]) -> Checked:
    return check([traces_of(records)])


@pytest.fixture(scope="module")
def log() -> list[e.Record]:
    found: list[e.Record] = []
    outcome = simulate(7, 3_000, keep_log=lambda log: found.extend(records_of(log)))
    assert outcome.failure is None
    return found


def test_the_log_of_a_simulation_follows_the_model(log: list[e.Record]) -> None:
    found = checked(log)
    assert found.offences == []
    assert found.tasks >= 10
    assert found.steps >= 100


# ---- planted events --------------------------------------------------------------------------


def started_alone(log: list[e.Record]) -> int:
    """The place after the last start of a task without relations."""
    alone = {each[TASK] for each in relations_of(log).followed() if len(each) == 1}
    places = [
        place
        for place, each in enumerate(log)
        if isinstance(each.event, e.TaskStarted) and each.stream in alone
    ]
    return places[-1] + 1


def test_an_event_that_the_job_does_not_have_is_found(log: list[e.Record]) -> None:
    """The table allows it; the model does not: the job still runs."""
    place = started_alone(log)
    task_id = log[place - 1].stream
    planted = e.Record(task_id, None, e.TaskBlocked("retry", {}, 1), log[-1].at + 1, "planted")
    [found] = checked([*log[:place], planted]).offences
    assert found.task == task_id
    assert found.events == ("task_blocked",)
    assert dict(found.after)[TASK].job == "running"


def test_an_event_that_the_table_does_not_have_is_found(log: list[e.Record]) -> None:
    place = started_alone(log)
    planted = log[place - 1]._replace(event=e.TaskQueued("another"), at=log[-1].at + 1)
    [found] = checked([*log[:place], planted]).offences
    assert dict(found.after)[TASK].outside == "task_queued"


def test_an_event_that_was_left_out_is_found(log: list[e.Record]) -> None:
    assert checked(log[: started_alone(log) - 1]).offences


# ---- related tasks ---------------------------------------------------------------------------


def created(name: str, **more: object) -> e.TaskCreated:
    given = {"project": "p", "lifecycle": "board", "intent": "build", "source": "cli", **more}
    return e.TaskCreated(priority="P2", root_id=name, **given)  # type: ignore[arg-type]


def records(*events: tuple[str, e.Event]) -> list[e.Record]:
    """A transaction for each event."""
    return [e.Record(name, None, event, at, "test") for at, (name, event) in enumerate(events)]


def queued(name: str, at: int, **more: object) -> list[e.Record]:
    """A task that is submitted and queued in one transaction."""
    job = job_of_task(name, 1)
    new = e.JobCreated("p", "build", "P2", name, task_id=name)
    events: list[tuple[str, e.Event]] = [
        (name, created(name, **more)),
        (name, e.TaskQueued(job)),
        (job, new),
    ]
    return [e.Record(stream, None, event, at, "test") for stream, event in events]


def test_a_task_is_followed_with_its_subtask_and_its_dependency() -> None:
    log = records(
        ("first", created("first")),
        ("task", created("task", depends_on=("first",))),
        ("below", created("below", parent_id="task")),
    )
    related = {each[TASK]: each for each in relations_of(log).followed()}
    assert related == {
        "first": {TASK: "first"},
        "task": {TASK: "task", SUBTASK: "below", DEPENDENCY: "first"},
    }


@pytest.mark.parametrize(
    "others",
    [
        [("below", {"parent_id": "task"}), ("below too", {"parent_id": "task"})],
        [("below", {"parent_id": "task"}), ("deeper", {"parent_id": "below"})],
        [("below", {"parent_id": "task", "lifecycle": "review"})],
        [("below", {"parent_id": "task", "options": {"plan": []}})],
        [("below", {"parent_id": "task", "depends_on": ("task",)})],
    ],
)
def test_what_the_model_does_not_have_is_left_out(
    others: list[tuple[str, dict[str, object]]],
) -> None:
    events = [("task", created("task")), *((name, created(name, **more)) for name, more in others)]
    found = traces_of(records(*events))
    assert (found.traces, found.left_out) == ([], len(events))


def test_a_task_that_waits_for_its_dependency_is_followed() -> None:
    """It is blocked when it is queued; an event that starts it nevertheless is found."""
    log = [
        *records(("first", created("first"))),
        *queued("task", 1, depends_on=("first",), open_dependencies=1),
        e.Record("task", None, e.TaskBlocked("dependency", {"on": ["first"]}), 1, "test"),
    ]
    assert checked(log).offences == []
    unblocked = e.Record("task", None, e.TaskUnblocked("dependency"), 2, "planted")
    [found] = checked([*log, unblocked]).offences
    assert (found.task, found.events) == ("task", ("task_unblocked",))
    assert dict(found.before)[DEPENDENCY].state == "inbox"


def test_a_parent_that_is_done_before_its_subtask_is_found() -> None:
    job, run = job_of_task("task", 1), job_of_task("task", 1) + "-r1"
    log = [
        *queued("task", 1),
        *queued("below", 2, parent_id="task"),
        e.Record("task", None, e.SubtaskAdded("below"), 2, "test"),
    ]
    assert checked(log).offences == []
    ended = [
        e.Record(job, None, e.JobRunning("w", "n", 1, 1, run), 3, "worker:w"),
        e.Record("task", None, e.TaskStarted(run), 3, "worker:w"),
        e.Record(job, None, e.JobCompleted(True), 4, "worker:w"),
        e.Record("task", None, e.TaskCompleted(), 4, "worker:w"),
    ]
    [found] = checked([*log, *ended]).offences
    assert (found.task, found.events) == ("task", ("job_completed", "task_completed"))
