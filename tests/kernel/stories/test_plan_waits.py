"""Waiting inside a plan: a step that sleeps stays running without a run, beside whatever else."""

import pytest

from detent.kernel import commands as c
from detent.kernel.entities import Resource
from tests.kernel.stories.world import KEEPER, MINUTE, Story, plan, running_plan

GPU = {"capabilities_required": ["gpu"]}
R1 = Resource("r1", ("gpu",))
END = {"board": "task_completed", "review": "task_ready"}


def two(lifecycle: str, **more: object) -> Story:
    """A and B are at work, side by side."""
    return running_plan(lifecycle, "A", "B", plan=plan("A", "B", **more))


# ---- timers and signals ----------------------------------------------------------------------


def test_a_short_sleep_with_nothing_else_live() -> None:
    s = running_plan("board", "A", plan=plan("A", "B < A"))
    events = s.suspend("timer", seconds=20, step="A")
    assert events == "A:run_succeeded(suspended) job_waiting(timer)"
    assert s.wake() == "wait_completed(due)"
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded"
    assert s.start("B") == "B:step_leased B:step_running B:run_queued(1) B:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_completed task_completed"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_the_job_rests_when_the_last_live_step_ends(lifecycle: str) -> None:
    s = two(lifecycle)
    assert s.suspend("signal", needs=("go",), step="A") == "A:run_succeeded(suspended)"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_parked(signal)"
    assert s.signal("go") == "wait_completed(signalled)"
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started"
    assert s.succeed(step="A") == (
        f"A:run_succeeded A:step_succeeded job_completed {END[lifecycle]}"
    )


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_signal_while_a_sibling_is_live_wakes_the_step_in_place(lifecycle: str) -> None:
    s = two(lifecycle)
    s.suspend("signal", needs=("go",), step="A")
    assert s.signal("go") == ""
    assert (s.answer, s.facts()) == ("delivered", ["signal_received", "wait_ended"])
    assert s.start("A") == "A:run_queued(1) A:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded"
    assert s.succeed(step="A") == (
        f"A:run_succeeded A:step_succeeded job_completed {END[lifecycle]}"
    )


def test_a_timer_that_is_due_while_a_sibling_is_live_wakes_the_step_in_place() -> None:
    s = two("board")
    s.suspend("timer", seconds=20, step="A")
    assert s.refused(c.StartStep(s.grant(), "A")).code == "step_not_startable"
    assert s.wake() == ""
    assert s.facts() == ["wait_ended"]
    assert s.start("A") == "A:run_queued(1) A:run_started"


def test_a_signal_that_came_before_its_wait_lets_the_step_go_on_in_place() -> None:
    s = running_plan("board", "A", plan=plan("A"))
    s.signal("go", 1)
    assert s.suspend("signal", needs=("go",), step="A") == "A:run_succeeded(suspended)"
    assert s.facts() == ["wait_begun", "wait_ended"]
    assert s.start("A") == "A:run_queued(1) A:run_started"


def test_one_signal_for_two_steps_wakes_both() -> None:
    s = two("board")
    s.suspend("signal", "wait-a", needs=("go",), step="A")
    s.suspend("signal", "wait-b", needs=("go",), step="B")
    assert s.signal("go") == "wait_completed(signalled)"
    assert s.facts() == ["signal_received", "wait_ended"]
    assert s.claim("T", "A", "B") == (
        "job_running A:run_queued(1) A:run_started B:run_queued(1) B:run_started"
    )


def test_a_second_wait_that_ends_before_the_next_claim() -> None:
    s = two("board")
    s.suspend("signal", "wait-a", needs=("a",), step="A")
    assert s.suspend("signal", "wait-b", needs=("b",), step="B") == (
        "B:run_succeeded(suspended) job_parked(signal)"
    )
    assert s.signal("a") == "wait_completed(signalled)"
    assert s.signal("b") == ""
    assert s.facts() == ["signal_received", "wait_ended"]
    s.claim("T", "A", "B")


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_step_asks_a_question(lifecycle: str) -> None:
    s = running_plan(lifecycle, "A", plan=plan("A"))
    assert s.suspend("question", step="A") == (
        "A:run_succeeded(suspended) job_parked(question) task_blocked(question)"
    )
    events = {"board": "task_unblocked", "review": "task_answered(answered)"}[lifecycle]
    assert s.do(c.AnswerTask("T", "yes")) == f"{events} wait_completed(answered)"
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started task_started"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_two_questions_are_answered_one_after_the_other(lifecycle: str) -> None:
    s = two(lifecycle)
    s.suspend("question", "qa", step="A")
    s.suspend("question", "qb", step="B")
    assert s.task().blocked_detail["wait"] == "qa"
    assert s.do(c.AnswerTask("T", "b", "qb")) == "wait_completed(answered)"
    assert s.task().state == "blocked"
    events = {"board": "task_unblocked", "review": "task_answered(answered)"}[lifecycle]
    assert s.do(c.AnswerTask("T", "a")) == events
    assert s.facts() == ["wait_ended"]
    s.claim("T", "A", "B")
    assert s.task().state in ("doing", "running")


def test_a_wait_that_expires_while_parked() -> None:
    s = running_plan("board", "A", plan=plan("A"))
    s.suspend("signal", needs=("go",), due_at=s.now + 5 * MINUTE, step="A")
    assert s.wake() == "wait_completed(expired)"
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started"


def test_a_job_alone_with_a_plan_is_parked_and_woken() -> None:
    s = running_plan("job", "A", plan=plan("A"))
    events = s.suspend("signal", needs=("go",), step="A")
    assert events == "A:run_succeeded(suspended) job_parked(signal)"
    assert s.signal("go") == "wait_completed(signalled)"
    assert s.claim("", "A") == "job_running A:run_queued(1) A:run_started"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_completed"


# ---- waits beside retries --------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_wait_beside_a_pending_retry(lifecycle: str) -> None:
    s = two(lifecycle)
    s.suspend("signal", needs=("go",), step="A")
    assert s.fail("network", step="B") == (
        "B:run_failed(network) B:step_failed_retryable(network) B:step_retrying(30s) "
        "job_waiting(retry)"
    )
    assert s.task().state in ("doing", "running")
    assert s.wake("retry:1") == "wait_completed(due)"
    assert s.claim("T", "B") == "job_running B:step_running B:run_queued(2) B:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_parked(signal)"
    assert s.waits() == ["wait"]


def test_a_signal_that_comes_before_the_retry_leaves_no_stale_timer() -> None:
    s = two("board")
    s.suspend("signal", needs=("go",), step="A")
    s.fail("network", step="B")
    assert s.signal("go") == "wait_completed(signalled)"
    assert s.waits() == []
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started"
    assert s.succeed(step="A") == (
        "A:run_succeeded A:step_succeeded job_retrying(30s) task_blocked(retry)"
    )


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_signal_that_comes_while_a_resource_is_lacking(lifecycle: str) -> None:
    """Whatever wakes the job, it looks for the resource again: the task is not blocked by it."""
    s = running_plan(
        lifecycle,
        "A",
        "B",
        plan=plan("A", "B", {"name": "C", "needs": ["B"], **GPU}),
        resources=(R1,),
    )
    s.world.resources["r1"] = R1._replace(healthy=False)
    s.suspend("signal", needs=("go",), step="A")
    s.succeed(step="B")
    assert s.rest() == "job_waiting(resource) task_blocked(resource)"
    assert s.signal("go") == "task_unblocked wait_completed(signalled)"
    assert s.waits() == []
    s.world.resources["r1"] = R1
    s.claim("T", "A", "C")
    s.succeed(step="A")
    assert s.succeed(step="C").endswith(f"job_completed {END[lifecycle]}")


# ---- waits beside a person -------------------------------------------------------------------


def person_and_signal(lifecycle: str, **more: object) -> Story:
    """A needs a person, B waits for a signal: the task is blocked, the job parked."""
    s = two(lifecycle, **more)
    s.suspend("signal", needs=("go",), step="B")
    assert s.fail("needs_user", step="A").endswith("task_blocked(needs_user)")
    assert s.states() == "blocked parked"
    assert s.signal("go") == "wait_completed(signalled)"
    return s


def test_the_signal_comes_first_on_the_board_and_the_task_goes_on_in_place() -> None:
    s = person_and_signal("board")
    assert s.claim("T", "B") == "job_running B:run_queued(1) B:run_started task_started"
    assert s.succeed(step="B") == (
        "B:run_succeeded B:step_succeeded job_parked(confirmation) task_blocked(needs_user)"
    )
    assert s.do(c.AnswerTask("T", "confirm")) == "task_unblocked wait_completed(answered)"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(1) A:run_started task_started"
    )


def test_the_signal_comes_first_in_review_and_the_task_stays_blocked() -> None:
    s = person_and_signal("review")
    assert s.claim("T", "B") == "job_running B:run_queued(1) B:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_parked(confirmation)"
    assert s.do(c.AnswerTask("T", "confirm")) == (
        "task_answered(answered) wait_completed(answered)"
    )
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(1) A:run_started task_started"
    )


def test_confirmed_while_the_other_step_runs() -> None:
    s = person_and_signal("review")
    s.claim("T", "B")
    assert s.do(c.AnswerTask("T", "confirm")) == "task_answered(answered)"
    assert s.facts() == ["wait_ended"]
    assert s.start("A") == "A:step_running A:run_queued(1) A:run_started task_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_completed task_ready"


def test_the_worker_is_lost_while_the_task_waits_for_a_person() -> None:
    s = person_and_signal("review")
    s.claim("T", "B")
    assert s.reclaim() == (
        "B:run_cancelled(worker_lost) B:step_failed_retryable(lost) B:step_retrying(0s) "
        "job_requeued(lost)"
    )
    assert s.task().blocked_by == "needs_user"
    assert s.claim("T", "B") == "job_running B:step_running B:run_queued(2) B:run_started"


def test_the_other_step_fails_and_is_due_later() -> None:
    s = person_and_signal("review")
    s.claim("T", "B")
    assert s.fail("network", step="B") == (
        "B:run_failed(network) B:step_failed_retryable(network) B:step_retrying(30s) "
        "job_waiting(retry)"
    )
    assert s.wake("retry:2") == "wait_completed(due)"
    assert s.claim("T", "B") == "job_running B:step_running B:run_queued(2) B:run_started"
    assert s.task().blocked_by == "needs_user"


@pytest.mark.parametrize(
    ("lifecycle", "rest", "events", "end"),
    [
        ("board", " task_blocked(needs_user)", "task_unblocked", "task_blocked(error,0)"),
        ("review", "", "task_answered(answered)", "task_failed(error)"),
    ],
)
def test_the_other_step_fails_for_good_and_the_job_waits_for_the_person(
    lifecycle: str, rest: str, events: str, end: str
) -> None:
    s = person_and_signal(lifecycle, max_retries=0)
    s.claim("T", "B")
    assert s.fail(step="B") == (
        "B:run_failed(error) B:step_failed_fatal(error) B:step_failed(retry) "
        f"job_parked(confirmation){rest}"
    )
    assert s.do(c.AnswerTask("T", "confirm")) == f"{events} wait_completed(answered)"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(1) A:run_started task_started"
    )
    assert s.succeed(step="A") == f"A:run_succeeded A:step_succeeded job_failed(error) {end}"


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [
        ("review", "task_unblocked job_failed(quarantined) task_failed(lost)"),
        ("board", "job_failed(quarantined) task_blocked(error,0)"),
    ],
)
def test_quarantine_while_the_task_waits_for_a_person(lifecycle: str, events: str) -> None:
    s = person_and_signal(lifecycle)
    for _ in range(3):
        s.claim("T", "B")
        s.reclaim()
    s.claim("T", "B")
    assert s.reclaim() == (
        "B:run_cancelled(worker_lost) B:step_failed_fatal(lost) B:step_failed(worker_lost) "
        f"{events}"
    )
    assert s.step("A").state == "needs_user"
    assert s.waits() == []


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [("review", "task_failed(resource)"), ("board", "task_blocked(error,0)")],
)
def test_no_resource_can_fit_while_the_task_waits_for_a_person(lifecycle: str, events: str) -> None:
    s = running_plan(
        lifecycle,
        "A",
        "B",
        plan=plan("A", "B", {"name": "C", "needs": ["B"], **GPU}),
        resources=(R1,),
    )
    s.suspend("signal", needs=("go",), step="B")
    s.fail("needs_user", step="A")
    s.signal("go")
    s.claim("T", "B")
    s.succeed(step="B")
    s.world.resources.clear()
    events_before = "task_unblocked " if lifecycle == "review" else ""
    assert s.rest() == f"{events_before}job_failed(resource) {events}"


def test_a_suspended_step_is_untouched_when_the_worker_is_lost() -> None:
    s = two("board")
    s.suspend("signal", needs=("go",), step="A")
    assert s.reclaim() == (
        "B:run_cancelled(worker_lost) B:step_failed_retryable(lost) B:step_retrying(0s) "
        "job_requeued(lost) task_blocked(retry) task_unblocked"
    )
    assert s.claim("T", "B") == (
        "job_running B:step_running B:run_queued(2) B:run_started task_started"
    )
    assert s.step("A").state == "running"
    assert s.waits() == ["wait"]


def test_a_planner_waits_for_a_step_that_waits() -> None:
    s = Story()
    s.submit("review", planner="think")
    s.claim()
    s.do(c.RecordPlan(s.grant(), plan("A", "B")))
    s.start("A")
    s.start("B")
    s.suspend("question", step="B")
    assert s.fail(step="A", decision="replan") == (
        "A:run_failed(error) A:step_failed_fatal(error) A:step_failed(replan) "
        "job_parked(question) task_blocked(question)"
    )
    s.do(c.AnswerTask("T", "yes"))
    assert s.claim("T", "B") == "job_running B:run_queued(1) B:run_started task_started"
    assert s.succeed(step="B", result="b") == "B:run_succeeded B:step_succeeded"
    assert s.do(c.RecordPlan(s.grant(), plan("A", "B"))) == "A:step_pending"


# ---- resources of a step that sleeps ---------------------------------------------------------


def holding(hold_resource_us: int) -> Story:
    s = running_plan("job", "A", plan=plan("A", **GPU), resources=(R1,))
    s.suspend("signal", needs=("go",), step="A", hold_resource_us=hold_resource_us)
    return s


def test_a_step_that_sleeps_frees_its_resource() -> None:
    s = holding(0)
    assert s.world.in_use("r1") == 0


def test_a_step_may_keep_its_resource_for_a_while_and_goes_on_with_it() -> None:
    s = holding(MINUTE)
    assert s.world.in_use("r1") == 1
    s.signal("go")
    assert s.claim("", "A") == "job_running A:run_queued(1) A:run_started"
    assert (s.world.in_use("r1"), s.step("A").held_until) == (1, None)


def test_a_step_that_keeps_its_resource_too_long_loses_it() -> None:
    s = holding(MINUTE)
    assert s.refused(c.EndHold("J", "A"), KEEPER).code == "not_due"
    s.later(60)
    assert s.do(c.EndHold("J", "A"), KEEPER) == ""
    assert s.facts() == ["step_hold_ended"]
    assert s.world.in_use("r1") == 0
    assert s.refused(c.EndHold("J", "A"), KEEPER).code == "not_due"
    assert s.step("A").state == "running"


def test_an_ended_job_holds_nothing() -> None:
    s = holding(MINUTE)
    s.cancel()
    assert s.world.in_use("r1") == 0
