"""A task and its job: create, start, finish, fail, unblock and requeue one through the other."""

from collections.abc import Mapping
from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.acceptance import options_of_job
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import ASSIGNED_TO, Task
from detent.kernel.outcome_rules import follow
from detent.kernel.task_lifecycle import Trigger
from detent.kernel.variants import CHOOSE, CHOSEN, VARIANTS, chosen_of

# ---- couplings from the job to its task ------------------------------------------------------


def start_task(draft: Draft, record: e.Record) -> None:
    follow(draft, Trigger.RUN_STARTED, task_of_stream(draft, record), record)


def unblock_task(draft: Draft, record: e.Record) -> None:
    task = task_of_stream(draft, record)
    draft.emit(task.id, e.TaskUnblocked(task.blocked_by))


def finish_task(draft: Draft, record: e.Record) -> None:
    """The job completed: end the task, hand it to review, or block it until its subtasks do."""
    follow(draft, Trigger.JOB_COMPLETED, task_of_stream(draft, record), record)


def fail_task(draft: Draft, record: e.Record) -> None:
    follow(draft, Trigger.JOB_FAILED, task_of_stream(draft, record), record)


def task_of_stream(draft: Draft, record: e.Record) -> Task:
    """Return the task of the job in whose stream the event is."""
    return draft.task(cast(str, draft.job(record.stream).task_id))


# ---- couplings from the task to its job ------------------------------------------------------


def create_job(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    created = e.JobCreated(
        project=task.project,
        intent=_intent(task),
        priority=task.priority,
        root_id=task.root_id,
        task_id=task.id,
        concurrency_key=task.options.get("concurrency_key") if task.options else None,
        options=_of_execution(task.options),
    )
    draft.emit(cast(str, task.job_id), created)


def _of_execution(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options without the assignment, which concerns people only; after the choice of a
    variant also without the variants: the job continues the work of the chosen one."""
    dropped = (ASSIGNED_TO, VARIANTS, CHOOSE) if CHOSEN in options else (ASSIGNED_TO,)
    if not any(name in options for name in dropped):
        return options
    return {name: value for name, value in options.items() if name not in dropped}


def _intent(task: Task) -> str:
    """The intent of its next job: that of the chosen variant, if there is one."""
    chosen = chosen_of(task.options)
    return task.intent if chosen is None else str(chosen["intent"])


def create_acceptance_job(draft: Draft, record: e.Record) -> None:
    """Create the job that carries out the action of a verdict; it has no plan and no limits."""
    task, event = draft.task(record.stream), cast(e.TaskAccepting, record.event)
    created = e.JobCreated(
        project=task.project,
        intent=_intent(task),
        priority=task.priority,
        root_id=task.root_id,
        task_id=task.id,
        options=options_of_job(task, event.by or record.actor, event.comment, event.diff),
    )
    draft.emit(event.job_id, created)


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
