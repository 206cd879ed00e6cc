"""What the couplings bring about: each takes the draft and the event that caused it."""

from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.derived_ids import run_of_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Task, Wait
from detent.kernel.predicates import ENDED_JOB, failure_class, in_work, judged, was_settled
from detent.kernel.retry import Again, FailureClass
from detent.kernel.transitions.actions import (
    cancel,
    cancel_job,
    end_value,
    end_wait,
    fail_job,
    settle_handled,
    signal,
    signalled,
    try_again,
    unblock,
)
from detent.kernel.wait_kinds import blocks, parks, satisfied
from detent.kernel.world import WAITS

# ---- up: from a run to its job and task ------------------------------------------------------


def start_task(draft: Draft, record: e.Record) -> None:
    task = draft.task_of(draft.job(record.stream))
    if task is not None and record.subject is not None:
        draft.emit(task.id, e.TaskStarted(run_id=record.subject))


def rest_job(draft: Draft, record: e.Record) -> None:
    rest(draft, record.stream)


def rest(draft: Draft, job_id: str) -> None:
    """Nothing of the job is live: it waits, or parks when that will take long."""
    waits: list[Wait] = list(draft.parts_of(WAITS, job_id).values())
    ready = next(filter(satisfied, waits), None)
    wait = ready or min(waits, key=lambda each: (each.due_at is None, each.due_at or 0))
    long = ready is None and all(parks(each, draft.now) for each in waits)
    draft.emit(job_id, e.JobParked(wait.kind) if long else e.JobWaiting(wait.kind))
    if ready is not None:
        value = signalled(draft, ready)
        draft.emit(job_id, e.WaitCompleted(ready.name, "signalled", value, ready.step))
        settle_handled(draft, ready)
        return
    task = draft.task_of(draft.job(job_id))
    stopper = next(filter(blocks, waits), None)
    if task is not None and stopper is not None and in_work(task):
        draft.emit(task.id, e.TaskBlocked(blocks(stopper) or "", _shown(stopper)))


def _shown(wait: Wait) -> dict[str, Any]:
    """What a person needs to know about the wait that blocks a task."""
    due = {} if wait.due_at is None else {"due_at": wait.due_at}
    return {**wait.detail, "wait": wait.name, **due}


def retry_job(draft: Draft, record: e.Record) -> None:
    event = cast(e.RunFailed | e.RunTimedOut, record.event)
    again = cast(Again, judged(draft, record))
    try_again(draft, draft.job(record.stream), failure_class(event), event.error, again)


def give_job_up(draft: Draft, record: e.Record) -> None:
    event = cast(e.RunFailed | e.RunTimedOut, record.event)
    fail_job(draft, draft.job(record.stream), failure_class(event), event.error)


# ---- up: from a job to its task and its parent job -------------------------------------------


def unblock_task(draft: Draft, record: e.Record) -> None:
    task = _task(draft, record)
    draft.emit(task.id, e.TaskUnblocked(task.blocked_by))


def finish_task(draft: Draft, record: e.Record) -> None:
    task = _task(draft, record)
    if task.lifecycle == "board" and task.open_subtasks > 0:
        draft.emit(task.id, e.TaskBlocked("subtasks", _subtasks(task)))
    elif task.lifecycle == "board" or task.parent_id is not None:
        draft.emit(task.id, e.TaskCompleted())
    elif task.subtasks == 0:
        draft.emit(task.id, e.TaskReady())
    else:
        draft.emit(task.id, e.TaskBlocked("subtasks", _subtasks(task)))
        if task.open_subtasks == 0:
            draft.emit(task.id, e.TaskReady())


def _subtasks(task: Task) -> dict[str, Any]:
    failed = {"failed": task.failed_subtask} if task.failed_subtask else {}
    return {"open": task.open_subtasks, **failed}


def fail_task(draft: Draft, record: e.Record) -> None:
    event = cast(e.JobFailed, record.event)
    task = _task(draft, record)
    if task.lifecycle == "board":
        reason = "budget" if event.error_class == FailureClass.BUDGET else "error"
        detail = {"error_class": event.error_class, "error": event.error}
        draft.emit(task.id, e.TaskBlocked(reason, detail, retries_left=0))
    elif task.state == "running" and event.error_class == FailureClass.TIMEOUT:
        draft.emit(task.id, e.TaskTimedOut(event.error))
    elif task.state == "running" and event.error_class == FailureClass.BUDGET:
        draft.emit(task.id, e.TaskBudgetExceeded(task.spent, task.budget))
    else:
        draft.emit(task.id, e.TaskFailed(event.error_class, event.error))


def cancel_task(draft: Draft, record: e.Record) -> None:
    reason = cast(e.JobCancelled, record.event).reason
    task = _task(draft, record)
    if reason != "dependency":
        draft.emit(task.id, e.TaskCancelled(reason))
    elif task.lifecycle == "review":
        error = f"the task {task.failed_dependency} that it depends on has failed"
        draft.emit(task.id, e.TaskFailed(FailureClass.DEPENDENCY.value, error))
    elif draft.may(task, e.TaskBlocked):
        detail = {"on": list(task.depends_on), "failed": task.failed_dependency}
        draft.emit(task.id, e.TaskBlocked("dependency", detail))


def _task(draft: Draft, record: e.Record) -> Task:
    return draft.task(cast(str, draft.job(record.stream).task_id))


def tell_parent_job(draft: Draft, record: e.Record) -> None:
    job = draft.job(record.stream)
    signal(draft, cast(str, job.parent_job_id), f"job:{job.id}", end_value(job.state, job))


# ---- up: from a task to its parents and to those who wait for it -----------------------------


def subtask_is_done(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    for ancestor in _counting(draft, task):
        draft.emit(ancestor.id, e.SubtaskDone(task.id))
    _tell_parents_job(draft, task)


def subtask_has_failed(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    for ancestor in _counting(draft, task):
        draft.emit(ancestor.id, e.SubtaskFailed(task.id, task.state))
    _tell_parents_job(draft, task)


def _counting(draft: Draft, subtask: Task) -> list[Task]:
    """The tasks above that wait for the subtask. A settled one that runs again has none."""
    return [] if was_settled(draft, subtask) else draft.ancestors(subtask)


def _tell_parents_job(draft: Draft, task: Task) -> None:
    """A handler that gathers its subtasks hears of each one's end as a signal."""
    parent = draft.task(cast(str, task.parent_id))
    if parent.job_id is None or task.job_id is None:
        return
    value = end_value(task.state, draft.job(task.job_id))
    signal(draft, parent.job_id, f"task:{task.id}", value)


def close_parent(draft: Draft, record: e.Record) -> None:
    """Its job has completed and is not run again. A blocked board task is started first: the
    board's table has no other way from blocked to done."""
    task = draft.task(record.stream)
    job = draft.job(cast(str, task.job_id))
    if task.lifecycle == "review":
        draft.emit(task.id, e.TaskReady())
        return
    if task.state == "blocked":
        draft.emit(task.id, e.TaskStarted(run_of_job(job.id, job.runs)))
    draft.emit(task.id, e.TaskCompleted())


def release_dependents(draft: Draft, record: e.Record) -> None:
    for dependent in _dependents(draft, record):
        draft.emit(dependent.id, e.DependencyDone(record.stream))


def warn_dependents(draft: Draft, record: e.Record) -> None:
    state = draft.task(record.stream).state
    for dependent in _dependents(draft, record):
        draft.emit(dependent.id, e.DependencyFailed(record.stream, state))


def _dependents(draft: Draft, record: e.Record) -> list[Task]:
    found = (draft.find_task(each) for each in draft.dependents[record.stream])
    return [each for each in found if each is not None]


def fail_waiting_task(draft: Draft, record: e.Record) -> None:
    """What it depends on has failed: its job will not be done."""
    task = draft.task(record.stream)
    if task.job_id is not None and draft.job(task.job_id).state == "queued":
        draft.emit(task.job_id, e.JobCancelled("dependency"))


def release_task(draft: Draft, record: e.Record) -> None:
    unblock(draft, draft.task(record.stream))


# ---- down: from a task to its job ------------------------------------------------------------


def create_job(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    created = e.JobCreated(
        project=task.project,
        intent=task.intent,
        priority=task.priority,
        root_id=task.root_id,
        task_id=task.id,
        concurrency_key=task.options.get("concurrency_key") if task.options else None,
        options=task.options,
    )
    draft.emit(cast(str, task.job_id), created)


def block_on_dependency(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    draft.emit(task.id, e.TaskBlocked("dependency", {"on": list(task.depends_on)}))


def requeue_job(draft: Draft, record: e.Record) -> None:
    """A person's retry: the failed job once more."""
    draft.emit(cast(str, draft.task(record.stream).job_id), e.JobRequeued("retried"))


def wake_job(draft: Draft, record: e.Record) -> None:
    """The task goes on: so does its job, from wherever it stands."""
    event = cast(e.TaskUnblocked, record.event)
    job = draft.job(cast(str, draft.task(record.stream).job_id))
    wait: Wait | None = draft.part(WAITS, job.id, event.wait or "")
    if wait is not None:
        end_wait(draft, wait, event.outcome, event.value)
    elif job.state == "retrying":
        draft.emit(job.id, e.JobRequeued("released"))
    elif job.state == "failed":
        draft.emit(job.id, e.JobRequeued("retried"))


def pass_answer(draft: Draft, record: e.Record) -> None:
    event = cast(e.TaskAnswered, record.event)
    job_id = cast(str, draft.task(record.stream).job_id)
    wait: Wait = draft.part(WAITS, job_id, event.question)
    end_wait(draft, wait, event.outcome, event.answer)


# ---- down: from a task to its subtasks, from a job to the jobs below it ----------------------


def cancel_subtasks(draft: Draft, record: e.Record) -> None:
    """All of them, also those below one that has ended."""
    event = cast(e.TaskCancelled, record.event)
    for child in draft.subtasks(record.stream):
        _cancel_below(draft, child, event.reason)


def _cancel_below(draft: Draft, task: Task, reason: str) -> None:
    if draft.may(task, e.TaskCancelled):
        cancel(draft, task, reason)  # and so, by this coupling, what is below it
        return
    for child in draft.subtasks(task.id):
        _cancel_below(draft, child, reason)


def cancel_child_jobs(draft: Draft, record: e.Record) -> None:
    event = cast(e.JobCancelled, record.event)
    for child_id in draft.children[record.stream]:
        child = draft.find_job(child_id)
        if child is not None and child.state not in ENDED_JOB:
            cancel_job(draft, child, event.reason)
