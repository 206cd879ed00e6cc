"""What is due: lost leases, retries, waits that are over, limits that have passed. Safe to ask twice."""

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.consequences import complete_wait, unblock
from detent.kernel.draft import Draft
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.resting import give_up
from detent.kernel.state import Wait
from detent.kernel.world import WAITS

RESTING = ("waiting", "parked")


def reclaim_job(draft: Draft, command: c.ReclaimJob) -> str:
    """The worker is lost. Only running work can be reclaimed, and only from the claim that was looked at."""
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
    """A wait's time has come: a timer is due, a question takes its default, any other wait has expired."""
    job = draft.job(command.job_id)
    wait: Wait | None = draft.part(WAITS, job.id, command.wait)
    if job.state not in RESTING or wait is None or wait.due_at is None or wait.due_at > draft.now:
        raise _not_due(f"job {job.id} is {job.state} and has no wait {command.wait} that is due")
    if wait.kind in ("timer", "retry", "resource"):
        complete_wait(draft, wait, "due")
    elif "default" in wait.detail:
        complete_wait(draft, wait, "default", wait.detail["default"])
    else:
        complete_wait(draft, wait, "expired")


def expire_job(draft: Draft, command: c.ExpireJob) -> str:
    """A limit on the queue wait or on the whole job has passed."""
    job = draft.job(command.job_id)
    deadline = job.queue_deadline if command.limit == "queue" else job.job_deadline
    waits_in_queue = job.state in ("queued", "retrying")
    if deadline is None or deadline > draft.now or job.state in ENDED_JOB:
        raise _not_due(f"job {job.id} has no {command.limit} limit that has passed")
    if command.limit == "queue" and not waits_in_queue:
        raise _not_due(f"job {job.id} is {job.state}, not in the queue")
    reason = f"{command.limit}_timeout"
    if job.state != "running":
        draft.emit(job.id, e.JobCancelled(reason))
    elif job.cancel_reason is None:
        draft.emit(job.id, e.JobCancelRequested(reason))
    return draft.job(job.id).state


def check_task(draft: Draft, command: c.CheckTask) -> bool:
    """The keeper's look at a blocked task: True if its reason was gone and it is queued again."""
    task = draft.task(command.task_id)
    if task.state != "blocked" or task.job_id is None:
        return False
    job = draft.job(task.job_id)
    if task.blocked_by == "dependency" and task.open_dependencies == 0:
        unblock(draft, task)
    elif (
        task.blocked_by in ("retry", "rate_limit")
        and job.state == "retrying"
        and job.not_before <= draft.now
    ):
        draft.emit(job.id, e.JobRequeued("due"))
    return draft.task(task.id).state != "blocked"


def _not_due(what: str) -> Refused:
    return Refused(f"nothing is due: {what}", code="not_due")
