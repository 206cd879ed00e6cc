"""How events change a task."""

from detent.kernel import events as e
from detent.kernel.entities import ASSIGNED_TO, NOTHING, Task
from detent.kernel.evolve.table import CHANGES, next_state, on
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.variants import CHOSEN


def evolve_task(lifecycle: TaskLifecycle, task: Task, record: e.Record) -> Task:
    event = record.event
    state = next_state(lifecycle, task.state, event)
    changed: Task = CHANGES[type(event)](task, event, record.at, state)
    return changed


def task_created(lifecycle: TaskLifecycle, record: e.Record, event: e.TaskCreated) -> Task:
    return Task(
        id=record.stream,
        project=event.project,
        lifecycle=event.lifecycle,
        state=lifecycle.initial,
        state_at=record.at,
        intent=event.intent,
        source=event.source,
        priority=event.priority,
        root_id=event.root_id,
        parent_id=event.parent_id,
        depth=event.depth,
        depends_on=tuple(event.depends_on),
        open_dependencies=event.open_dependencies,
        budget=event.budget,
        options=event.options,
        created_by=record.actor,
        created_at=record.at,
    )


def _with_job(task: Task, job_id: str | None) -> Task:
    """Return the task with its new job; a cancel request was for the job before."""
    if job_id is None:
        return task
    return task._replace(jobs=task.jobs + 1, job_id=job_id, cancel_reason=None)


def _moved(task: Task, at: int, state: str) -> Task:
    return task._replace(
        state=state, state_at=at, blocked_by=None, blocked_detail=NOTHING, retries_left=None
    )


@on(e.TaskQueued)
def _task_queued(task: Task, event: e.TaskQueued, at: int, state: str) -> Task:
    return _with_job(_moved(task, at, state), event.job_id)


@on(e.TaskAccepting)
def _task_accepting(task: Task, event: e.TaskAccepting, at: int, state: str) -> Task:
    return _with_job(_moved(task, at, state), event.job_id)


@on(e.TaskUnblocked)
def _task_unblocked(task: Task, event: e.TaskUnblocked, at: int, state: str) -> Task:
    moved = _with_job(_moved(task, at, state), event.job_id)
    return _with_answer(moved, event.wait, event.outcome, event.value)


@on(e.TaskRetried)
def _task_retried(task: Task, event: e.TaskRetried, at: int, state: str) -> Task:
    """Start again in a new session."""
    return _again(task, event.job_id, at, state)._replace(session_id=None)


@on(e.TaskResumed)
def _task_resumed(task: Task, event: e.TaskResumed, at: int, state: str) -> Task:
    return _again(task, None, at, state)


def _again(task: Task, job_id: str | None, at: int, state: str) -> Task:
    again = _with_job(_moved(task, at, state), job_id)
    return again._replace(failed_dependency=None, cancel_reason=None)


@on(e.TaskStarted)
@on(e.TaskFailed)
@on(e.TaskTimedOut)
@on(e.TaskBudgetExceeded)
@on(e.TaskAccepted)
@on(e.TaskCancelled)
def _task_moved(task: Task, event: e.Event, at: int, state: str) -> Task:
    return _moved(task, at, state)


@on(e.TaskReady)
@on(e.TaskCompleted)
def _task_done(task: Task, event: e.Event, at: int, state: str) -> Task:
    """Remove a cancel request that came too late."""
    return _moved(task, at, state)._replace(cancel_reason=None)


@on(e.TaskBlocked)
def _task_blocked(task: Task, event: e.TaskBlocked, at: int, state: str) -> Task:
    return task._replace(
        state=state,
        state_at=at,
        blocked_by=event.reason,
        blocked_detail=event.detail,
        retries_left=event.retries_left,
        cancel_reason=None,
    )


@on(e.TaskAnswered)
def _task_answered(task: Task, event: e.TaskAnswered, at: int, state: str) -> Task:
    return _with_answer(_moved(task, at, state), event.question, event.outcome, event.answer)


def _with_answer(task: Task, question: str | None, outcome: str, answer: object) -> Task:
    """Keep an answer of a person or the default; an expired question has none."""
    if outcome not in ("answered", "default"):
        return task
    return task._replace(answered={"question": question, "answer": answer})


@on(e.TaskRejected)
def _task_rejected(task: Task, event: e.TaskRejected, at: int, state: str) -> Task:
    return task._replace(state=state, state_at=at, rounds=event.round, comment=event.comment)


@on(e.TaskMoved)
def _task_moved_as_declared(task: Task, event: e.TaskMoved, at: int, state: str) -> Task:
    """Remove a cancel request that came too late: the job has ended."""
    moved = _with_job(_moved(task, at, state)._replace(cancel_reason=None), event.job_id)
    if event.round is not None:
        moved = moved._replace(rounds=event.round)
    return moved if event.comment is None else moved._replace(comment=event.comment)


@on(e.TaskMigrated)
def _task_migrated(task: Task, event: e.TaskMigrated, at: int, state: str) -> Task:
    entered = task if event.state == task.state else task._replace(state_at=at)
    return entered._replace(lifecycle=event.lifecycle, state=event.state)


@on(e.TaskEdited)
def _task_edited(task: Task, event: e.TaskEdited, at: int, state: str) -> Task:
    known = {
        name: value for name, value in event.changes.items() if name in ("priority", "options")
    }
    return task._replace(**known)


@on(e.TaskAssigned)
def _task_assigned(task: Task, event: e.TaskAssigned, at: int, state: str) -> Task:
    others = {name: value for name, value in task.options.items() if name != ASSIGNED_TO}
    own = {} if event.person is None else {ASSIGNED_TO: event.person}
    return task._replace(options={**others, **own})


@on(e.VariantChosen)
def _variant_chosen(task: Task, event: e.VariantChosen, at: int, state: str) -> Task:
    chosen = {
        "task_id": event.task_id,
        "number": event.number,
        "job_id": event.job_id,
        "intent": event.intent,
    }
    return task._replace(options={**task.options, CHOSEN: chosen}, session_id=event.session_id)


@on(e.TaskCancelRequested)
def _task_cancel_requested(task: Task, event: e.TaskCancelRequested, at: int, state: str) -> Task:
    return task._replace(cancel_reason=event.reason)


@on(e.TaskCharged)
def _task_charged(task: Task, event: e.TaskCharged, at: int, state: str) -> Task:
    return task._replace(spent=task.spent + event.amount)


@on(e.BudgetWarned)
def _budget_warned(task: Task, event: e.BudgetWarned, at: int, state: str) -> Task:
    return task


@on(e.BudgetRaised)
def _budget_raised(task: Task, event: e.BudgetRaised, at: int, state: str) -> Task:
    return task._replace(budget=event.budget)


@on(e.SessionOpened)
def _session_opened(task: Task, event: e.SessionOpened, at: int, state: str) -> Task:
    return task._replace(session_id=event.session_id)


@on(e.DependencyDone)
def _dependency_done(task: Task, event: e.DependencyDone, at: int, state: str) -> Task:
    failed = None if task.failed_dependency == event.task_id else task.failed_dependency
    return task._replace(open_dependencies=task.open_dependencies - 1, failed_dependency=failed)


@on(e.DependencyFailed)
def _dependency_failed(task: Task, event: e.DependencyFailed, at: int, state: str) -> Task:
    return task._replace(failed_dependency=event.task_id)


@on(e.SubtaskAdded)
def _subtask_added(task: Task, event: e.SubtaskAdded, at: int, state: str) -> Task:
    return task._replace(subtasks=task.subtasks + 1, open_subtasks=task.open_subtasks + 1)


@on(e.SubtaskDone)
def _subtask_done(task: Task, event: e.SubtaskDone, at: int, state: str) -> Task:
    failed = None if task.failed_subtask == event.task_id else task.failed_subtask
    return task._replace(open_subtasks=task.open_subtasks - 1, failed_subtask=failed)


@on(e.SubtaskFailed)
def _subtask_failed(task: Task, event: e.SubtaskFailed, at: int, state: str) -> Task:
    return task._replace(failed_subtask=event.task_id)


@on(e.SubtaskHandled)
@on(e.SubtaskDismissed)
def _subtask_settled(
    task: Task, event: e.SubtaskHandled | e.SubtaskDismissed, at: int, state: str
) -> Task:
    failed = None if task.failed_subtask == event.task_id else task.failed_subtask
    return task._replace(
        open_subtasks=task.open_subtasks - 1,
        failed_subtask=failed,
        settled=(*task.settled, event.task_id),
    )


@on(e.CommentAdded)
@on(e.CommentReplied)
@on(e.CommentResolved)
@on(e.CommentReopened)
def _commented(task: Task, event: e.Event, at: int, state: str) -> Task:
    """Comments are not fields of the task: `projections` keeps what decisions need of them."""
    return task


@on(e.TaskImported)
def _task_imported(task: Task, event: e.TaskImported, at: int, state: str) -> Task:
    return task


@on(e.TaskDeleted)
def _task_deleted(task: Task, event: e.TaskDeleted, at: int, state: str) -> Task:
    return task
