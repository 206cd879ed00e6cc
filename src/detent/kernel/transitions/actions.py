"""Acts that commands and couplings share: try again, fail, cancel, unblock, signal, end a wait."""

from collections.abc import Iterable
from typing import Any

from detent.kernel import events as e
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Task, Wait
from detent.kernel.predicates import (
    ENDED_JOB,
    RESTING_JOB,
    has_failed,
    in_work,
    judge_attempt,
    policy_of,
    was_settled,
)
from detent.kernel.retention import ending
from detent.kernel.retry import Again, FailureClass, retries_left
from detent.kernel.wait_kinds import QUESTIONS, satisfied
from detent.kernel.world import SIGNALS, WAITS

# ---- the end of an attempt -------------------------------------------------------------------


def end_attempt(draft: Draft, job: Job, kind: FailureClass, error: str) -> None:
    """An attempt that no run stood for is over: the next one now, later, or never."""
    again = judge_attempt(draft, job, kind)
    if again is None:
        fail_job(draft, job, kind, error)
    else:
        try_again(draft, job, kind, error, again)


def try_again(draft: Draft, job: Job, kind: FailureClass, error: str, again: Again) -> None:
    if again.immediate:
        draft.emit(job.id, e.JobRequeued(kind.value))
    else:
        draft.emit(job.id, e.JobRetrying(kind.value, again.not_before, again.counted))
    left = retries_left(policy_of(draft, job), kind, job.failures, job.lost)
    show_retry(draft, job, kind, error, again.not_before, left)


def show_retry(
    draft: Draft, job: Job, kind: FailureClass, error: str, due_at: int, left: int | None
) -> None:
    """The task shows that its work failed and will be tried again; at once means at once."""
    task = draft.task_of(job)
    if task is None or not in_work(task):
        return
    reason = "rate_limit" if kind is FailureClass.RATE_LIMIT else "retry"
    detail = {"error_class": kind.value, "error": error, "due_at": due_at}
    draft.emit(task.id, e.TaskBlocked(reason, detail, left))
    if due_at <= draft.now:
        draft.emit(task.id, e.TaskUnblocked(reason))


def hand_back(draft: Draft, job: Job) -> None:
    """No failure: the task shows it, and is queued again in the same breath."""
    draft.emit(job.id, e.JobRequeued("handed_back"))
    task = draft.task_of(job)
    if task is not None and in_work(task):
        draft.emit(task.id, e.TaskBlocked("retry", {"due_at": draft.now}))
        draft.emit(task.id, e.TaskUnblocked("retry"))


def fail_job(draft: Draft, job: Job, kind: FailureClass, error: str) -> None:
    """A blocked task has no way to fail: it is unblocked first, while its job still runs."""
    task = draft.task_of(job)
    if task is not None and task.state == "blocked":
        draft.emit(task.id, e.TaskUnblocked(task.blocked_by))
    draft.emit(job.id, e.JobFailed(kind.value, error, kind is FailureClass.LOST))


# ---- cancelling ------------------------------------------------------------------------------


def cancel(draft: Draft, task: Task, reason: str) -> str:
    """Cancel now, or ask the worker to stop. Says which: `cancelled` or `requested`."""
    job = draft.job_of(task)
    if job is None or job.state in ENDED_JOB:
        draft.emit(task.id, e.TaskCancelled(reason))
        return "cancelled"
    if job.state == "running" and task.cancel_reason is None:
        draft.emit(task.id, e.TaskCancelRequested(reason))
    return cancel_job(draft, job, reason)


def cancel_job(draft: Draft, job: Job, reason: str) -> str:
    if job.state != "running":
        draft.emit(job.id, e.JobCancelled(reason))
        return "cancelled"
    if job.cancel_reason is None:
        draft.emit(job.id, e.JobCancelRequested(reason))
    return "requested"


# ---- going on --------------------------------------------------------------------------------


def unblock(
    draft: Draft, task: Task, wait: str | None = None, outcome: str = "unblocked", value: Any = None
) -> None:
    """Let a blocked task go on, with a new job if its last one can do nothing more."""
    wait = wait or task.blocked_detail.get("wait")
    new = new_job(draft, task)
    draft.emit(task.id, e.TaskUnblocked(task.blocked_by, wait, outcome, value, new))


def new_job(draft: Draft, task: Task) -> str | None:
    """The id of the job to make, or None if the task's last job can be taken up again."""
    last = draft.job_of(task)
    if last is None or last.state in ("completed", "cancelled"):
        return job_of_task(task.id, task.jobs + 1)
    return None


# ---- waits and signals -----------------------------------------------------------------------


def signal(draft: Draft, job_id: str, name: str, value: Any) -> None:
    """Deliver a signal once, and end the waits for which it was the last that they needed."""
    job = draft.job(job_id)
    if job.state in ENDED_JOB or draft.part(SIGNALS, job_id, name) is not None:
        return
    draft.emit(job_id, e.SignalReceived(value), name)
    for wait in filter(satisfied, list(draft.parts_of(WAITS, job_id).values())):
        complete_wait(draft, wait, "signalled", signalled(draft, wait))


def hear_ends(draft: Draft, job: Job, needs: Iterable[str]) -> None:
    """What the job made may have ended while it had failed and so heard nothing of it.

    A job that is run again finds its children where they are, and must not wait for an end that
    was told before.
    """
    for name in needs:
        value = _end_of(draft, job, name)
        if value is not None:
            signal(draft, job.id, name, value)


def _end_of(draft: Draft, job: Job, name: str) -> dict[str, Any] | None:
    """How a child of the job has ended, if the name is a child's, and if it has."""
    kind, _, child_id = name.partition(":")
    if kind == "job":
        child = draft.find_job(child_id)
        if child is not None and child.parent_job_id == job.id and child.state in ENDED_JOB:
            return end_value(child.state, child)
    task = draft.find_task(child_id) if kind == "task" else None
    if task is None or task.parent_id != job.task_id or task.job_id is None:
        return None
    over = ending(task.lifecycle, task.state, task.retries_left) is not None
    return end_value(task.state, draft.job(task.job_id)) if over else None


def end_value(state: str, job: Job) -> dict[str, Any]:
    """What a parent hears of the end of something below it."""
    return {"state": state, "result": job.result, "error": job.error}


def signalled(draft: Draft, wait: Wait) -> dict[str, Any]:
    """The values of the signals that ended a wait, by name."""
    return {name: draft.part(SIGNALS, wait.job_id, name).value for name in wait.needs}


def complete_wait(draft: Draft, wait: Wait, outcome: str, value: Any = None) -> None:
    """End a wait: through the task if that stands in its way, else straight on the job."""
    task = draft.task_of(draft.job(wait.job_id))
    if task is None or not _blocked_by(task, wait):
        end_wait(draft, wait, outcome, value)
    elif task.lifecycle == "review" and wait.kind in QUESTIONS:
        draft.emit(task.id, e.TaskAnswered(value, wait.name, outcome))
    else:
        unblock(draft, task, wait.name, outcome, value)


def _blocked_by(task: Task, wait: Wait) -> bool:
    """By this wait, or by the want of a resource, for which every wake-up looks again."""
    if task.state != "blocked":
        return False
    return task.blocked_by == "resource" or task.blocked_detail.get("wait") == wait.name


def end_wait(draft: Draft, wait: Wait, outcome: str, value: Any) -> None:
    """A job at rest wakes; in any other one the step that waited goes on in place."""
    if draft.job(wait.job_id).state in RESTING_JOB:
        draft.emit(wait.job_id, e.WaitCompleted(wait.name, outcome, value, wait.step))
    else:
        draft.emit(wait.job_id, e.WaitEnded(outcome, value, wait.step), wait.name)
    if outcome == "signalled":
        settle_handled(draft, wait)


# ---- subtasks that a parent no longer waits for ----------------------------------------------


def settle_handled(draft: Draft, wait: Wait) -> None:
    """The handler asked for outcomes and receives them: it deals with those that failed.

    One that was retried meanwhile and is live again still counts.
    """
    parent = draft.task_of(draft.job(wait.job_id))
    if parent is None or not wait.detail.get("outcomes"):
        return
    for name in wait.needs:
        kind, _, child_id = name.partition(":")
        child = draft.find_task(child_id) if kind == "task" else None
        if child is not None and child.parent_id == parent.id and unsettled_failure(draft, child):
            for ancestor in draft.ancestors(child):
                draft.emit(ancestor.id, e.SubtaskHandled(child.id, child.state))


def dismiss(draft: Draft, subtask: Task, reason: str | None) -> bool:
    """Settle a subtask and what failed below it; what is live below it still counts.

    False: nothing was left to settle.
    """
    found = [each for each in draft.tree(subtask) if unsettled_failure(draft, each)]
    for each in found:
        for ancestor in draft.ancestors(each):
            draft.emit(ancestor.id, e.SubtaskDismissed(each.id, each.state, reason))
    return bool(found)


def unsettled_failure(draft: Draft, subtask: Task) -> bool:
    return has_failed(subtask) and not was_settled(draft, subtask)
