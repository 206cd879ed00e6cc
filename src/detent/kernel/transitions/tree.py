"""Parents and dependents: the effect of a task's or job's end on those that wait for it.

All functions are couplings.
"""

from typing import cast

from detent.kernel import events as e
from detent.kernel.checks import accept_by_checker
from detent.kernel.draft import Draft
from detent.kernel.entities import Task
from detent.kernel.outcome_rules import follow
from detent.kernel.predicates import is_done, was_settled
from detent.kernel.task_lifecycle import Trigger
from detent.kernel.transitions.task_job import unblock
from detent.kernel.transitions.waits import deliver_signal, end_of_job, end_of_task

# ---- parents ---------------------------------------------------------------------------------


def signal_parent_job(draft: Draft, record: e.Record) -> None:
    job = draft.job(record.stream)
    deliver_signal(draft, cast(str, job.parent_job_id), f"job:{job.id}", end_of_job(job))


def count_ended_subtask(draft: Draft, record: e.Record) -> None:
    """Record the end in every task above that waits, and signal the job of the parent."""
    task = draft.task(record.stream)
    done = is_done(draft, task)
    for ancestor in _counting_ancestors(draft, task):
        failed = e.SubtaskFailed(task.id, task.state)
        draft.emit(ancestor.id, e.SubtaskDone(task.id) if done else failed)
    _signal_job_of_parent(draft, task)


def _counting_ancestors(draft: Draft, subtask: Task) -> list[Task]:
    """Return the tasks above that wait for the subtask: none for one that was settled before."""
    return [] if was_settled(draft, subtask) else draft.ancestors(subtask)


def _signal_job_of_parent(draft: Draft, task: Task) -> None:
    """Send the end of a subtask to its parent's job, whose handler may gather its subtasks."""
    parent = draft.task(cast(str, task.parent_id))
    if parent.job_id is None or task.job_id is None:
        return
    deliver_signal(draft, parent.job_id, f"task:{task.id}", end_of_task(draft, task))


def finish_parent(draft: Draft, record: e.Record) -> None:
    """The last subtask is settled: finish the parent, whose completed job is not run again."""
    follow(draft, Trigger.SUBTASKS_SETTLED, draft.task(record.stream), record)
    if isinstance(record.event, e.SubtaskDone):
        accept_by_checker(draft, draft.task(record.stream), record.event.task_id)


# ---- dependents ------------------------------------------------------------------------------


def mark_dependency(draft: Draft, record: e.Record) -> None:
    """Record the end in every task that depends on the ended one."""
    task = draft.task(record.stream)
    done = is_done(draft, task)
    for dependent in _dependents(draft, record):
        failed = e.DependencyFailed(task.id, task.state)
        draft.emit(dependent.id, e.DependencyDone(task.id) if done else failed)


def _dependents(draft: Draft, record: e.Record) -> list[Task]:
    found = (draft.find_task(each) for each in draft.dependents[record.stream])
    return [each for each in found if each is not None]


def block_on_dependency(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    draft.emit(task.id, e.TaskBlocked("dependency", {"on": list(task.depends_on)}))


def cancel_dependent_job(draft: Draft, record: e.Record) -> None:
    """A dependency failed: cancel the queued job of the dependent task."""
    task = draft.task(record.stream)
    if task.job_id is not None and draft.job(task.job_id).state == "queued":
        draft.emit(task.job_id, e.JobCancelled("dependency"))


def unblock_dependent(draft: Draft, record: e.Record) -> None:
    unblock(draft, draft.task(record.stream))
