"""A task and its job: create, start, finish, fail, unblock and requeue one through the other."""

from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import Task
from detent.kernel.retry import FailureClass

# ---- couplings from the job to its task ------------------------------------------------------


def start_task(draft: Draft, record: e.Record) -> None:
    task = draft.task_of(draft.job(record.stream))
    if task is not None and record.subject is not None:
        draft.emit(task.id, e.TaskStarted(run_id=record.subject))


def unblock_task(draft: Draft, record: e.Record) -> None:
    task = task_of_stream(draft, record)
    draft.emit(task.id, e.TaskUnblocked(task.blocked_by))


def finish_task(draft: Draft, record: e.Record) -> None:
    """Complete the task, hand it to review, or block it until its subtasks are settled."""
    task = task_of_stream(draft, record)
    if task.lifecycle == "board" and task.open_subtasks > 0:
        draft.emit(task.id, e.TaskBlocked("subtasks", _subtasks_detail(task)))
    elif task.lifecycle == "board" or task.parent_id is not None:
        draft.emit(task.id, e.TaskCompleted())
    elif task.subtasks == 0:
        draft.emit(task.id, e.TaskReady())
    else:
        draft.emit(task.id, e.TaskBlocked("subtasks", _subtasks_detail(task)))
        if task.open_subtasks == 0:
            draft.emit(task.id, e.TaskReady())


def _subtasks_detail(task: Task) -> dict[str, Any]:
    failed = {"failed": task.failed_subtask} if task.failed_subtask else {}
    return {"open": task.open_subtasks, **failed}


def fail_task(draft: Draft, record: e.Record) -> None:
    event = cast(e.JobFailed, record.event)
    task = task_of_stream(draft, record)
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


def task_of_stream(draft: Draft, record: e.Record) -> Task:
    """Return the task of the job in whose stream the event is."""
    return draft.task(cast(str, draft.job(record.stream).task_id))


# ---- couplings from the task to its job ------------------------------------------------------


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


def requeue_job(draft: Draft, record: e.Record) -> None:
    """Queue the failed job again: a person retries or resumes its task."""
    draft.emit(cast(str, draft.task(record.stream).job_id), e.JobRequeued("retried"))


# ---- shared ----------------------------------------------------------------------------------


def unblock(
    draft: Draft, task: Task, wait: str | None = None, outcome: str = "unblocked", value: Any = None
) -> None:
    """Unblock a task, with a new job if its last one has completed or was cancelled."""
    wait = wait or task.blocked_detail.get("wait")
    new = new_job(draft, task)
    draft.emit(task.id, e.TaskUnblocked(task.blocked_by, wait, outcome, value, new))


def new_job(draft: Draft, task: Task) -> str | None:
    """Return the id of the job to create, or None if the task's last job can be queued again."""
    last = draft.job_of(task)
    if last is None or last.state in ("completed", "cancelled"):
        return job_of_task(task.id, task.jobs + 1)
    return None
