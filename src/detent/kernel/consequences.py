"""What the couplings bring about: each takes the draft and the event that caused it, and emits what follows."""

from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.predicates import ENDED_JOB, failure_class, in_work, judged, retry_defaults
from detent.kernel.retry import Again, FailureClass, policy_from, retries_left
from detent.kernel.state import Job, Task, Wait
from detent.kernel.waits import blocks, parks, satisfied
from detent.kernel.world import SIGNALS, WAITS

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
        draft.emit(job_id, e.WaitCompleted(ready.name, "signalled", signalled(draft, ready)))
        return
    task = draft.task_of(draft.job(job_id))
    stopper = next(filter(blocks, waits), None)
    if task is not None and stopper is not None and in_work(task):
        draft.emit(task.id, e.TaskBlocked(blocks(stopper) or "", _shown(stopper)))


def _shown(wait: Wait) -> dict[str, Any]:
    """What a person needs to know about the wait that blocks a task."""
    due = {} if wait.due_at is None else {"due_at": wait.due_at}
    return {**wait.detail, "wait": wait.name, **due}


def signalled(draft: Draft, wait: Wait) -> Any:
    """The values of the signals that ended a wait, by name."""
    return {name: draft.part(SIGNALS, wait.job_id, name).value for name in wait.needs}


def retry_job(draft: Draft, record: e.Record) -> None:
    again = cast(Again, judged(draft, record))
    kind = failure_class(record.event)
    job = draft.job(record.stream)
    if again.immediate:
        draft.emit(job.id, e.JobRequeued(kind.value))
    else:
        draft.emit(job.id, e.JobRetrying(kind.value, again.not_before))
    block_for_retry(draft, job, kind, again, getattr(record.event, "error", ""))


def block_for_retry(draft: Draft, job: Job, kind: FailureClass, again: Again, error: str) -> None:
    """The task shows that its work failed and will be tried again; at once means at once."""
    task = draft.task_of(job)
    if task is None or not in_work(task):
        return
    policy = policy_from(job.options.get("retry", {}), retry_defaults(draft, job))
    left = retries_left(policy, kind, job.failures, job.lost)
    reason = "rate_limit" if kind is FailureClass.RATE_LIMIT else "retry"
    detail = {"error_class": kind.value, "error": error, "due_at": again.not_before}
    draft.emit(task.id, e.TaskBlocked(reason, detail, left))
    if again.immediate:
        draft.emit(task.id, e.TaskUnblocked(reason))


def fail_job(draft: Draft, record: e.Record) -> None:
    kind = failure_class(record.event)
    error = getattr(record.event, "error", "its worker was lost")
    draft.emit(record.stream, e.JobFailed(kind.value, error, kind is FailureClass.LOST))


def requeue_job(draft: Draft, record: e.Record) -> None:
    """A hand-back: the task shows it, and is queued again in the same breath."""
    draft.emit(record.stream, e.JobRequeued("handed_back"))
    requeue_task(draft, draft.job(record.stream))


def requeue_task(draft: Draft, job: Job) -> None:
    task = draft.task_of(job)
    if task is not None and in_work(task):
        draft.emit(task.id, e.TaskBlocked("retry", {"due_at": draft.now}))
        draft.emit(task.id, e.TaskUnblocked("retry"))


# ---- up: from a job to its task and its parent job -------------------------------------------


def unblock_task(draft: Draft, record: e.Record) -> None:
    task = draft.task(cast(str, draft.job(record.stream).task_id))
    draft.emit(task.id, e.TaskUnblocked(task.blocked_by))


def finish_task(draft: Draft, record: e.Record) -> None:
    task = draft.task(cast(str, draft.job(record.stream).task_id))
    if task.lifecycle == "board" or task.parent_id is not None:
        if task.lifecycle == "review" or task.open_subtasks == 0:
            draft.emit(task.id, e.TaskCompleted())
    elif task.subtasks == 0:
        draft.emit(task.id, e.TaskReady())
    else:
        draft.emit(task.id, e.TaskBlocked("subtasks", {"open": task.open_subtasks}))
        if task.open_subtasks == 0:
            draft.emit(task.id, e.TaskReady())


def fail_task(draft: Draft, record: e.Record) -> None:
    event = cast(e.JobFailed, record.event)
    task = draft.task(cast(str, draft.job(record.stream).task_id))
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
    task = draft.task(cast(str, draft.job(record.stream).task_id))
    if reason != "dependency":
        draft.emit(task.id, e.TaskCancelled(reason))
    elif task.lifecycle == "review":
        error = f"the task {task.failed_dependency} that it depends on has failed"
        draft.emit(task.id, e.TaskFailed(FailureClass.DEPENDENCY.value, error))
    elif draft.may(task, e.TaskBlocked):
        draft.emit(
            task.id, e.TaskBlocked("dependency", {"failed": task.failed_dependency}, retries_left=0)
        )


def tell_parent_job(draft: Draft, record: e.Record) -> None:
    job = draft.job(record.stream)
    value = {"state": job.state, "result": job.result, "error": job.error}
    signal(draft, cast(str, job.parent_job_id), f"job:{job.id}", value)


# ---- up: from a task to its parents and to those who wait for it -----------------------------


def subtask_is_done(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    for ancestor in draft.ancestors(task):
        draft.emit(ancestor.id, e.SubtaskDone(task.id))
    _tell_parents_job(draft, task)


def subtask_has_failed(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    for ancestor in draft.ancestors(task):
        draft.emit(ancestor.id, e.SubtaskFailed(task.id, task.state))
    _tell_parents_job(draft, task)


def _tell_parents_job(draft: Draft, task: Task) -> None:
    """A handler that gathers its subtasks hears of each one's end as a signal."""
    parent = draft.task(cast(str, task.parent_id))
    if parent.job_id is None or task.job_id is None:
        return
    job = draft.job(task.job_id)
    value = {"state": task.state, "result": job.result, "error": job.error}
    signal(draft, parent.job_id, f"task:{task.id}", value)


def close_parent(draft: Draft, record: e.Record) -> None:
    task = draft.task(record.stream)
    draft.emit(task.id, e.TaskReady() if task.lifecycle == "review" else e.TaskCompleted())


def release_dependents(draft: Draft, record: e.Record) -> None:
    for dependent in draft.dependents[record.stream]:
        draft.emit(dependent, e.DependencyDone(record.stream))


def warn_dependents(draft: Draft, record: e.Record) -> None:
    state = draft.task(record.stream).state
    for dependent in draft.dependents[record.stream]:
        draft.emit(dependent, e.DependencyFailed(record.stream, state))


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


def wake_job(draft: Draft, record: e.Record) -> None:
    """The task goes on: so does its job, from wherever it stands."""
    event = record.event
    job = draft.job(cast(str, draft.task(record.stream).job_id))
    if job.state == "retrying":
        draft.emit(job.id, e.JobRequeued("due"))
    elif job.state == "failed":
        draft.emit(job.id, e.JobRequeued("retried"))
    elif job.state in ("waiting", "parked") and isinstance(event, e.TaskUnblocked):
        draft.emit(
            job.id,
            e.WaitCompleted(event.wait or _only_wait(draft, job), event.outcome, event.value),
        )
    elif job.state in ("waiting", "parked") and isinstance(event, e.TaskAnswered):
        draft.emit(job.id, e.WaitCompleted(event.question, event.outcome, event.answer))


def _only_wait(draft: Draft, job: Job) -> str:
    waits: list[Wait] = list(draft.parts_of(WAITS, job.id).values())
    return next(filter(blocks, waits), waits[0]).name


# ---- down: from a job to its runs ------------------------------------------------------------


def cancel_runs(draft: Draft, record: e.Record) -> None:
    for run in draft.live_runs(record.stream):
        draft.emit(record.stream, e.RunCancelled("cancelled"), run.id)


# ---- acts that commands and consequences share -----------------------------------------------


def unblock(
    draft: Draft, task: Task, wait: str | None = None, outcome: str = "unblocked", value: Any = None
) -> None:
    """Let a blocked task go on, with a new job if its last one can do nothing more."""
    draft.emit(
        task.id, e.TaskUnblocked(task.blocked_by, wait, outcome, value, new_job(draft, task))
    )


def new_job(draft: Draft, task: Task) -> str | None:
    """The id of the job to make, or None if the task's last job can be taken up again."""
    last = None if task.job_id is None else draft.job(task.job_id)
    if last is None or last.state in ("completed", "cancelled"):
        return f"{task.id}-j{task.jobs + 1}"
    return None


def signal(draft: Draft, job_id: str, name: str, value: Any) -> bool:
    """Deliver a signal once; True if it was new. A waiting job goes on if that was all it needed."""
    job = draft.job(job_id)
    if job.state in ENDED_JOB or draft.part(SIGNALS, job_id, name) is not None:
        return False
    draft.emit(job_id, e.SignalReceived(value), name)
    if job.state in ("waiting", "parked"):
        ready = next(filter(satisfied, draft.parts_of(WAITS, job_id).values()), None)
        if ready is not None:
            complete_wait(draft, ready, "signalled", signalled(draft, ready))
    return True


def complete_wait(draft: Draft, wait: Wait, outcome: str, value: Any = None) -> None:
    """End a wait: through the task if the task is blocked by it, else straight on the job."""
    task = draft.task_of(draft.job(wait.job_id))
    if task is None or task.state != "blocked" or task.blocked_detail.get("wait") != wait.name:
        draft.emit(wait.job_id, e.WaitCompleted(wait.name, outcome, value))
    elif task.lifecycle == "review" and task.blocked_by in ("question", "needs_user"):
        draft.emit(task.id, e.TaskAnswered(value, wait.name, outcome))
    else:
        unblock(draft, task, wait.name, outcome, value)
