"""Decides commands that control existing work: run, retry, resume, unblock, dismiss, cancel."""

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide.edit import change, set_budget
from detent.kernel.decide.guards import (
    cancel_reason,
    dependencies_allow,
    not_its_own,
    not_over_a_question,
    possible,
    reason_is_gone,
    refusal,
    seen,
)
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import Task
from detent.kernel.lifecycles.job import JOB
from detent.kernel.predicates import ENDED_JOB, has_failed, is_blocked, is_done, was_settled
from detent.kernel.transitions import cancellation, settlement, task_job

# ---- running ---------------------------------------------------------------------------------


def queue_task(draft: Draft, command: c.QueueTask) -> None:
    task = draft.task(command.task_id)
    not_its_own(draft, task, "run it")
    not_over_a_question(task)
    if draft.may(task, e.TaskRetried):
        _again(draft, task)
    else:
        possible(draft, task, e.TaskQueued)
        draft.emit(task.id, e.TaskQueued(job_of_task(task.id, task.jobs + 1)))


def retry_task(draft: Draft, command: c.RetryTask) -> None:
    task = draft.task(command.task_id)
    not_its_own(draft, task, "retry it")
    stopped_by_budget = is_blocked(draft, task) and task.blocked_by == "budget"
    if command.changes:
        change(draft, task, command.changes)
    if command.budget is not None:
        set_budget(draft, task, command.budget)
    task = draft.task(task.id)
    if stopped_by_budget and not is_blocked(draft, task):
        return  # the new budget has unblocked it
    if is_blocked(draft, task):
        reason_is_gone(draft, task)
        task_job.unblock(draft, task)
    elif draft.may(task, e.TaskRetried):
        _again(draft, task)
    else:
        retried = "task_retried" in draft.lifecycle(task).events
        event = e.TaskRetried.name if retried else e.TaskUnblocked.name
        raise refusal(draft, task, event, "retried")


def _again(draft: Draft, task: Task) -> None:
    dependencies_allow(draft, task)
    draft.emit(task.id, e.TaskRetried(task_job.new_job(draft, task)))


def resume_task(draft: Draft, command: c.ResumeTask) -> None:
    task = draft.task(command.task_id)
    not_its_own(draft, task, "resume it")
    not_over_a_question(task)
    possible(draft, task, e.TaskResumed)
    draft.emit(task.id, e.TaskResumed())


def unblock_task(draft: Draft, command: c.UnblockTask) -> None:
    """Unblock a task because a person says that the reason is gone."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "unblock it")
    possible(draft, task, e.TaskUnblocked)
    reason_is_gone(draft, task)
    task_job.unblock(draft, task)


def dismiss_subtask(draft: Draft, command: c.DismissSubtask) -> str:
    """Return `dismissed`, or `repeated` if it was settled before, which changes nothing."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "dismiss it")
    if task.parent_id is None:
        raise Refused(
            f"Task {task.id} is not a subtask, so no task waits for it.", code="not_dismissible"
        )
    if was_settled(draft, task):
        return "repeated"
    if not has_failed(draft, task):
        raise _not_dismissible(draft, task)
    settlement.dismiss(draft, task, command.reason)
    return "dismissed"


def _not_dismissible(draft: Draft, task: Task) -> Refused:
    """Return the refusal. A live subtask may be cancelled first; a completed one is settled."""
    done = is_done(draft, task)
    legal = ("cancel",) if draft.may(task, e.TaskCancelled) else ()
    hint = "There is nothing to do: its parent does not wait for it." if done else None
    return Refused(
        f"Subtask {task.id} is {task.state}. Only a subtask that failed, timed out, was cancelled "
        "or exceeded its budget can be dismissed.",
        code="not_dismissible",
        legal=legal,
        hint=hint,
        details={"state": task.state},
    )


def retry_job(draft: Draft, command: c.RetryJob) -> None:
    job = draft.job(command.job_id)
    not_its_own(draft, job, "retry it")
    task = draft.task_of(job)
    if task is not None:
        retry_task(draft, c.RetryTask(task.id))
    elif job.state == "failed":
        draft.emit(job.id, e.JobRequeued("retried"))
    else:
        raise Refused(
            f"Job {job.id} is {job.state}. Only a failed job can be retried.",
            code="illegal_transition",
        )


# ---- cancelling ------------------------------------------------------------------------------


def cancel_task(draft: Draft, command: c.CancelTask) -> str:
    """Cancel a task: return `cancelled`, or `requested` if its worker must stop first."""
    cancel_reason(command.reason)
    task = draft.task(command.task_id)
    _can_be_cancelled(draft, task)
    seen(draft, task, command.seen)
    return cancellation.cancel(draft, task, command.reason)


def _can_be_cancelled(draft: Draft, task: Task) -> None:
    """Refuse a cancel that would change nothing. A live job can always be cancelled."""
    job = draft.job_of(task)
    if job is None or job.state in ENDED_JOB:
        possible(draft, task, e.TaskCancelled)


def cancel_job(draft: Draft, command: c.CancelJob) -> str:
    cancel_reason(command.reason)
    job = draft.job(command.job_id)
    task = draft.task_of(job)
    if task is not None:
        _can_be_cancelled(draft, task)
        return cancellation.cancel(draft, task, command.reason)
    if (job.state, e.JobCancelled.name) not in JOB.move:
        message = f"Job {job.id} cannot be cancelled: it is {job.state}."
        raise JOB.illegal(job.state, e.JobCancelled.name, message=message)
    return cancellation.cancel_job(draft, job, command.reason)
