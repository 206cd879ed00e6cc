"""The end of a claim: the job is cancelled as requested, retried, handed back, or waits."""

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Step
from detent.kernel.plan_steps import fail, planner_is_due, startable, steps_of, unlease
from detent.kernel.predicates import next_attempt
from detent.kernel.retry import FailureClass
from detent.kernel.transitions.attempts import hand_back, retry_or_fail
from detent.kernel.transitions.idle_plan import begin_waits_of_steps, rest_plan


def settle(draft: Draft, job_id: str) -> str:
    """After the end of a run: cancel the job if that was requested, or let an idle plan wait.

    Returns the state of the job.
    """
    job = draft.job(job_id)
    if job.state == "running" and not draft.live_runs(job_id):
        if job.cancel_reason is not None:
            draft.emit(job_id, e.JobCancelled(job.cancel_reason))
        elif job.plan_version > 0 and not _can_continue(draft, job):
            rest_plan(draft, job)
    return draft.job(job_id).state


def _can_continue(draft: Draft, job: Job) -> bool:
    return bool(startable(draft, job, draft.now)) or planner_is_due(draft, job)


def give_up(draft: Draft, job: Job, reason: str) -> str:
    """End a claim whose work has not ended; the reason is `worker_lost` or `handed_back`.

    Returns the state of the job.
    """
    live = [step for step in steps_of(draft, job.id).values() if step.run_id is not None]
    for run in draft.live_runs(job.id):
        draft.emit(job.id, e.RunCancelled(reason), run.id)
    if job.cancel_reason is None and reason == "worker_lost":
        _lose_claim(draft, job, live)
    elif job.cancel_reason is None:
        _hand_claim_back(draft, job)
    return settle(draft, job.id)


def _lose_claim(draft: Draft, job: Job, live: list[Step]) -> None:
    """Retry the live plan steps and the job, or fail them if workers were lost too often."""
    again = next_attempt(draft, job, FailureClass.LOST)
    for step in live:
        if again is None:
            error = "its worker was lost too often"
            fail(draft, step, FailureClass.LOST.value, error, "worker_lost")
        else:
            _retry_lost_step(draft, step)
    _unlease_steps(draft, job, "worker_lost")
    job = draft.job(job.id)
    if job.state == "running":
        error = f"{job.lost + 1} workers were lost without progress"
        retry_or_fail(draft, job, FailureClass.LOST, error, again)


def _hand_claim_back(draft: Draft, job: Job) -> None:
    """Queue the job again; its plan steps keep their state for the next claim."""
    _unlease_steps(draft, job, "handed_back")
    job = draft.job(job.id)
    if job.state == "running":
        if job.plan_version > 0:
            begin_waits_of_steps(draft, job)
        hand_back(draft, job)


def _unlease_steps(draft: Draft, job: Job, reason: str) -> None:
    for step in steps_of(draft, job.id).values():
        if step.state == "leased":
            unlease(draft, step, reason)


def _retry_lost_step(draft: Draft, step: Step) -> None:
    lost = e.StepFailedRetryable(FailureClass.LOST.value, "its worker was lost")
    draft.emit(step.job_id, lost, step.name)
    draft.emit(step.job_id, e.StepRetrying(draft.now), step.name)
