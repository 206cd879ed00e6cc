"""Decides due timers: expired leases, retries, waits, time limits. Safe to repeat."""

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Step, Wait
from detent.kernel.predicates import ENDED_JOB, is_blocked
from detent.kernel.transitions.cancellation import cancel, cancel_job
from detent.kernel.transitions.claim_end import give_up
from detent.kernel.transitions.due_waits import has_resource, wake
from detent.kernel.transitions.task_job import unblock
from detent.kernel.wait_kinds import is_due
from detent.kernel.world import STEPS, WAITS


def reclaim_job(draft: Draft, command: c.ReclaimJob) -> str:
    """Take a running job back from a lost worker, if the claim with this fence is the latest."""
    job = draft.job(command.job_id)
    if job.state != "running" or job.fence != command.fence:
        raise _not_due(f"job {job.id} is {job.state} with fence {job.fence}")
    return give_up(draft, job, "worker_lost")


def requeue_job(draft: Draft, command: c.RequeueJob) -> None:
    job = draft.job(command.job_id)
    if job.state != "retrying" or job.not_before > draft.now:
        raise _not_due(f"job {job.id} is {job.state}")
    draft.emit(job.id, e.JobRequeued("due"))


def wake_job(draft: Draft, command: c.WakeJob) -> None:
    """End a due wait, or one for a resource that can be used. A running job continues in place."""
    job = draft.job(command.job_id)
    wait: Wait | None = draft.part(WAITS, job.id, command.wait)
    if wait is None or not (is_due(wait, draft.now) or has_resource(draft, job, wait)):
        raise _not_due(f"job {job.id} is {job.state} and has no wait {command.wait} that is due")
    wake(draft, job, wait)


def expire_job(draft: Draft, command: c.ExpireJob) -> str:
    """Cancel a job whose limit on the time until its first claim, or on its whole time, passed."""
    job = draft.job(command.job_id)
    deadline = job.queue_deadline if command.limit == "queue" else job.job_deadline
    if deadline is None or deadline > draft.now or job.state in ENDED_JOB:
        raise _not_due(f"job {job.id} has no {command.limit} limit that has passed")
    task = draft.task_of(job)
    reason = f"{command.limit}_timeout"
    return cancel_job(draft, job, reason) if task is None else cancel(draft, task, reason)


def end_hold(draft: Draft, command: c.EndHold) -> None:
    step: Step | None = draft.part(STEPS, command.job_id, command.step)
    if step is None or step.held_until is None or step.held_until > draft.now:
        raise _not_due(f"step {command.step} of job {command.job_id} has no hold that is over")
    draft.emit(step.job_id, e.StepHoldEnded(), step.name)


def check_task(draft: Draft, command: c.CheckTask) -> bool:
    """Queue a blocked task again if its reason is gone; return whether it is unblocked."""
    task = draft.task(command.task_id)
    job = draft.job_of(task)
    if not is_blocked(draft, task) or job is None:
        return False
    due = job.state == "retrying" and job.not_before <= draft.now
    if task.blocked_by == "dependency" and task.open_dependencies == 0:
        unblock(draft, task)
    elif task.blocked_by in ("retry", "rate_limit") and due:
        draft.emit(job.id, e.JobRequeued("due"))
    return not is_blocked(draft, draft.task(task.id))


def _not_due(what: str) -> Refused:
    return Refused(f"Nothing is due: {what}.", code="not_due")
