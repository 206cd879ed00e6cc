"""Workers that are lost: before the start, in mid-run and in mid-step, once and too often."""

import pytest

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from tests.kernel.stories.world import KEEPER, WORKER, Story, plan, running, running_plan

LOST = "run_cancelled(worker_lost) job_requeued(lost)"


def claimed(lifecycle: str, *, losses: int = 0) -> Story:
    """A claim that stopped short of its run's start, as another writer's log may show it."""
    s = Story()
    s.submit(lifecycle)
    for number in range(1, losses + 2):
        run_id = f"T-j1-r{number}"
        s.happened(
            "T-j1",
            (e.JobRunning("w", "n", number, number, run_id), None),
            (e.RunQueued("w", number, number), run_id),
        )
        if number <= losses:
            s.reclaim()
    return s


def lose(s: Story, times: int) -> Story:
    for _ in range(times):
        s.reclaim()
        s.claim()
    return s


# ---- before the start ------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_claim_that_is_lost_before_its_run_began_shows_nothing_on_the_task(
    lifecycle: str,
) -> None:
    s = claimed(lifecycle)
    assert s.reclaim() == LOST
    assert s.claim() == "job_running run_queued(2) run_started task_started"


@pytest.mark.parametrize(
    ("lifecycle", "events"), [("board", "task_blocked(error,0)"), ("review", "task_failed(lost)")]
)
def test_the_fourth_loss_before_a_start_is_quarantine(lifecycle: str, events: str) -> None:
    s = claimed(lifecycle, losses=3)
    assert s.reclaim() == f"run_cancelled(worker_lost) job_failed(quarantined) {events}"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_planner_whose_worker_is_lost(lifecycle: str) -> None:
    s = running(lifecycle, planner="think")
    assert s.reclaim() == "job_requeued(lost)"
    assert s.task().state in ("todo", "queued")
    assert s.claim() == "job_running"


@pytest.mark.parametrize(
    ("lifecycle", "events"), [("board", "task_blocked(error,0)"), ("review", "task_failed(lost)")]
)
def test_a_planner_that_kills_its_workers(lifecycle: str, events: str) -> None:
    s = lose(running(lifecycle, planner="think"), 3)
    assert s.reclaim() == f"job_failed(quarantined) {events}"


# ---- in mid-run ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lifecycle", "end"), [("board", "task_completed"), ("review", "task_ready")]
)
def test_a_run_that_is_lost_is_retried_immediately(lifecycle: str, end: str) -> None:
    s = running(lifecycle)
    old, run_id = s.grant(), s.run_id()
    assert s.reclaim() == f"{LOST} task_blocked(retry) task_unblocked"
    assert s.claim() == "job_running run_queued(2) run_started task_started"
    refusal = s.refused(c.CompleteRun(old, run_id), WORKER)
    assert isinstance(refusal, Refused)
    assert refusal.code == "stale_fence"
    assert s.succeed() == f"run_succeeded job_completed {end}"
    assert s.refused(c.CompleteRun(s.grant(), run_id), WORKER).code == "stale_fence"


def test_a_lost_run_of_a_job_alone() -> None:
    s = running("job")
    assert s.reclaim() == LOST


def test_only_the_claim_that_was_read_is_reclaimed() -> None:
    s = running("job")
    assert s.refused(c.ReclaimJob("J", s.job().fence + 1), KEEPER).code == "not_due"
    s.reclaim()
    assert s.refused(c.ReclaimJob("J", s.job().fence), KEEPER).code == "not_due"


@pytest.mark.parametrize(
    ("lifecycle", "events", "retry"),
    [
        ("board", " task_blocked(error,0)", "task_unblocked job_requeued(retried)"),
        ("review", " task_failed(lost)", "task_retried job_requeued(retried)"),
        ("job", "", "job_requeued(retried)"),
    ],
)
def test_the_fourth_loss_is_quarantine_and_a_person_starts_new_counts(
    lifecycle: str, events: str, retry: str
) -> None:
    s = lose(running(lifecycle), 3)
    assert s.reclaim() == f"run_cancelled(worker_lost) job_failed(quarantined){events}"
    assert s.fact("job_failed").quarantined
    assert s.do(c.RetryJob(s.job_id(""))) == retry
    s.claim()
    assert (s.job().attempt, s.job().lost, s.job().failures) == (1, 0, {})
    lose(s, 3)
    assert s.reclaim().startswith("run_cancelled(worker_lost) job_failed(quarantined)")


@pytest.mark.parametrize("progress", ["checkpoint", "wait"])
def test_progress_between_losses_starts_the_count_again(progress: str) -> None:
    s = lose(running("job"), 3)
    if progress == "checkpoint":
        s.do(c.RecordCheckpoint(s.grant(), "half", 1), WORKER)
    else:
        s.suspend("timer", seconds=5)
        s.wake()
        s.claim()
    assert s.job().lost == 0
    assert s.reclaim() == LOST


def test_losses_do_not_use_up_retries() -> None:
    s = lose(running("board"), 2)
    assert s.fail("network") == "run_failed(network) job_retrying(30s) task_blocked(retry)"


# ---- in mid-step -----------------------------------------------------------------------------


def test_a_plan_in_all_its_states() -> None:
    s = running_plan("board", "D", plan=plan("A", "B", "C", "D", "E < A"))
    s.succeed(step="D")
    s.start("A")
    s.start("B")
    s.suspend("signal", needs=("go",), step="B")
    s.happened("T-j1", (e.StepLeased("local"), "C"))
    assert s.reclaim() == (
        "A:run_cancelled(worker_lost) A:step_failed_retryable(lost) A:step_retrying(0s) "
        "C:step_lease_timeout C:step_pending "
        "job_requeued(lost) task_blocked(retry) task_unblocked"
    )
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(2) A:run_started task_started"
    )
    assert s.start("C") == "C:step_leased C:step_running C:run_queued(1) C:run_started"
    assert [s.step(name).state for name in "ABCDE"] == [
        *("running", "running", "running", "succeeded", "waiting_deps"),
    ]
    assert (s.step("A").retries, s.step("A").lost) == (0, 1)


def test_a_step_of_a_review_task() -> None:
    s = running_plan("review", "A", plan=plan("A"))
    assert s.reclaim() == (
        "A:run_cancelled(worker_lost) A:step_failed_retryable(lost) A:step_retrying(0s) "
        "job_requeued(lost) task_blocked(retry) task_unblocked"
    )
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(2) A:run_started task_started"
    )


@pytest.mark.parametrize(
    ("lifecycle", "events"), [("board", "task_blocked(error,0)"), ("review", "task_failed(lost)")]
)
def test_a_step_that_kills_its_workers(lifecycle: str, events: str) -> None:
    s = running_plan(lifecycle, "A", plan=plan("A", "B"))
    for _ in range(3):
        s.reclaim()
        s.claim("T", "A")
    assert s.reclaim() == (
        "A:run_cancelled(worker_lost) A:step_failed_fatal(lost) A:step_failed(worker_lost) "
        f"job_failed(quarantined) {events}"
    )
    assert s.step("B").state == "pending"


def test_a_finished_step_between_losses_is_progress() -> None:
    s = running_plan("board", "A", plan=plan("A", "B < A"))
    for _ in range(3):
        s.reclaim()
        s.claim("T", "A")
    s.succeed(step="A")
    s.start("B")
    assert s.reclaim().endswith("job_requeued(lost) task_blocked(retry) task_unblocked")


def test_a_plan_that_is_handed_back_goes_on_in_the_same_attempt() -> None:
    s = running_plan("board", "A", plan=plan("A"))
    assert s.hand_back() == (
        "A:run_cancelled(handed_back) job_requeued(handed_back) task_blocked(retry) task_unblocked"
    )
    assert s.step("A").resource is None
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started task_started"
    assert (s.step("A").retries, s.step("A").lost, s.job().lost) == (0, 0, 0)


def test_a_claim_that_is_lost_with_a_step_that_is_only_leased() -> None:
    s = Story()
    s.submit("review", plan=plan("A"))
    s.claim()
    s.happened("T-j1", (e.StepLeased("local"), "A"))
    assert s.reclaim() == "A:step_lease_timeout A:step_pending job_requeued(lost)"
    assert s.task().state == "queued"


@pytest.mark.parametrize("lifecycle", ["board", "review", "job"])
def test_parked_work_is_never_reclaimed(lifecycle: str) -> None:
    s = running(lifecycle)
    s.suspend("signal", needs=("go",))
    job = s.job()
    assert s.refused(c.ReclaimJob(job.id, job.fence), KEEPER).code == "not_due"


def test_a_report_about_a_run_that_is_not_live_is_refused() -> None:
    s = running("job")
    assert s.refused(c.CompleteRun(s.grant(), "J-r9"), WORKER).code == "stale_fence"
