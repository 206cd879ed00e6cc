"""A job between runs: cancelled as asked, given up, or at rest until something is due or somebody acts."""

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.consequences import block_for_retry, requeue_task, rest
from detent.kernel.draft import Draft
from detent.kernel.predicates import retry_defaults
from detent.kernel.retry import Again, FailureClass, policy_from, retries_left
from detent.kernel.state import Job, Step
from detent.kernel.steps import can_ever_fit, startable, steps_of, unlease
from detent.kernel.world import WAITS

#: How often a job that lacks a resource looks again, besides being woken when one is freed.
RESOURCE_POLL_US = 5_000_000


def settle(draft: Draft, job_id: str) -> str:
    """After a run's end: a job that was asked to stop does, a plan that can do nothing now rests."""
    job = draft.job(job_id)
    if job.state == "running" and not draft.live_runs(job_id):
        if job.cancel_reason is not None:
            draft.emit(job_id, e.JobCancelled(job.cancel_reason))
        elif job.plan_version > 0 and not job.plan_wanted and not startable(draft, job):
            rest_plan(draft, job)
    return draft.job(job_id).state


# ---- giving a claim up -----------------------------------------------------------------------


def give_up(draft: Draft, job: Job, reason: str) -> str:
    """A claim is over without an end of the work: `worker_lost` or `handed_back`."""
    for run in draft.live_runs(job.id):
        draft.emit(job.id, e.RunCancelled(reason), run.id)
    for step in steps_of(draft, job.id).values():
        if step.state == "running" and step.run_id is not None:
            draft.emit(job.id, e.StepFailedRetryable(FailureClass.LOST.value, reason), step.name)
            draft.emit(job.id, e.StepRetrying(draft.now), step.name)
        elif step.state == "leased":
            unlease(draft, step, reason)
    job = draft.job(job.id)
    if job.state == "running" and job.cancel_reason is None:
        _requeue(draft, job, reason)
    return settle(draft, job.id)


def _requeue(draft: Draft, job: Job, reason: str) -> None:
    """No run stood for the whole claim: a planner was at work, or the job has a plan."""
    handed_back = reason == "handed_back"
    policy = policy_from(job.options.get("retry", {}), retry_defaults(draft, job))
    if handed_back or retries_left(policy, FailureClass.LOST, job.failures, job.lost) != 0:
        draft.emit(job.id, e.JobRequeued("handed_back" if handed_back else "lost"))
        requeue_task(draft, draft.job(job.id))
        return
    _let_fail(draft, job)
    error = f"{job.lost + 1} workers were lost without progress"
    draft.emit(job.id, e.JobFailed(FailureClass.LOST.value, error, quarantined=True))


def _let_fail(draft: Draft, job: Job) -> None:
    """A blocked review task has no way to fail; it is unblocked first, while its job still runs."""
    task = draft.task_of(job)
    if task is not None and task.lifecycle == "review" and task.state == "blocked":
        draft.emit(task.id, e.TaskUnblocked(task.blocked_by))


# ---- resting a plan --------------------------------------------------------------------------


def rest_plan(draft: Draft, job: Job) -> str:
    """No step is live: wait for a time, a signal, a person or a resource, or fail if none can come."""
    lacking = startable(draft, job)
    hopeless = next((name for name in lacking if not _may_fit(draft, job, name)), None)
    if job.cancel_reason is not None:
        draft.emit(job.id, e.JobCancelled(job.cancel_reason))
    elif hopeless is not None:
        draft.emit(job.id, e.JobFailed("resource", f"no resource can ever fit step {hopeless}"))
    else:
        _rest(draft, job, lacking)
    return draft.job(job.id).state


def _may_fit(draft: Draft, job: Job, name: str) -> bool:
    return can_ever_fit(draft, draft.plan(job.id).step(name), steps_of(draft, job.id)[name])


def _rest(draft: Draft, job: Job, lacking: tuple[str, ...]) -> None:
    steps = steps_of(draft, job.id).values()
    delayed = [step for step in steps if step.state == "retrying" and step.not_before > draft.now]
    if not lacking and not draft.parts_of(WAITS, job.id):
        _retry_later(draft, job, delayed)
        return
    if lacking:
        detail = {"steps": list(lacking)}
        begun = e.WaitBegun("resource", due_at=draft.now + RESOURCE_POLL_US, detail=detail)
        draft.emit(job.id, begun, f"resource:{job.fence}")
    if delayed:
        begun = e.WaitBegun("retry", due_at=min(step.not_before for step in delayed))
        draft.emit(job.id, begun, f"retry:{job.fence}")
    rest(draft, job.id)


def _retry_later(draft: Draft, job: Job, delayed: list[Step]) -> None:
    if not delayed:
        raise Refused(f"job {job.id} has nothing to rest for", code="nothing_to_wait_for")
    first = min(delayed, key=lambda step: step.not_before)
    kind = FailureClass(first.error_class or "error")
    draft.emit(job.id, e.JobRetrying(kind.value, first.not_before))
    again = Again(first.not_before, immediate=False, counted=True)
    block_for_retry(draft, draft.job(job.id), kind, again, first.error or "")
