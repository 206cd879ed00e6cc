"""Decides changes to existing work: edit fields, assign, raise a budget, add evidence, delete."""

from collections.abc import Iterator, Mapping
from typing import Any

from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.budget import dollars
from detent.kernel.budget_reservation import used_up
from detent.kernel.decide.guards import not_its_own, seen
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import ASSIGNED_TO, NOT_BEFORE, Job, Task
from detent.kernel.predicates import ENDED_JOB, has_ended, is_blocked
from detent.kernel.priority import priority_from
from detent.kernel.task_lifecycle import Phase
from detent.kernel.traceparent import TRACEPARENT
from detent.kernel.transitions.task_job import unblock
from detent.kernel.transitions.waits import end_wait
from detent.kernel.variants import CHOSEN, VARIANT
from detent.kernel.world import RUNS, WAITS

#: What is stored with the options of a task and is no option of a request.
KEPT = (ASSIGNED_TO, CHOSEN, VARIANT, TRACEPARENT)
EDITABLE = ("title", "payload", "tags", "priority", "options")

# ---- editing ---------------------------------------------------------------------------------


def edit_task(draft: Draft, command: c.EditTask) -> None:
    """Change fields and the budget: all that are named, or none."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "change it")
    seen(draft, task, command.seen)
    _not_ended(draft, task)
    if command.changes:
        change(draft, task, command.changes)
    if command.budget is not None:
        raise_budget(draft, c.RaiseBudget(task.id, command.budget))


def change(draft: Draft, task: Task, given: Mapping[str, Any]) -> None:
    """Change fields of a task; a new priority also moves its job in the queue."""
    changes = _checked(given)
    if "options" in changes:
        changes["options"] = _with_kept_options(task, changes["options"])
    draft.emit(task.id, e.TaskEdited(changes))
    job = draft.job_of(task)
    if "priority" in changes and job is not None and job.state not in ENDED_JOB:
        start = job.options.get(NOT_BEFORE, 0)
        draft.emit(job.id, e.JobReprioritised(changes["priority"], start))


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    changes = dict(given)
    for name in changes:
        if name not in EDITABLE:
            raise Invalid(f"The field {name} cannot be changed.", field=name, allowed=EDITABLE)
    if "priority" in changes:
        changes["priority"] = priority_from(changes["priority"]).value
    return changes


def _with_kept_options(task: Task, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """New options with the present assignment and choice: the editor may have read earlier ones."""
    others = {name: value for name, value in options.items() if name not in KEPT}
    own = {name: value for name, value in task.options.items() if name in KEPT}
    return {**others, **own}


def _not_ended(draft: Draft, task: Task) -> None:
    if has_ended(draft, task):
        raise Refused(
            f"Task {task.id} is {task.state} and can no longer be changed.", code="task_ended"
        )


# ---- assignment ------------------------------------------------------------------------------


def assign_task(draft: Draft, command: c.AssignTask) -> str:
    """Assign a task in any state: also an ended one may wait for a person."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "assign it")
    if task.options.get(ASSIGNED_TO) == command.person:
        return "repeated"
    draft.emit(task.id, e.TaskAssigned(command.person))
    return "unassigned" if command.person is None else "assigned"


# ---- budgets ---------------------------------------------------------------------------------


def raise_budget(draft: Draft, command: c.RaiseBudget) -> None:
    """Raise a budget; everything in the tree that only this budget blocked continues."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "raise its budget")
    _not_ended(draft, task)
    set_budget(draft, task, command.budget)


def set_budget(draft: Draft, task: Task, budget: int) -> None:
    """Set a budget that is higher than what is spent; what only the old one blocked continues."""
    if budget <= task.spent:
        raise Refused(
            f"Task {task.id} has spent {dollars(task.spent)} dollars. The budget must be higher, "
            f"not {dollars(budget)}.",
            code="budget_too_small",
        )
    draft.emit(task.id, e.BudgetRaised(budget))
    for each in list(draft.tree(draft.task(task.id))):
        if not used_up(draft, each):
            _let_go_on(draft, each)


def _let_go_on(draft: Draft, task: Task) -> None:
    waits = draft.parts_of(WAITS, task.job_id or "").values()
    held_up = [wait for wait in waits if wait.kind in ("budget", "funds")]
    for wait in held_up:
        # A job that continues drops its `funds` waits.
        if draft.part(WAITS, wait.job_id, wait.name) is not None:
            end_wait(draft, wait, "raised")
    if not held_up and is_blocked(draft, task) and task.blocked_by == "budget":
        unblock(draft, task, outcome="raised")


# ---- evidence --------------------------------------------------------------------------------


def attach_evidence(draft: Draft, command: c.AttachEvidence) -> None:
    """Add evidence to a run, unless a worker has claimed its job: then only the worker may."""
    job = draft.job(command.job_id)
    not_its_own(draft, job, "add evidence to it")
    if job.state == "running":
        raise Refused(
            f"Worker {job.worker} has claimed job {job.id}. Add the evidence after its run ended.",
            code="held_by_worker",
            details={"worker": job.worker},
        )
    if draft.part(RUNS, job.id, command.run_id) is None:
        raise NotFound(f"Job {job.id} has no run {command.run_id}.", code="unknown_run")
    added = e.EvidenceAdded(
        command.file, command.kind, command.sha256, command.size, command.media_type
    )
    draft.emit(job.id, added, command.run_id)


# ---- deleting --------------------------------------------------------------------------------


def delete_task(draft: Draft, command: c.DeleteTask) -> None:
    """Delete a task with its subtasks, the deepest first."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "delete it")
    tree = list(draft.tree(task))
    reasons = _reasons_to_keep(draft, task, tree)
    if reasons:
        raise Refused(
            f"Task {task.id} cannot be deleted: {'; '.join(reasons)}.",
            code="still_needed",
            details={"reasons": reasons},
        )
    for each in reversed(tree):
        events = draft.versions.get(each.id, 0)
        draft.emit(each.id, e.TaskDeleted(command.reason, events, each.jobs, _runs(draft, each)))


def _runs(draft: Draft, task: Task) -> int:
    """Return the number of runs of all its jobs."""
    jobs = (draft.find_job(each) for each in jobs_of_task(task.id, task.jobs))
    return sum(job.runs for job in jobs if job is not None)


def _reasons_to_keep(draft: Draft, task: Task, tree: list[Task]) -> list[str]:
    """Return all reasons why the task cannot be deleted."""
    reasons = _alive(draft, task)
    reasons += [
        f"its subtask {each.id} is {each.state}" for each in tree[1:] if draft.ending(each) is None
    ]
    inside = {each.id for each in tree}
    for each in tree:
        waiting = [name for name in draft.dependents.get(each.id, ()) if name not in inside]
        reasons += [f"task {name} depends on it" for name in waiting if _still_waits(draft, name)]
    if task.parent_id is not None and not has_ended(draft, draft.task(task.parent_id)):
        reasons.append(f"its parent {task.parent_id} has not ended")
    return reasons


def _alive(draft: Draft, task: Task) -> list[str]:
    reasons = []
    if draft.phase(task) in (Phase.QUEUED, Phase.WORKING):
        reasons.append(f"it is {task.state}")
    job = draft.job_of(task)
    if job is not None and job.state not in ENDED_JOB:
        reasons.append(f"its job {job.id} is {job.state}")
    return reasons


def _still_waits(draft: Draft, task_id: str) -> bool:
    task = draft.find_task(task_id)
    return task is not None and task.open_dependencies > 0 and not has_ended(draft, task)


def delete_job(draft: Draft, command: c.DeleteJob) -> None:
    job = draft.job(command.job_id)
    if job.task_id is not None:
        raise Refused(
            f"Job {job.id} belongs to task {job.task_id}. Delete the task instead.",
            code="still_needed",
        )
    if job.state not in ENDED_JOB:
        raise Refused(f"Job {job.id} is {job.state}. Cancel it first.", code="still_needed")
    tree = list(_jobs_below(draft, job))
    live = [f"its child {each.id} is {each.state}" for each in tree if each.state not in ENDED_JOB]
    if live:
        raise Refused(
            f"Job {job.id} cannot be deleted: {'; '.join(live)}.",
            code="still_needed",
            details={"reasons": live},
        )
    for each in reversed([job, *tree]):
        events = draft.versions.get(each.id, 0)
        draft.emit(each.id, e.JobDeleted(command.reason, events, each.runs))


def _jobs_below(draft: Draft, job: Job) -> Iterator[Job]:
    """Return its child jobs and their child jobs, parents first."""
    for child_id in draft.children.get(job.id, ()):
        child = draft.find_job(child_id)
        if child is not None:
            yield child
            yield from _jobs_below(draft, child)
