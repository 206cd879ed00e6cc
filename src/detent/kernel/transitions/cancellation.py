"""Cancellation of tasks and jobs, immediately or by a request to the worker, and of their trees."""

from typing import cast

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Task
from detent.kernel.outcome_rules import follow
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.task_lifecycle import Trigger
from detent.kernel.transitions.task_job import task_of_stream

#: The reason of the cancel of variants that were not chosen.
OTHER_CHOSEN = "another variant was chosen"

# ---- shared ----------------------------------------------------------------------------------


def cancel(draft: Draft, task: Task, reason: str) -> str:
    """Cancel a task: return `cancelled`, or `requested` if its worker must stop first."""
    job = draft.job_of(task)
    if job is None or job.state in ENDED_JOB:
        draft.emit(task.id, e.TaskCancelled(reason))
        return "cancelled"
    if job.state == "running" and task.cancel_reason is None:
        draft.emit(task.id, e.TaskCancelRequested(reason))
    return cancel_job(draft, job, reason)


def cancel_job(draft: Draft, job: Job, reason: str) -> str:
    """Cancel a job: return `cancelled`, or `requested` if its worker must stop first."""
    if job.state != "running":
        draft.emit(job.id, e.JobCancelled(reason))
        return "cancelled"
    if job.cancel_reason is None:
        draft.emit(job.id, e.JobCancelRequested(reason))
    return "requested"


# ---- couplings -------------------------------------------------------------------------------


def cancel_task(draft: Draft, record: e.Record) -> None:
    """The job was cancelled: cancel its task, or fail it if a dependency is the reason."""
    follow(draft, Trigger.JOB_CANCELLED, task_of_stream(draft, record), record)


def cancel_subtasks(draft: Draft, record: e.Record) -> None:
    """Cancel all live subtasks, also those below a subtask that has ended."""
    event = cast(e.TaskCancelled, record.event)
    for child in draft.subtasks(record.stream):
        _cancel_tree(draft, child, event.reason)


def cancel_other_variants(draft: Draft, record: e.Record) -> None:
    """A variant was chosen: cancel every other live subtask: variants and their checks."""
    chosen = cast(e.VariantChosen, record.event).task_id
    for child in draft.subtasks(record.stream):
        if child.id != chosen:
            _cancel_tree(draft, child, OTHER_CHOSEN)


def _cancel_tree(draft: Draft, task: Task, reason: str) -> None:
    if draft.may(task, e.TaskCancelled):
        cancel(draft, task, reason)  # its event cancels the subtasks below it
        return
    for child in draft.subtasks(task.id):
        _cancel_tree(draft, child, reason)


def cancel_child_jobs(draft: Draft, record: e.Record) -> None:
    event = cast(e.JobCancelled, record.event)
    for child_id in draft.children[record.stream]:
        child = draft.find_job(child_id)
        if child is not None and child.state not in ENDED_JOB:
            cancel_job(draft, child, event.reason)
