"""The check of a task's work by another intent, before a person reviews it: as a subtask.

The options of the subtask have `CHECKS`: what it checks. Its result says whether the work fulfils
the criteria (`accept`). Only where the task's options allow it, that accepts the task. Pure.
"""

from collections.abc import Mapping
from typing import Any

from detent.kernel import events as e
from detent.kernel.acceptance import action_of
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import Task

#: In the options of a checker's task: the task, job and run, and the diff that it checks. No
#: submission can set it.
CHECKS = "checks"


def says_accept(result: Any) -> bool:
    """Whether the result of a check says that the work fulfils its criteria."""
    return isinstance(result, Mapping) and result.get("accept") is True


def accept_by_checker(draft: Draft, task: Task, subtask_id: str) -> None:
    """Accept a task under review whose checker accepts its latest work, if its options allow it."""
    if not task.options.get("checker_may_accept"):
        return
    checker = draft.find_task(subtask_id)
    job = None if checker is None else draft.job_of(checker)
    if checker is None or job is None or checker.intent == task.intent:
        return
    checked = job.options.get(CHECKS, {})
    state = draft.lifecycle(task).by_state[task.state]
    if not state.under_review or checked.get("job_id") != task.job_id:
        return
    # A checker that has seen a part of the diff does not accept the rest.
    if job.state != "completed" or checked.get("truncated") or not says_accept(job.result):
        return
    action = action_of(task.options)
    if not draft.may(task, e.TaskAccepted if action is None else e.TaskAccepting):
        return
    by, diff = f"checker:{checker.intent}", checked.get("diff")
    if action is None:
        draft.emit(task.id, e.TaskAccepted(diff=diff, by=by))
    else:
        job_id = job_of_task(task.id, task.jobs + 1)
        draft.emit(task.id, e.TaskAccepting(job_id, diff=diff, by=by))
