"""Timers and signals of jobs without a plan: early, late, repeated, expired, and at rest."""

import pytest

from detent.kernel import commands as c
from detent.kernel.decide import review
from detent.kernel.entities import Resource
from tests.kernel.stories.world import DAY, KEEPER, SECOND, WORKER, Story, plan, running

KEPT_RUNNING = {"board": "task_completed", "review": "task_ready"}


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_short_sleep_leaves_the_task_in_work(lifecycle: str) -> None:
    s = running(lifecycle)
    assert s.suspend("timer", seconds=20) == "run_succeeded(suspended) job_waiting(timer)"
    assert s.task().state in ("doing", "running")
    assert s.wake() == "wait_completed(due)"
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.succeed() == f"run_succeeded job_completed {KEPT_RUNNING[lifecycle]}"


def test_a_sleep_of_exactly_a_minute_waits_and_a_longer_one_parks() -> None:
    s = running("job")
    assert s.suspend("timer", seconds=60) == "run_succeeded(suspended) job_waiting(timer)"
    s = running("job")
    assert s.suspend("timer", seconds=60.000001) == "run_succeeded(suspended) job_parked(timer)"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_long_wait_for_a_signal_parks(lifecycle: str) -> None:
    s = running(lifecycle)
    assert s.suspend("signal", needs=("go",), due_at=s.now + DAY) == (
        "run_succeeded(suspended) job_parked(signal)"
    )
    assert s.refused(c.ReclaimJob("T-j1", s.job().fence), KEEPER).code == "not_due"
    assert s.refused(c.ClaimJob("T-j1", "w", "n"), WORKER).code == "not_claimable"
    assert s.signal("go", 7) == "wait_completed(signalled)"
    assert s.answer == "delivered"
    assert s.fact("wait_completed").value == {"go": 7}
    assert s.signal("go", 8) == ""
    assert s.answer == "repeated"
    assert s.facts() == []
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.succeed() == f"run_succeeded job_completed {KEPT_RUNNING[lifecycle]}"


def test_a_wait_that_expires_is_reported_to_the_code_and_fails_nothing() -> None:
    s = running("job")
    events = s.suspend("signal", needs=("go",), seconds=30)
    assert events == "run_succeeded(suspended) job_waiting(signal)"
    assert s.refused(c.WakeJob("J", "wait"), KEEPER).code == "not_due"
    assert s.wake() == "wait_completed(expired)"
    assert s.refused(c.WakeJob("J", "wait"), KEEPER).code == "not_due"
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.succeed() == "run_succeeded job_completed"


def test_signals_before_their_wait_are_kept_and_wake_no_job() -> None:
    s = Story()
    s.submit_job()
    assert s.signal("go", "early") == ""
    assert (s.answer, s.facts()) == ("kept", ["signal_received"])
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.signal("other") == ""
    assert (s.answer, s.facts()) == ("kept", ["signal_received"])
    assert s.suspend("signal", needs=("go",)) == (
        "run_succeeded(suspended) job_waiting(signal) wait_completed(signalled)"
    )
    assert s.fact("wait_completed").value == {"go": "early"}
    assert s.claim() == "job_running run_queued(1) run_started"


def test_a_wait_for_two_signals_ends_with_the_second() -> None:
    s = running("job")
    s.signal("one")
    s.suspend("signal", needs=("one", "two"))
    assert s.signal("three") == ""
    assert s.signal("two") == "wait_completed(signalled)"
    assert s.fact("wait_completed").value == {"one": None, "two": None}


def test_an_ended_job_gets_no_signals() -> None:
    s = running("job")
    s.succeed()
    assert s.refused(c.SendSignal("J", "go")).code == "job_ended"


def test_early_signals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "MAX_EARLY_SIGNALS", 2)
    s = running("job")
    s.signal("one")
    s.signal("two")
    assert s.refused(c.SendSignal("J", "three")).code == "too_many_signals"
    assert s.signal("two") == ""
    s.suspend("signal", needs=("one",))
    assert s.signal("three") == ""  # a signal that was taken makes room


def test_a_name_is_used_once_in_a_job() -> None:
    s = running("job")
    s.do(c.RecordCheckpoint(s.grant(), "first", 1), WORKER)
    again = c.RecordCheckpoint(s.grant(), "first", 2)
    assert s.refused(again, WORKER).code == "name_used_twice"
    wait = c.SuspendRun(s.grant(), s.run_id(), "first", "timer", due_at=s.now)
    assert s.refused(wait, WORKER).code == "name_used_twice"
    assert s.refused(c.BeginEffect(s.grant(), "first", "manual"), WORKER).code == "name_used_twice"


def test_an_effect_begins_and_is_recorded_once() -> None:
    s = running("job")
    s.do(c.BeginEffect(s.grant(), "pay", "idempotent"), WORKER)
    assert s.facts() == ["effect_begun"]
    s.do(c.RecordCheckpoint(s.grant(), "pay", "receipt"), WORKER)
    assert s.fact("checkpoint_recorded").kind == "effect"
    again = c.RecordCheckpoint(s.grant(), "pay", "receipt")
    assert s.refused(again, WORKER).code == "name_used_twice"


@pytest.mark.parametrize("kind", ["weather", "resource", "retry"])
def test_code_can_wait_only_for_what_there_is(kind: str) -> None:
    s = running("job")
    command = c.SuspendRun(s.grant(), s.run_id(), "wait", kind)
    assert s.refused(command, WORKER).code == "invalid"


def test_a_wait_that_turns_out_long_is_parked() -> None:
    """A job that lacks a resource looks again ever more rarely, and parks after a minute."""
    gpu = Resource("r1", ("gpu",))
    s = Story(gpu)
    s.submit_job("K", plan=plan("A", capabilities_required=["gpu"]))
    s.claim("K", "A")
    s.submit_job(plan=plan("A", capabilities_required=["gpu"]))
    s.claim()
    assert s.refused(c.StartStep(s.grant(), "A"), WORKER).code == "no_resource"
    assert s.rest() == "job_waiting(resource)"
    assert [_pause_s(s) for _ in range(4)] == [5, 10, 20, 40]
    assert s.job().state == "waiting"
    assert s.wake("resource:1") == "job_parked(resource)"
    assert _pause_s(s) == 60
    s.succeed("K", "A")
    assert s.wake("resource:1") == "wait_completed(available)"
    assert s.claim("", "A") == (
        "job_running A:step_leased(r1) A:step_running(r1) A:run_queued(1) A:run_started"
    )


def _pause_s(s: Story) -> float:
    """How long the job waits before it looks again."""
    assert s.wake("resource:1") == ""
    assert s.facts() == ["wait_postponed"]
    due_at: int = s.fact("wait_postponed").due_at
    return (due_at - s.now) / SECOND
