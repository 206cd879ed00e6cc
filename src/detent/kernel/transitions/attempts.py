"""The end of an attempt: retry it now or later, hand the job back, or fail the job."""

from typing import cast

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Job
from detent.kernel.predicates import failure_class, in_work, is_blocked, retry_of_run
from detent.kernel.retry import Again, FailureClass

# ---- couplings -------------------------------------------------------------------------------


def retry_job_of_run(draft: Draft, record: e.Record) -> None:
    event = cast(e.RunFailed | e.RunTimedOut, record.event)
    again = cast(Again, retry_of_run(draft, record))
    retry(draft, draft.job(record.stream), failure_class(event), event.error, again)


def fail_job_of_run(draft: Draft, record: e.Record) -> None:
    event = cast(e.RunFailed | e.RunTimedOut, record.event)
    fail_job(draft, draft.job(record.stream), failure_class(event), event.error)


# ---- shared ----------------------------------------------------------------------------------


def retry_or_fail(
    draft: Draft, job: Job, kind: FailureClass, error: str, again: Again | None
) -> None:
    """End an attempt that had no run of its own: retry it as `again` says, or fail the job."""
    if again is None:
        fail_job(draft, job, kind, error)
    else:
        retry(draft, job, kind, error, again)


def retry(draft: Draft, job: Job, kind: FailureClass, error: str, again: Again) -> None:
    """Queue the next attempt.

    Until it is due, the task is blocked. A task whose retry is due now waits for nothing and stays
    in work. If its worker was lost, it returns to the queue.
    """
    if not again.immediate:
        draft.emit(job.id, e.JobRetrying(kind.value, again.not_before, again.counted))
        _block(draft, job, kind, error, again.not_before, again.retries_left)
        return
    draft.emit(job.id, e.JobRequeued(kind.value))
    if kind is FailureClass.LOST:
        _block(draft, job, kind, error, again.not_before, again.retries_left)
        _return_to_queue(draft, job)


def block_until_retry(
    draft: Draft, job: Job, kind: FailureClass, error: str, due_at: int, left: int | None
) -> None:
    """Block the task with the error until the retry is due, unless it is due now."""
    if due_at > draft.now:
        _block(draft, job, kind, error, due_at, left)


def _block(
    draft: Draft, job: Job, kind: FailureClass, error: str, due_at: int, left: int | None
) -> None:
    task = draft.task_of(job)
    if task is not None and in_work(draft, task):
        reason = "rate_limit" if kind is FailureClass.RATE_LIMIT else "retry"
        detail = {"error_class": kind.value, "error": error, "due_at": due_at}
        draft.emit(task.id, e.TaskBlocked(reason, detail, left))


def hand_back(draft: Draft, job: Job) -> None:
    """Queue the job again without counting a failure; its task returns to the queue."""
    draft.emit(job.id, e.JobRequeued("handed_back"))
    task = draft.task_of(job)
    if task is not None and in_work(draft, task):
        draft.emit(task.id, e.TaskBlocked("retry", {"due_at": draft.now}))
        _return_to_queue(draft, job)


def _return_to_queue(draft: Draft, job: Job) -> None:
    """Unblock the task. No lifecycle leads from work to the queue but over `blocked`."""
    task = draft.task_of(job)
    if task is not None and task.blocked_by == "retry":
        draft.emit(task.id, e.TaskUnblocked("retry"))


def fail_job(draft: Draft, job: Job, kind: FailureClass, error: str) -> None:
    """Fail the job. A blocked task is unblocked first: no lifecycle lets it fail while blocked."""
    task = draft.task_of(job)
    if task is not None and is_blocked(draft, task):
        draft.emit(task.id, e.TaskUnblocked(task.blocked_by))
    draft.emit(job.id, e.JobFailed(kind.value, error, kind is FailureClass.LOST))
