"""Cancelling a plan: what becomes of its steps, and which success still counts."""

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Resource
from tests.kernel.stories.world import MINUTE, WORKER, plan, running_plan


def test_a_running_plan_in_all_its_states() -> None:
    s = running_plan("board", "A", plan=plan("A", "B", "C", "D", "E < B"))
    s.succeed(step="A")
    s.start("B")
    s.start("D")
    s.suspend("signal", needs=("go",), step="D")
    s.happened("T-j1", (e.StepLeased("local"), "C"))
    assert s.cancel() == ""
    assert s.refused(c.StartStep(s.grant(), "C"), WORKER).code == "step_not_startable"
    assert s.stopped() == (
        "B:run_cancelled job_cancelled "
        "B:step_failed_fatal(cancelled) B:step_failed "
        "C:step_lease_timeout C:step_pending "
        "D:step_failed_fatal(cancelled) D:step_failed task_cancelled"
    )
    assert [s.step(name).state for name in "ABCDE"] == [
        *("succeeded", "failed", "pending", "failed", "waiting_deps"),
    ]


def test_a_parked_plan_in_all_its_states() -> None:
    gpu = Resource("r1", ("gpu",)), Resource("r2", ("gpu",), healthy=False)
    s = running_plan(
        "review",
        *("A", "B", "C", "D"),
        plan=plan("A", "B", "C", {"name": "D", "capabilities_required": ["gpu"]}, "E < A"),
        resources=gpu,
    )
    s.suspend("signal", needs=("go",), step="A")
    s.fail("needs_user", step="B")
    s.fail("network", step="C")
    s.fail("resource", step="D")
    assert s.rest() == "job_waiting(resource) task_blocked(needs_user)"
    assert s.cancel() == (
        "job_cancelled A:step_failed_fatal(cancelled) A:step_failed task_cancelled"
    )
    assert [s.step(name).state for name in "ABCDE"] == [
        *("failed", "needs_user", "retrying", "switching_resource", "waiting_deps"),
    ]


def test_a_step_that_succeeds_after_the_cancel_is_kept_but_starts_no_other() -> None:
    s = running_plan("review", "A", plan=plan("A", "B < A"))
    s.cancel()
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_cancelled task_cancelled"
    assert s.step("B").state == "waiting_deps"


def test_the_last_step_that_succeeds_beats_the_cancel() -> None:
    s = running_plan("review", "A", plan=plan("A"))
    s.cancel()
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_completed task_ready"


def test_a_cancel_waits_for_every_run_of_the_plan() -> None:
    s = running_plan("board", "A", "B", plan=plan("A", "B"))
    s.cancel()
    events = s.fail("network", step="A")
    assert events == "A:run_failed(network) A:step_failed_retryable(network) A:step_retrying(30s)"
    assert s.time_out(step="B") == (
        "B:run_timed_out(run) B:step_failed_retryable(timeout) "
        f"B:step_retrying({5 * MINUTE // 1_000_000}s) job_cancelled task_cancelled"
    )


def test_the_last_step_that_fails_does_not_beat_the_cancel() -> None:
    s = running_plan("board", "A", plan=plan("A", max_retries=0))
    s.cancel()
    assert s.fail(step="A") == (
        "A:run_failed(error) A:step_failed_fatal(error) A:step_failed(retry) "
        "job_cancelled task_cancelled"
    )


def test_a_worker_that_is_lost_after_the_cancel() -> None:
    s = running_plan("board", "A", plan=plan("A"))
    s.cancel()
    assert s.reclaim() == (
        "A:run_cancelled(worker_lost) job_cancelled "
        "A:step_failed_fatal(cancelled) A:step_failed task_cancelled"
    )
