"""The event log of a simulation with injected faults is a sequence of steps of the TLA+ model."""

from collections.abc import Mapping

import pytest

from detent.kernel import events as e
from detent.task_lifecycles import SHIPPED
from verification.lifecycle_model.trace_check import (
    Transitions,
    check_log,
    records_of,
    transitions_of,
)
from verification.simulation.simulation_run import simulate


@pytest.fixture(scope="module")
def allowed() -> Mapping[str, Transitions]:
    return {name: transitions_of(each) for name, each in SHIPPED.items()}


@pytest.fixture(scope="module")
def log() -> list[e.Record]:
    found: list[e.Record] = []
    outcome = simulate(3, 3_000, keep_log=lambda log: found.extend(records_of(log)))
    assert outcome.failure is None
    return found


def test_the_log_of_a_simulation_follows_the_model(
    log: list[e.Record], allowed: Mapping[str, Transitions]
) -> None:
    checked = check_log(log, allowed)
    assert checked.offences == []
    assert checked.tasks >= 10
    assert checked.steps >= 100


def _started_alone(log: list[e.Record], allowed: Mapping[str, Transitions]) -> int:
    """The place after the last start of a task that the model covers."""
    places = [place for place, each in enumerate(log) if isinstance(each.event, e.TaskStarted)]
    for place in reversed(places):
        blocked = e.Record(log[place].stream, None, e.TaskBlocked("retry", {}, 1), -1, "planted")
        if check_log([*log[: place + 1], blocked], allowed).offences:
            return place + 1
    raise AssertionError("no task of the log is alone")


def test_an_event_that_the_job_does_not_have_is_found(
    log: list[e.Record], allowed: Mapping[str, Transitions]
) -> None:
    """The table allows it; the model does not: the job still runs."""
    place = _started_alone(log, allowed)
    task_id = log[place - 1].stream
    planted = e.Record(task_id, None, e.TaskBlocked("retry", {}, 1), log[-1].at + 1, "planted")
    [found] = check_log([*log[:place], planted], allowed).offences
    assert found.task == task_id
    assert found.events == ("task_blocked",)
    assert found.after.job == "running"


def test_an_event_that_the_table_does_not_have_is_found(
    log: list[e.Record], allowed: Mapping[str, Transitions]
) -> None:
    place = _started_alone(log, allowed)
    planted = log[place - 1]._replace(event=e.TaskQueued("another"), at=log[-1].at + 1)
    [found] = check_log([*log[:place], planted], allowed).offences
    assert found.after.outside == "task_queued"


def test_an_event_that_was_left_out_is_found(
    log: list[e.Record], allowed: Mapping[str, Transitions]
) -> None:
    place = _started_alone(log, allowed)
    assert check_log(log[: place - 1], allowed).offences
