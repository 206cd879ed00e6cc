"""Runs that fail: retries by class, exhaustion, rate limits, hand-backs, and a person's retry."""

import pytest

from detent.kernel import commands as c
from detent.kernel import predicates
from detent.kernel.retry import Again, verdict
from tests.kernel.stories.world import KEEPER, MINUTE, WORKER, Story, running


def test_a_network_error_on_the_board_is_retried_later() -> None:
    s = running("board")
    assert s.fail("network") == "run_failed(network) job_retrying(30s) task_blocked(retry)"
    assert s.task().retries_left == 3
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_completed"


def test_a_claim_that_finds_a_due_retry_requeues_it_first() -> None:
    s = running("board")
    s.fail("network")
    assert s.refused(c.ClaimJob("T-j1", "w", "n"), WORKER).code == "not_claimable"
    s.later(30)
    assert s.claim() == (
        "job_requeued(due) task_unblocked job_running run_queued(2) run_started task_started"
    )


def test_other_errors_on_the_board_until_none_is_left_and_a_person_retries() -> None:
    s = running("board")
    assert s.fail() == "run_failed(error) job_retrying(1s) task_blocked(retry)"
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    assert s.fail() == "run_failed(error) job_retrying(2s) task_blocked(retry)"
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(3) run_started task_started"
    assert s.fail() == "run_failed(error) job_retrying(4s) task_blocked(retry)"
    assert s.task().retries_left == 1  # the one that is pending
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(4) run_started task_started"
    assert s.fail() == "run_failed(error) job_failed(error) task_blocked(error,0)"
    assert s.look() == ""
    assert s.do(c.RetryTask("T")) == "task_unblocked job_requeued(retried)"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.fail() == "run_failed(error) job_retrying(1s) task_blocked(retry)"
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_completed"


def test_a_network_error_of_a_review_task() -> None:
    s = running("review")
    assert s.fail("network") == "run_failed(network) job_retrying(30s) task_blocked(retry)"
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_ready"


def test_another_error_of_a_review_task_waits_for_a_person() -> None:
    s = running("review")
    assert s.fail(exit_code=1) == "run_failed(error) job_failed(error) task_failed(error)"
    refusal = s.refused(c.CancelTask("T"))
    assert (refusal.code, refusal.details["legal"]) == ("illegal_transition", ["task_retried"])
    assert s.do(c.QueueTask("T")) == "task_retried job_requeued(retried)"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_ready"


def test_four_network_errors_of_a_review_task() -> None:
    s = running("review")
    for delay_s in (30, 60, 120):
        events = s.fail("network")
        assert events == f"run_failed(network) job_retrying({delay_s}s) task_blocked(retry)"
        assert s.due() == "job_requeued(due) task_unblocked"
        s.claim()
    assert s.fail("network") == "run_failed(network) job_failed(network) task_failed(network)"


def test_a_job_alone_with_two_attempts_and_a_persons_retry() -> None:
    s = running("job", retry={"max_attempts": 2})
    assert s.fail() == "run_failed(error) job_retrying(1s)"
    assert s.refused(c.RetryJob("J")).code == "illegal_transition"
    assert s.due() == "job_requeued(due)"
    assert s.claim() == "job_running run_queued(2) run_started"
    assert s.refused(c.RetryJob("J")).code == "illegal_transition"
    assert s.fail() == "run_failed(error) job_failed(error)"
    assert s.do(c.RetryJob("J")) == "job_requeued(retried)"
    assert s.refused(c.RetryJob("J")).code == "illegal_transition"
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.succeed() == "run_succeeded job_completed"
    assert s.refused(c.RetryJob("J")).code == "illegal_transition"


@pytest.mark.parametrize(("lifecycle", "end"), [("board", "completed"), ("review", "ready")])
def test_a_rate_limit_is_waited_out_in_the_same_attempt(lifecycle: str, end: str) -> None:
    s = running(lifecycle)
    events = s.fail("rate_limit", reset_at=s.now + 10 * MINUTE)
    assert events == "run_failed(rate_limit) job_retrying(600s) task_blocked(rate_limit)"
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    events = s.fail("rate_limit")  # no reset is stated
    assert events == "run_failed(rate_limit) job_retrying(60s) task_blocked(rate_limit)"
    s.due()
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.job().failures == {}
    assert s.succeed() == f"run_succeeded job_completed task_{end}"


def test_a_rate_limit_of_a_job_alone() -> None:
    s = running("job")
    events = s.fail("rate_limit", reset_at=s.now + MINUTE)
    assert events == "run_failed(rate_limit) job_retrying(60s)"
    s.due()
    assert s.claim() == "job_running run_queued(1) run_started"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_retry_that_is_due_immediately(lifecycle: str) -> None:
    s = running(lifecycle, retry={"classes": {"network": {"delay_ms": 0}}})
    in_work = s.task().state
    assert s.fail("network") == "run_failed(network) job_requeued(network)"
    assert s.task().state == in_work
    assert s.claim() == "job_running run_queued(2) run_started"
    assert s.job().failures == {"network": 1}
    assert s.succeed().startswith("run_succeeded job_completed task_")


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_work_that_is_handed_back_goes_on_in_the_same_attempt(lifecycle: str) -> None:
    s = running(lifecycle)
    assert s.hand_back() == (
        "run_cancelled(handed_back) job_requeued(handed_back) task_blocked(retry) task_unblocked"
    )
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.job().lost == 0


def test_a_job_alone_that_is_handed_back() -> None:
    s = running("job")
    assert s.hand_back() == "run_cancelled(handed_back) job_requeued(handed_back)"
    assert s.claim() == "job_running run_queued(1) run_started"


@pytest.mark.parametrize("verb", [c.RetryTask, c.UnblockTask])
@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_person_does_not_want_to_wait_for_the_retry(
    lifecycle: str, verb: type[c.RetryTask] | type[c.UnblockTask]
) -> None:
    s = running(lifecycle)
    s.fail("network")
    assert s.do(verb("T")) == "task_unblocked job_requeued(released)"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    assert s.job().failures == {
        "network": 1
    }  # counts start again only after the last attempt failed


def test_the_keeper_finds_a_retry_that_is_due() -> None:
    s = running("board")
    assert s.look() == ""
    s.fail("network")
    assert s.look() == ""
    assert s.refused(c.RequeueJob("T-j1"), KEEPER).code == "not_due"
    s.later(30)
    assert s.look() == "job_requeued(due) task_unblocked"


def test_a_run_again_begins_a_fresh_session_and_a_resumed_one_keeps_it() -> None:
    s = running("review")
    s.do(c.OpenSession(s.grant(), "session-1"), WORKER)
    s.time_out()
    assert s.do(c.ResumeTask("T")) == "task_resumed job_requeued(retried)"
    assert s.task().session_id == "session-1"
    s.claim()
    s.time_out()
    assert s.do(c.RetryTask("T")) == "task_retried job_requeued(retried)"
    assert s.task().session_id is None


def test_an_unknown_class_is_invalid() -> None:
    s = running("board")
    refusal = s.refused(c.FailRun(s.grant(), s.run_id(), "weather", "rain"), WORKER)
    assert refusal.code == "invalid"


@pytest.mark.parametrize(
    "verb", [c.AcceptTask("T"), c.RejectTask("T"), c.ResumeTask("T"), c.RetryTask("T")]
)
def test_a_board_task_knows_no_verb_of_review(verb: c.Command) -> None:
    s = Story()
    s.submit("board")
    s.cancel()
    assert s.refused(verb).code == "illegal_transition"


def test_the_next_attempt_is_computed_once_for_each_failed_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []

    def counted(*given: object) -> Again | None:
        computed.append(given)
        return verdict(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(predicates, "verdict", counted)
    for kind in ("network", "budget"):  # one is retried, one is not
        computed.clear()
        running("board").fail(kind)
        assert len(computed) == 1, kind
