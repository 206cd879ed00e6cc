"""Each property of the TLA+ model has a lifecycle, or a change of the model, that violates it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from detent.errors import Broken, Misconfigured, TooLarge
from detent.kernel.lifecycle import Row
from detent.kernel.task_lifecycle import Predicate, Rule, TaskLifecycle, Trigger
from detent.lifecycle_tla import Bounds, configuration, export
from detent.lifecycle_tla.checker import Model, check, run
from detent.lifecycle_tla.error_trace import lines
from detent.task_lifecycles import SHIPPED
from tests.lifecycles.declared_documents import document

BOARD = SHIPPED["board"]


def without_rule(lifecycle: TaskLifecycle, when: Trigger) -> TaskLifecycle:
    return replace(lifecycle, rules=tuple(each for each in lifecycle.rules if each.when != when))


def no_start() -> TaskLifecycle:
    """The task stays in the queue while its job runs."""
    return without_rule(BOARD, Trigger.RUN_STARTED)


def no_job_for_second_round() -> TaskLifecycle:
    """Sent back, the task waits in the queue without a job."""
    return replace(document("release"), queues=("task_requested",))


def rounds_by_rule() -> TaskLifecycle:
    """A rule counts rounds and does not ask whether one is left."""
    reminder = document("reminder")
    again = Rule(Trigger.JOB_COMPLETED, ("task_checked_again",), (Predicate.RESULT_IS_FALSE,))
    others = [each for each in reminder.rules if "task_checked_again" not in each.then]
    return replace(reminder, rules=(again, *others))


def event_without_row() -> TaskLifecycle:
    """A rule sends task_completed where the table does not have it."""
    rows = tuple(each for each in BOARD.rows if each.event != "task_completed")
    return replace(BOARD, rows=rows)


def state_without_end() -> TaskLifecycle:
    """A failed task cannot be cancelled, retried or unblocked."""
    trap = replace(BOARD.states[0], name="trap")
    rows = [each for each in BOARD.rows if each.event != "task_failed"]
    failed = Row("doing", "task_failed", "trap", "worker", "it failed")
    rules = (Rule(Trigger.JOB_FAILED, ("task_failed",)), *BOARD.rules)
    return replace(BOARD, states=(*BOARD.states, trap), rows=(*rows, failed), rules=rules)


def way_out_of_the_end() -> TaskLifecycle:
    """A person cancels what is done."""
    late = Row("done", "task_cancelled", "cancelled", "person", "too late")
    return replace(BOARD, rows=(*BOARD.rows, late))


VIOLATED: tuple[tuple[str, Callable[[], TaskLifecycle]], ...] = (
    ("PhaseFitsJob", no_start),
    ("RoundsStayInLimit", rounds_by_rule),
    ("NoEventOutsideOfTable", event_without_row),
    ("AnEndStaysReachable", state_without_end),
    ("EndsAreFinal", way_out_of_the_end),
    ("QueueIsServed", no_job_for_second_round),
)


@pytest.mark.parametrize(("name", "make"), VIOLATED)
def test_a_property_is_violated_by_a_lifecycle(
    name: str, make: Callable[[], TaskLifecycle]
) -> None:
    is_temporal = name in ("EndsAreFinal", "QueueIsServed")
    chosen = ((), (name,)) if is_temporal else ((name,), ())
    found = check(make(), Bounds(retries=0, lost=0), *chosen)
    assert found.violated == name
    assert len(found.steps) > 1


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("TypeOK", 'WithJob(v, t, "queued")\n', 'WithJob(v, t, "lined up")\n'),
        ("CancelIsObeyed", '{JobCancelled(w, t, "cancelled")}\n', '{WithJob(w, t, "queued")}\n'),
        ("EveryRunEnds", "/\\ WF_tasks(EndOfRun(t))\n", "/\\ TRUE\n"),
    ],
)
def test_a_property_is_violated_by_a_changed_model(name: str, old: str, new: str) -> None:
    module = export(BOARD)
    assert old in module
    chosen = ((name,), ()) if name == "TypeOK" else ((), (name,))
    settings = configuration(BOARD, Bounds(retries=1, lost=0, ends=False), *chosen)
    found = run(Model("board", module.replace(old, new), settings))
    assert found.violated is not None


def test_a_violation_is_shown_as_plain_steps() -> None:
    found = check(no_start())
    assert found.violated == "PhaseFitsJob"
    assert lines(found.steps) == [
        "1. the task is created: task: state inbox",
        "2. a person sends task_queued: task: state todo, job queued",
        "3. a worker claims the job: task: job running",
    ]


def test_a_run_over_its_time_limit_is_stopped() -> None:
    with pytest.raises(TooLarge, match=r"did not finish within 0\.1 s"):
        check(BOARD, limit_s=0.1)


def test_a_module_that_tlc_cannot_read_is_an_error() -> None:
    with pytest.raises(Broken, match="TLC failed"):
        run(Model("board", "---- MODULE board ----\nnonsense\n====", "INIT Init"))


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Misconfigured, match="no program java") as caught:
        check(BOARD)
    assert "openjdk-17-jre-headless" in (caught.value.hint or "")
