"""Submitting tasks: `/add` and `/enqueue` for board tasks, `/api/tasks` and `/api/bulk` for all."""

from collections.abc import Mapping, Sequence
from typing import Any

from detent.engine import CommandResult
from detent.errors import DetentError, Invalid, Refused
from detent.kernel import commands as c
from detent.kernel.task_lifecycle import EntryPoint, Phase
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import (
    Caller,
    PreparedSubmission,
    Result,
    Scope,
    operation,
    submission,
)
from detent.store.types import Query
from detent.submission.command import Submission, add_task, digest, enqueue_task
from detent.submission.command import submit_task as task_from
from detent.submission.context import Context
from detent.submission.request import BoardRequest, EnqueueRequest, TaskRequest

MAX_TASKS = 10_000

# ---- board tasks -----------------------------------------------------------------------------


@submission(Scope.SUBMIT, "POST", "/add", request=BoardRequest)
def add(
    core: Core, caller: Caller, context: Context, /, **given: Any
) -> PreparedSubmission[schemas.Added]:
    """Create a task and queue it. Its lifecycle is `board`, unless an installed one replaces it."""
    made = add_task(context, given)

    def finish(results: Sequence[Result]) -> schemas.Added:
        answer = _answer(results)
        repeated = answer.repeated
        status = core.task(caller, answer.value)[0].state if repeated else _queued(context)
        return {"taskId": answer.value, "status": status, "repeated": answer.repeated}

    return PreparedSubmission([made.request()], finish)


@operation(Scope.SUBMIT, "POST", "/enqueue", request=EnqueueRequest)
def enqueue(core: Core, caller: Caller, /, **given: Any) -> schemas.Added:
    """Queue a task under the caller's own id; an existing task is queued or unblocked."""
    context = core.submission_context(caller)
    command = enqueue_task(context, given).command
    assert isinstance(command, c.SubmitTask)
    task_id = command.task_id
    try:
        core.engine.do(command, caller.actor)
        return {"taskId": task_id, "status": _queued(context), "repeated": False}
    except Refused as refusal:
        if refusal.code != "task_exists" or refusal.details.get("deleted"):
            raise
    return _enqueue_known(core, caller, task_id, command)


def _queued(context: Context) -> str:
    """The state of a new task that was queued."""
    lifecycle = context.lifecycles.defaults[EntryPoint.ADD]
    return lifecycle.move[lifecycle.initial, "task_queued"]


def _enqueue_known(
    core: Core, caller: Caller, task_id: str, command: c.SubmitTask
) -> schemas.Added:
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        lifecycle = view.lifecycles()[task.lifecycle]
    if task.state == lifecycle.initial:
        core.engine.do(c.QueueTask(task_id), caller.actor)
    elif lifecycle.phase(task.state) is Phase.BLOCKED:
        core.engine.do(c.UnblockTask(task_id), caller.actor)
    elif not _same_body(core, task_id, command):
        raise Refused(
            f"Task {task_id} exists with different fields and is {task.state}.",
            code="idempotency_conflict",
        )
    return {"taskId": task_id, "status": core.task(caller, task_id)[0].state, "repeated": True}


def _same_body(core: Core, task_id: str, command: c.SubmitTask) -> bool:
    with core.store.read() as view:
        row = view.page(Query("tasks", {"id": task_id}))[0]
    return (row["source"], row["intent"], row["priority"], digest(row["payload"])) == (
        command.source,
        command.intent,
        command.priority,
        digest(command.payload),
    )


# ---- tasks -----------------------------------------------------------------------------------


@submission(Scope.SUBMIT, "POST", "/api/tasks", request=TaskRequest)
def submit_task(
    _core: Core, _caller: Caller, context: Context, /, **given: Any
) -> PreparedSubmission[schemas.Submitted]:
    """Create a task. It is queued if `run` is true; otherwise it stays pending."""
    return PreparedSubmission([task_from(context, given).request()], submitted)


@operation(Scope.SUBMIT, "POST", "/api/bulk", status=201, whole="tasks", request=TaskRequest)
def submit_tasks(
    core: Core, caller: Caller, *, tasks: Sequence[Mapping[str, Any]]
) -> schemas.SubmittedMany:
    """Create many tasks in one transaction. An invalid task refuses all, a conflict only itself."""
    if len(tasks) > MAX_TASKS:
        raise Invalid(
            f"tasks must have at most {MAX_TASKS} entries, not {len(tasks)}.",
            field="tasks",
            given=len(tasks),
        )
    context = core.submission_context(caller)
    requests = [_one_of_many(context, index, each).request() for index, each in enumerate(tasks)]
    results = core.engine.execute(requests, bulk=True)
    return {
        "ids": [each.value for each in results if isinstance(each, CommandResult)],
        "refused": [
            {"index": index, "code": each.code, "detail": each.message}
            for index, each in enumerate(results)
            if isinstance(each, DetentError)
        ],
    }


def _one_of_many(context: Context, index: int, given: object) -> Submission:
    where = f"[{index}]"
    try:
        return one_task(context, given)
    except Invalid as error:
        raise Invalid(
            f"{where}: {error}",
            code=error.code,
            field=where if error.field == "body" else f"{where}.{error.field}",
            given=error.given,
            allowed=error.allowed,
            hint=error.hint,
        ) from error
    except DetentError as error:
        raise Invalid(f"{where}: {error}", field=where) from error


def one_task(context: Context, given: object) -> Submission:
    """The submission of one task of a list; it must be an object."""
    if not isinstance(given, Mapping):
        raise Invalid(f"A task must be an object, not {given!r:.80}.", field="body", given=given)
    return task_from(context, given)


def _answer(results: Sequence[Result]) -> CommandResult:
    result = results[0]
    if isinstance(result, DetentError):
        raise result
    return result


def submitted(results: Sequence[Result]) -> schemas.Submitted:
    """The answer to one submission."""
    answer = _answer(results)
    return {"id": answer.value, "repeated": answer.repeated}
