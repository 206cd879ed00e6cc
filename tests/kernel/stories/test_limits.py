"""Limits on time: in the queue, of the whole job, of a run, without output, and of a wait."""

from collections.abc import Callable

import pytest

from detent.kernel import commands as c
from tests.kernel.stories.world import KEEPER, Story, plan, running, running_plan

HOUR_MS = 3_600_000


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_no_worker_claimed_it_in_time(lifecycle: str) -> None:
    s = Story()
    s.submit(lifecycle, queue_timeout_ms=HOUR_MS)
    assert s.refused(c.ExpireJob("T-j1", "queue"), KEEPER).code == "not_due"
    assert s.expire("queue") == "job_cancelled(queue_timeout) task_cancelled(queue_timeout)"
    assert s.refused(c.ExpireJob("T-j1", "queue"), KEEPER).code == "not_due"


def test_no_worker_claimed_a_job_alone_in_time() -> None:
    s = Story()
    s.submit_job(queue_timeout_ms=HOUR_MS)
    assert s.expire("queue") == "job_cancelled(queue_timeout)"


def test_what_was_claimed_in_time_has_kept_its_limit() -> None:
    s = running("board", queue_timeout_ms=HOUR_MS)
    s.fail("network")
    s.later(2 * 3_600)
    assert s.refused(c.ExpireJob("T-j1", "queue"), KEEPER).code == "not_due"


def _queued_again(s: Story) -> None:
    s.suspend("timer", seconds=5)
    s.wake()


@pytest.mark.parametrize(
    "pause",
    [
        _queued_again,
        lambda s: s.suspend("timer", seconds=5),
        lambda s: s.suspend("signal", needs=("go",)),
        lambda s: s.suspend("question"),
        lambda s: s.fail("network"),
    ],
    ids=["queued again", "waiting", "parked", "blocked", "retrying"],
)
@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_the_whole_job_took_too_long_while_nothing_ran(
    lifecycle: str, pause: Callable[[Story], object]
) -> None:
    s = running(lifecycle, job_timeout_ms=HOUR_MS)
    pause(s)
    assert s.expire("job") == "job_cancelled(job_timeout) task_cancelled(job_timeout)"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_the_whole_job_took_too_long_while_it_ran(lifecycle: str) -> None:
    s = running(lifecycle, job_timeout_ms=HOUR_MS)
    assert s.expire("job") == ""
    assert s.facts() == ["task_cancel_requested", "job_cancel_requested"]
    assert s.expire("job") == ""
    assert s.facts() == []
    assert s.stopped() == (
        "run_cancelled(job_timeout) job_cancelled(job_timeout) task_cancelled(job_timeout)"
    )


def test_a_job_alone_took_too_long_while_it_ran() -> None:
    s = running("job", job_timeout_ms=HOUR_MS)
    assert s.expire("job") == ""
    assert s.stopped() == "run_cancelled(job_timeout) job_cancelled(job_timeout)"


def test_a_limit_on_the_job_reaches_its_subtasks() -> None:
    s = running("board", job_timeout_ms=HOUR_MS)
    s.submit("board", "C", parent_id="T")
    assert s.expire("job") == "C:job_cancelled(job_timeout) C:task_cancelled(job_timeout)"


def test_a_persons_retry_begins_the_limits_again() -> None:
    s = running("review", job_timeout_ms=HOUR_MS, queue_timeout_ms=HOUR_MS)
    s.fail()
    s.later(2 * 3_600)
    s.do(c.RetryTask("T"))
    assert s.refused(c.ExpireJob("T-j1", "job"), KEEPER).code == "not_due"
    assert s.refused(c.ExpireJob("T-j1", "queue"), KEEPER).code == "not_due"
    assert s.expire("queue") == "job_cancelled(queue_timeout) task_cancelled(queue_timeout)"


def test_a_run_over_its_limit_on_the_board_is_tried_once_more() -> None:
    s = running("board")
    assert s.time_out() == "run_timed_out(run) job_retrying(300s) task_blocked(retry)"
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    assert s.time_out() == "run_timed_out(run) job_failed(timeout) task_blocked(error,0)"


def test_a_run_over_its_limit_in_review_is_resumed() -> None:
    s = running("review")
    assert s.time_out() == "run_timed_out(run) job_failed(timeout) task_timed_out"
    assert s.do(c.ResumeTask("T")) == "task_resumed job_requeued(retried)"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_ready"


@pytest.mark.parametrize("verb", [c.QueueTask("T"), c.RetryTask("T")])
def test_a_run_over_its_limit_in_review_is_run_again(verb: c.Command) -> None:
    s = running("review")
    s.time_out()
    assert s.do(verb) == "task_retried job_requeued(retried)"


def test_no_output_for_too_long_has_its_own_outcome() -> None:
    s = running("review")
    assert s.time_out("idle") == "run_timed_out(idle) job_failed(timeout) task_timed_out"


def test_a_run_over_its_limit_of_a_job_alone() -> None:
    s = running("job")
    assert s.time_out() == "run_timed_out(run) job_retrying(300s)"
    assert s.due() == "job_requeued(due)"


def test_the_last_failure_names_the_end() -> None:
    s = running("review")
    s.fail("network")
    s.due()
    s.claim()
    assert s.time_out() == "run_timed_out(run) job_failed(timeout) task_timed_out"


def test_a_step_over_its_limit_in_review() -> None:
    s = running_plan("review", "A", plan=plan("A", max_retries=1))
    assert s.time_out(step="A") == (
        "A:run_timed_out(run) A:step_failed_retryable(timeout) A:step_retrying(300s) "
        "job_retrying(300s) task_blocked(retry)"
    )
    assert s.task().retries_left == 1
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(2) A:run_started task_started"
    )
    assert s.time_out(step="A") == (
        "A:run_timed_out(run) A:step_failed_fatal(timeout) A:step_failed(retry) "
        "job_failed(timeout) task_timed_out"
    )


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_wait_that_expires_in_work(lifecycle: str) -> None:
    s = running(lifecycle)
    s.suspend("signal", needs=("go",), seconds=30)
    assert s.wake() == "wait_completed(expired)"
    assert s.claim() == "job_running run_queued(1) run_started"
