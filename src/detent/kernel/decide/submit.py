"""Decides submissions: a task with its parent and dependencies, a job without a task, a fork."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide.guards import not_its_own, only_below_its_own
from detent.kernel.dependency_cycles import cycle
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import NOT_BEFORE, Task
from detent.kernel.lifecycle import normalise
from detent.kernel.plan_progress import record_plan_over
from detent.kernel.predicates import ENDED_JOB, has_ended, has_failed, is_done
from detent.kernel.priority import priority_from
from detent.kernel.task_lifecycle import in_use
from detent.kernel.traceparent import TRACEPARENT, context_in, span_in_trace

MAX_DEPTH = 5
MAX_SUBTASKS = 10_000


def submit_task(draft: Draft, command: c.SubmitTask) -> str:
    if draft.find_task(command.task_id) is not None:
        raise Refused(f"Task {command.task_id} exists already.", code="task_exists")
    parent = None if command.parent_id is None else draft.task(command.parent_id)
    only_below_its_own(draft, parent)
    if parent is not None:
        _check_parent(draft, parent, command)
    draft.emit(command.task_id, _created(draft, command, parent))
    task = draft.task(command.task_id)
    for ancestor in draft.ancestors(task):
        draft.emit(ancestor.id, e.SubtaskAdded(task.id))
    _record_failed_dependencies(draft, command)
    if parent is not None and parent.cancel_reason is not None:
        draft.emit(task.id, e.TaskCancelled(parent.cancel_reason))
    elif command.queue or parent is not None:
        draft.emit(task.id, e.TaskQueued(job_of_task(task.id, 1)))
    return task.id


def _created(draft: Draft, command: c.SubmitTask, parent: Task | None) -> e.TaskCreated:
    return e.TaskCreated(
        project=command.project,
        lifecycle=_task_lifecycle(draft, command.lifecycle),
        intent=command.intent,
        source=command.source,
        priority=priority_from(command.priority).value,
        root_id=command.task_id if parent is None else parent.root_id,
        parent_id=command.parent_id,
        depth=0 if parent is None else parent.depth + 1,
        title=command.title,
        payload=command.payload,
        tags=command.tags,
        depends_on=command.depends_on,
        open_dependencies=_open_dependencies(draft, command),
        budget=command.budget,
        options=_in_trace_of(parent, _options(draft, command)),
    )


def _in_trace_of(parent: Task | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options; a subtask without a trace context is in the trace of its parent."""
    given = None if parent is None else context_in(parent.options)
    if parent is None or given is None or TRACEPARENT in options:
        return options
    return {**options, TRACEPARENT: str(span_in_trace(given, parent.id, parent.id))}


def _options(draft: Draft, command: c.SubmitTask | c.SubmitJob) -> Mapping[str, Any]:
    """Return the options, with the earliest start time if it is in the future."""
    at = draft.now + command.delay if command.delay else command.not_before
    return {**command.options, NOT_BEFORE: at} if at > draft.now else command.options


def _task_lifecycle(draft: Draft, given: str) -> str:
    name = normalise(given)
    found = draft.lifecycles.get(name)
    if found is None or found.removed:
        known = [each.id for each in in_use(draft.lifecycles)]
        raise NotFound(
            f"There is no lifecycle {given!r} of tasks. Known: {', '.join(known)}.",
            code="unknown_lifecycle",
            known=known,
        )
    return name


def _open_dependencies(draft: Draft, command: c.SubmitTask) -> int:
    still_open = 0
    for name in command.depends_on:
        if name == command.task_id:
            raise Invalid(f"Task {name} cannot depend on itself.", field="depends_on", given=name)
        dependency = draft.find_task(name)
        if dependency is None or dependency.project != command.project:
            message = f"There is no task {name} in project {command.project}."
            raise Invalid(message, field="depends_on", given=name)
        still_open += not is_done(draft, dependency)
    depends_on = command.depends_on
    path = cycle(draft, command.task_id, command.parent_id, depends_on) if depends_on else None
    if path is not None:
        raise Invalid(
            f"These tasks would wait for each other in a cycle: {' -> '.join(path)}.",
            field="depends_on",
            given=path[1],
        )
    return still_open


def _record_failed_dependencies(draft: Draft, command: c.SubmitTask) -> None:
    for name in command.depends_on:
        dependency = draft.task(name)
        if has_failed(draft, dependency):
            draft.emit(command.task_id, e.DependencyFailed(name, dependency.state))


def _check_parent(draft: Draft, parent: Task, command: c.SubmitTask) -> None:
    root = draft.task(parent.root_id)
    deepest = _lower(MAX_DEPTH, command.max_depth)
    if parent.depth >= deepest:
        raise Refused(f"Subtasks can be nested at most {deepest} deep.", code="too_deep")
    for task, maximum in ((root, MAX_SUBTASKS), (parent, command.max_subtasks)):
        if maximum is not None and task.subtasks >= maximum:
            raise Refused(
                f"Task {task.id} has {task.subtasks} subtasks, which is the limit.",
                code="too_many_subtasks",
            )
    if has_ended(draft, parent) or _under_review(draft, parent):
        raise Refused(
            f"Task {parent.id} is {parent.state} and accepts no subtasks.", code="parent_ended"
        )


def _under_review(draft: Draft, task: Task) -> bool:
    return draft.lifecycle(task).by_state[task.state].under_review


def _lower(limit: int, own: int | None) -> int:
    return limit if own is None else min(limit, own)


def submit_job(draft: Draft, command: c.SubmitJob) -> str:
    if draft.find_job(command.job_id) is not None:
        raise Refused(f"Job {command.job_id} exists already.", code="job_exists")
    parent = None if command.parent_job_id is None else draft.job(command.parent_job_id)
    only_below_its_own(draft, parent)
    if parent is not None and parent.state in ENDED_JOB:
        raise Refused(
            f"Job {parent.id} is {parent.state} and accepts no child jobs.", code="parent_ended"
        )
    created = e.JobCreated(
        project=command.project,
        intent=command.intent,
        priority=priority_from(command.priority).value,
        root_id=command.job_id if parent is None else parent.root_id,
        parent_job_id=command.parent_job_id,
        payload=command.payload,
        concurrency_key=command.concurrency_key,
        options=_options(draft, command),
    )
    draft.emit(command.job_id, created)
    if parent is not None and parent.cancel_reason is not None:
        draft.emit(command.job_id, e.JobCancelled(parent.cancel_reason))
    return command.job_id


def fork_job(draft: Draft, command: c.ForkJob) -> str:
    """Create a job without a task that starts with the kept results of its source."""
    if draft.find_job(command.job_id) is not None:
        raise Refused(f"Job {command.job_id} exists already.", code="job_exists")
    source = draft.job(command.source)
    not_its_own(draft, source, "fork it")
    created = e.JobCreated(
        project=source.project,
        intent=source.intent,
        priority=source.priority,
        root_id=command.job_id,
        payload=command.payload,
        concurrency_key=source.concurrency_key,
        options=source.options,
    )
    draft.emit(command.job_id, created)
    draft.emit(command.job_id, e.JobForked(source.id, command.until))
    if command.plan is not None:
        record_plan_over(draft, draft.job(command.job_id), command.plan, command.carried)
    for kept in command.kept:
        recorded = e.CheckpointRecorded(kept.kind, kept.value, kept.step)
        draft.emit(command.job_id, recorded, kept.name)
    return command.job_id
