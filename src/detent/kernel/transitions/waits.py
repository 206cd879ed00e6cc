"""Waits of a job: begin to wait, receive signals, and end a wait.

A wait is the only record of what a job waits for. A blocked task shows a copy of it, and the
checkpoint of the same name keeps its outcome. `end_wait` is the only way to end one.
"""

from collections.abc import Iterable
from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Task, Wait
from detent.kernel.predicates import ENDED_JOB, WAITING_JOB, in_work, is_blocked
from detent.kernel.retention import JOB_ENDINGS, Ending
from detent.kernel.transitions.settlement import settle_handled
from detent.kernel.transitions.task_job import unblock
from detent.kernel.wait_kinds import QUESTIONS, blocks, parks, satisfied
from detent.kernel.world import SIGNALS, WAITS

# ---- ending a wait ---------------------------------------------------------------------------


def end_wait(draft: Draft, wait: Wait, outcome: str, value: Any = None) -> None:
    """End a wait.

    If it blocks the task, the task's event comes first (`task_answered` for a question if the
    lifecycle has it, else `task_unblocked`), and the coupling of that event ends the job's wait.
    """
    task = draft.task_of(draft.job(wait.job_id))
    if task is None or not _is_blocked_by(draft, task, wait):
        _end_wait_of_job(draft, wait, outcome, value)
    elif wait.kind in QUESTIONS and draft.may(task, e.TaskAnswered):
        draft.emit(task.id, e.TaskAnswered(value, wait.name, outcome))
    else:
        unblock(draft, task, wait.name, outcome, value)


def end_satisfied_wait(draft: Draft, wait: Wait) -> None:
    """End a wait whose signals were received, with their values by name."""
    signals = {name: draft.part(SIGNALS, wait.job_id, name) for name in wait.needs}
    values = {name: signal.value for name, signal in signals.items() if signal is not None}
    end_wait(draft, wait, "signalled", values)


def _is_blocked_by(draft: Draft, task: Task, wait: Wait) -> bool:
    """Whether the wait blocks the task. Every wake-up ends a block for lack of a resource."""
    if not is_blocked(draft, task):
        return False
    return task.blocked_by == "resource" or task.blocked_detail.get("wait") == wait.name


def _end_wait_of_job(draft: Draft, wait: Wait, outcome: str, value: Any) -> None:
    """Queue a job that waits; in any other job the plan step that waited continues in place."""
    if draft.job(wait.job_id).state in WAITING_JOB:
        draft.emit(wait.job_id, e.WaitCompleted(wait.name, outcome, value, wait.step))
    else:
        draft.emit(wait.job_id, e.WaitEnded(outcome, value, wait.step), wait.name)
    if outcome == "signalled":
        settle_handled(draft, wait)


# ---- couplings: a task's event ends the wait of its job --------------------------------------


def continue_job(draft: Draft, record: e.Record) -> None:
    """The task was unblocked: end the wait that blocked it, or queue its job again."""
    event = cast(e.TaskUnblocked, record.event)
    job = draft.job(cast(str, draft.task(record.stream).job_id))
    wait: Wait | None = draft.part(WAITS, job.id, event.wait or "")
    if wait is not None:
        _end_wait_of_job(draft, wait, event.outcome, event.value)
    elif job.state == "retrying":
        draft.emit(job.id, e.JobRequeued("released"))
    elif job.state == "failed":
        draft.emit(job.id, e.JobRequeued("retried"))


def deliver_answer(draft: Draft, record: e.Record) -> None:
    """The task's question was answered: end the wait of its job with the answer."""
    event = cast(e.TaskAnswered, record.event)
    job_id = cast(str, draft.task(record.stream).job_id)
    wait: Wait = draft.part(WAITS, job_id, event.question)
    _end_wait_of_job(draft, wait, event.outcome, event.answer)


# ---- beginning to wait -----------------------------------------------------------------------


def let_job_wait(draft: Draft, record: e.Record) -> None:
    """Coupling: the only run of the job was suspended."""
    wait_or_park(draft, record.stream)


def wait_or_park(draft: Draft, job_id: str) -> None:
    """Let a job without live runs wait, or park it if all its waits are expected to be long.

    A wait whose signals were received before ends immediately. Otherwise the task is blocked if
    one of the waits blocks it.
    """
    waits: list[Wait] = list(draft.parts_of(WAITS, job_id).values())
    ready = next(filter(satisfied, waits), None)
    wait = ready or min(waits, key=lambda each: (each.due_at is None, each.due_at or 0))
    long = ready is None and all(parks(each, draft.now) for each in waits)
    draft.emit(job_id, e.JobParked(wait.kind) if long else e.JobWaiting(wait.kind))
    if ready is not None:
        end_satisfied_wait(draft, ready)
        return
    task = draft.task_of(draft.job(job_id))
    blocking = next(filter(blocks, waits), None)
    if task is not None and blocking is not None and in_work(draft, task):
        draft.emit(task.id, e.TaskBlocked(blocks(blocking) or "", _blocked_detail(blocking)))


def _blocked_detail(wait: Wait) -> dict[str, Any]:
    """Return what a blocked task shows of the wait that blocks it."""
    due = {} if wait.due_at is None else {"due_at": wait.due_at}
    return {**wait.detail, "wait": wait.name, **due}


# ---- signals ---------------------------------------------------------------------------------


def deliver_signal(draft: Draft, job_id: str, name: str, value: Any) -> None:
    """Deliver a signal once, and end the waits that needed only this signal."""
    job = draft.job(job_id)
    if job.state in ENDED_JOB or draft.part(SIGNALS, job_id, name) is not None:
        return
    draft.emit(job_id, e.SignalReceived(value), name)
    for wait in filter(satisfied, list(draft.parts_of(WAITS, job_id).values())):
        end_satisfied_wait(draft, wait)


def deliver_past_ends(draft: Draft, job: Job, needs: Iterable[str]) -> None:
    """Deliver the ends of children that ended while this job had failed.

    A failed job receives no signals. When it runs again it must not wait for an end that was
    signalled before.
    """
    for name in needs:
        value = _end_of_child(draft, job, name)
        if value is not None:
            deliver_signal(draft, job.id, name, value)


def _end_of_child(draft: Draft, job: Job, name: str) -> dict[str, Any] | None:
    """Return how a child of the job ended; None if the name is no child's or it is still live."""
    kind, _, child_id = name.partition(":")
    if kind == "job":
        child = draft.find_job(child_id)
        if child is not None and child.parent_job_id == job.id and child.state in ENDED_JOB:
            return end_of_job(child)
    task = draft.find_task(child_id) if kind == "task" else None
    if task is None or task.parent_id != job.task_id or task.job_id is None:
        return None
    return None if draft.ending(task) is None else end_of_task(draft, task)


def end_of_job(job: Job) -> dict[str, Any]:
    """Return the value of the signal that tells a parent about the end of a child job."""
    return _end_value(job.state, JOB_ENDINGS.get(job.state), job)


def end_of_task(draft: Draft, task: Task) -> dict[str, Any]:
    """Return the value of the signal that tells a parent about the end of a subtask with a job."""
    return _end_value(task.state, draft.ending(task), draft.job(cast(str, task.job_id)))


def _end_value(state: str, ending: Ending | None, job: Job) -> dict[str, Any]:
    value = {"state": state, "result": job.result, "error": job.error}
    return value if ending is None else {**value, "ending": ending.value}
