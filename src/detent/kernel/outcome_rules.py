"""What a task does when its job starts, ends or fails: follows the rules of its lifecycle.

`PREDICATES` are the conditions that a rule may name, `EVENTS` the events that it may emit.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from detent.kernel import events as e
from detent.kernel.acceptance import (
    ACCEPTANCE,
    conflict_message,
    conflicts_in,
    is_acceptance,
)
from detent.kernel.derived_ids import job_of_task, run_of_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Task
from detent.kernel.retry import FailureClass
from detent.kernel.task_lifecycle import Predicate, Rule, TaskLifecycle, Trigger

DEPENDENCY = "dependency"
#: How much of a result the error of a failed task shows.
LONGEST_RESULT = 100


def follow(draft: Draft, when: Trigger, task: Task, record: e.Record) -> None:
    """Emit the events of the first rule that applies; without one, nothing happens."""
    for rule in draft.lifecycle(task).by_trigger[when]:
        if _applies(rule, draft, task, record):
            for name in rule.then:
                draft.emit(task.id, _event(name, draft, draft.task(task.id), record))
            return


def _applies(rule: Rule, draft: Draft, task: Task, record: e.Record) -> bool:
    if rule.states and task.state not in rule.states:
        return False
    return all(PREDICATES[name](draft, task, record) for name in rule.given)


# ---- predicates ------------------------------------------------------------------------------

Condition = Callable[[Draft, Task, e.Record], bool]


def is_subtask(draft: Draft, task: Task, record: e.Record) -> bool:
    """The task has a parent."""
    return task.parent_id is not None


def has_no_subtasks(draft: Draft, task: Task, record: e.Record) -> bool:
    """The task never had a subtask."""
    return task.subtasks == 0


def subtasks_are_open(draft: Draft, task: Task, record: e.Record) -> bool:
    """A subtask, or one below it, is not settled yet."""
    return task.open_subtasks > 0


def timed_out(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job failed because its last attempt ran out of time."""
    return _error_class(record) == FailureClass.TIMEOUT


def budget_exceeded(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job failed because a budget was exceeded."""
    return _error_class(record) == FailureClass.BUDGET


def quarantined(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job failed because its workers were lost too often."""
    return isinstance(record.event, e.JobFailed) and record.event.quarantined


def dependency_failed(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job was cancelled because a task that this one depends on failed."""
    return isinstance(record.event, e.JobCancelled) and record.event.reason == DEPENDENCY


def rounds_are_left(draft: Draft, task: Task, record: e.Record) -> bool:
    """The limit of rounds is not reached: one more may be counted."""
    limit = round_limit(draft.lifecycle(task), task)
    return limit is None or task.rounds < limit


def result_is_false(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job completed with the result false: the handler asks for another round."""
    return isinstance(record.event, e.JobCompleted) and record.event.result is False


def carries_out_acceptance(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job carries out the action of a person who has accepted the result."""
    return is_acceptance(draft.job(cast(str, task.job_id)))


def has_conflicts(draft: Draft, task: Task, record: e.Record) -> bool:
    """The job completed and reports files that could not be merged."""
    return isinstance(record.event, e.JobCompleted) and bool(conflicts_in(record.event.result))


PREDICATES: Mapping[Predicate, Condition] = {
    Predicate.IS_SUBTASK: is_subtask,
    Predicate.HAS_NO_SUBTASKS: has_no_subtasks,
    Predicate.SUBTASKS_ARE_OPEN: subtasks_are_open,
    Predicate.TIMED_OUT: timed_out,
    Predicate.BUDGET_EXCEEDED: budget_exceeded,
    Predicate.QUARANTINED: quarantined,
    Predicate.DEPENDENCY_FAILED: dependency_failed,
    Predicate.ROUNDS_ARE_LEFT: rounds_are_left,
    Predicate.RESULT_IS_FALSE: result_is_false,
    Predicate.IS_ACCEPTANCE: carries_out_acceptance,
    Predicate.HAS_CONFLICTS: has_conflicts,
}


def round_limit(lifecycle: TaskLifecycle, task: Task) -> int | None:
    """The limit of rounds: the task's own, or that of its lifecycle; None: there is none."""
    own: int | None = task.options.get("max_rounds")
    return lifecycle.rounds.limit if own is None else own


def _error_class(record: e.Record) -> str | None:
    return record.event.error_class if isinstance(record.event, e.JobFailed) else None


# ---- events ----------------------------------------------------------------------------------

Maker = Callable[[Draft, Task, e.Record], e.Event]


def _event(name: str, draft: Draft, task: Task, record: e.Record) -> e.Event:
    make = EVENTS.get(name)
    if make is not None:
        return make(draft, task, record)
    failed = record.event if isinstance(record.event, e.JobFailed) else None
    return declared(name, draft, task, None if failed is None else failed.error)


def declared(
    name: str,
    draft: Draft,
    task: Task,
    comment: str | None = None,
    diff: str | None = None,
) -> e.TaskMoved:
    """An event that only the lifecycle's document knows: it may count a round and queue a job."""
    lifecycle = draft.lifecycle(task)
    count = task.rounds + 1 if name in lifecycle.rounds.events else None
    job_id = job_of_task(task.id, task.jobs + 1) if name in lifecycle.queues else None
    return e.TaskMoved(name, comment, count, job_id, diff)


def _queued(draft: Draft, task: Task, record: e.Record) -> e.Event:
    return e.TaskQueued(job_of_task(task.id, task.jobs + 1))


def _started(draft: Draft, task: Task, record: e.Record) -> e.Event:
    if isinstance(record.event, e.RunStarted):
        return e.TaskStarted(cast(str, record.subject))
    job = draft.job(cast(str, task.job_id))
    return e.TaskStarted(run_of_job(job.id, job.runs))


def _blocked(draft: Draft, task: Task, record: e.Record) -> e.Event:
    event = record.event
    if isinstance(event, e.JobFailed):
        reason = "budget" if event.error_class == FailureClass.BUDGET else "error"
        detail = {"error_class": event.error_class, "error": event.error}
        return e.TaskBlocked(reason, detail, retries_left=0)
    if isinstance(event, e.JobCancelled):
        return e.TaskBlocked(
            DEPENDENCY, {"on": list(task.depends_on), "failed": task.failed_dependency}
        )
    return e.TaskBlocked("subtasks", subtasks_detail(task))


def subtasks_detail(task: Task) -> dict[str, Any]:
    failed = {"failed": task.failed_subtask} if task.failed_subtask else {}
    return {"open": task.open_subtasks, **failed}


def _ready(draft: Draft, task: Task, record: e.Record) -> e.Event:
    return e.TaskReady()


def _completed(draft: Draft, task: Task, record: e.Record) -> e.Event:
    return e.TaskCompleted()


def _failed(draft: Draft, task: Task, record: e.Record) -> e.Event:
    event = record.event
    if isinstance(event, e.JobFailed):
        return e.TaskFailed(event.error_class, event.error)
    if isinstance(event, e.JobCompleted):
        error = f"the job completed with the result {str(event.result)[:LONGEST_RESULT]}"
        return e.TaskFailed(FailureClass.ERROR.value, error)
    if isinstance(event, e.JobCancelled) and event.reason != DEPENDENCY:
        return e.TaskFailed(FailureClass.CANCELLED.value, f"the job was cancelled: {event.reason}")
    error = f"the task {task.failed_dependency} that it depends on has failed"
    return e.TaskFailed(FailureClass.DEPENDENCY.value, error)


def _timed_out(draft: Draft, task: Task, record: e.Record) -> e.Event:
    return e.TaskTimedOut(cast(e.JobFailed, record.event).error)


def _budget_exceeded(draft: Draft, task: Task, record: e.Record) -> e.Event:
    return e.TaskBudgetExceeded(task.spent, task.budget)


def _cancelled(draft: Draft, task: Task, record: e.Record) -> e.Event:
    event = record.event
    return e.TaskCancelled(event.reason if isinstance(event, e.JobCancelled) else event.name)


def _accepted(draft: Draft, task: Task, record: e.Record) -> e.Event:
    """The acceptance of the person whose action the job has carried out."""
    verdict = draft.job(cast(str, task.job_id)).options.get(ACCEPTANCE, {})
    return e.TaskAccepted(verdict.get("comment"), verdict.get("diff"), verdict.get("by"))


def _rejected(draft: Draft, task: Task, record: e.Record) -> e.Event:
    if not has_conflicts(draft, task, record):
        return e.TaskRejected(task.rounds + 1)
    result = cast(e.JobCompleted, record.event).result
    return e.TaskRejected(task.rounds + 1, conflict_message(result))


#: The events of detent that a rule may emit. All others are declared by the document.
EVENTS: Mapping[str, Maker] = {
    "task_queued": _queued,
    "task_started": _started,
    "task_blocked": _blocked,
    "task_ready": _ready,
    "task_completed": _completed,
    "task_failed": _failed,
    "task_timed_out": _timed_out,
    "task_budget_exceeded": _budget_exceeded,
    "task_cancelled": _cancelled,
    "task_accepted": _accepted,
    "task_rejected": _rejected,
}
