"""Taking work in: the plain door (`/add`, `/enqueue`) and the full one (`/api/tasks`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from detent.engine import Answer, Ask, Idempotency
from detent.errors import DetentError, Invalid, Refused
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations import shapes
from detent.operations.core import Core, digest
from detent.operations.registry import Caller, Posted, Result, Scope, operation, submission
from detent.operations.requests import command_from, own_id
from detent.store.port import Query

MOST_AT_ONCE = 10_000
T = TypeVar("T")

# ---- the plain door --------------------------------------------------------------------------


@submission(Scope.SUBMIT, "POST", "/add")
def add(
    core: Core,
    caller: Caller,
    *,
    source: str,
    intent: str,
    priority: str = "P2",
    payload: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Posted[shapes.Added]:
    """Create a board task and queue it."""
    body = {"source": source, "intent": intent, "priority": priority, "payload": payload or {}}
    command = _board_task(core, caller, new_id(), body)

    def finish(answer: Answer) -> shapes.Added:
        status = core.task(caller, answer.value)[0].state if answer.repeated else "todo"
        return {"taskId": answer.value, "status": status, "repeated": answer.repeated}

    return posted(command, caller, body, idempotency_key, finish, fresh=True)


@operation(Scope.SUBMIT, "POST", "/enqueue")
def enqueue(
    core: Core,
    caller: Caller,
    *,
    taskId: str,  # noqa: N803 - the door's own spelling
    source: str,
    intent: str,
    priority: str,
    payload: Mapping[str, Any],
) -> shapes.Added:
    """Queue a task under the caller's own id; a known one goes on if it can."""
    body = {"source": source, "intent": intent, "priority": priority, "payload": payload}
    command = _board_task(core, caller, own_id(taskId, "taskId"), body)
    try:
        core.engine.do(command, caller.actor)
        return {"taskId": taskId, "status": "todo", "repeated": False}
    except Refused as refusal:
        if refusal.code != "task_exists" or refusal.details.get("deleted"):
            raise
    return _enqueue_known(core, caller, taskId, command)


def _enqueue_known(core: Core, caller: Caller, task_id: str, command: c.SubmitTask) -> shapes.Added:
    task, _ = core.task(caller, task_id)
    if task.state == "inbox":
        core.engine.do(c.QueueTask(task_id), caller.actor)
    elif task.state == "blocked":
        core.engine.do(c.UnblockTask(task_id), caller.actor)
    elif not _same_body(core, task_id, command):
        raise Refused(
            f"Task {task_id} is {task.state} and was submitted with another body.",
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


def _board_task(core: Core, caller: Caller, task_id: str, body: Mapping[str, Any]) -> c.SubmitTask:
    payload = body["payload"]
    if not isinstance(payload, Mapping):
        raise Invalid("payload must be an object.", field="payload", given=payload)
    whole = {**body, "project": payload.get("project"), "lifecycle": "board", "run": True}
    return command_from(core, caller, task_id, whole, core.known_intents())


# ---- the full door ---------------------------------------------------------------------------


@submission(Scope.SUBMIT, "POST", "/api/tasks")
def submit_task(
    core: Core,
    caller: Caller,
    *,
    intent: str,
    id: str | None = None,
    project: str | None = None,
    lifecycle: str = "review",
    source: str = "api",
    title: str = "",
    priority: str = "P2",
    payload: Any = None,
    tags: Sequence[str] = (),
    depends_on: Sequence[str] = (),
    parent_id: str | None = None,
    max_budget_usd: float | str | None = None,
    options: Mapping[str, Any] | None = None,
    run: bool = False,
    idempotency_key: str | None = None,
) -> Posted[shapes.Submitted]:
    """Create a task; it stays pending unless `run` is true."""
    body = {
        name: value
        for name, value in locals().items()
        if name not in ("core", "caller", "id", "idempotency_key") and value is not None
    }
    task_id = new_id() if id is None else own_id(id, "id")
    command = command_from(core, caller, task_id, body, core.known_intents())
    return posted(command, caller, body, idempotency_key, submitted, fresh=id is None)


@operation(Scope.SUBMIT, "POST", "/api/bulk", status=201, whole="tasks")
def submit_tasks(
    core: Core, caller: Caller, *, tasks: Sequence[shapes.NewTask]
) -> shapes.SubmittedMany:
    """Create many tasks in one transaction; a flaw in one refuses all, a conflict only its own."""
    if len(tasks) > MOST_AT_ONCE:
        raise Invalid(f"At most {MOST_AT_ONCE} tasks at once.", field="tasks", given=len(tasks))
    intents = core.known_intents()
    asks = []
    for index, body in enumerate(tasks):
        try:
            asks.append(ask_for(core, caller, body, intents))
        except DetentError as error:
            raise Invalid(f"tasks[{index}]: {error}", field=f"tasks[{index}]") from error
    results = core.engine.ask(asks, bulk=True)
    return {
        "ids": [each.value for each in results if isinstance(each, Answer)],
        "refused": [
            {"index": index, "code": each.code, "detail": each.message}
            for index, each in enumerate(results)
            if isinstance(each, DetentError)
        ],
    }


def ask_for(
    core: Core, caller: Caller, body: shapes.NewTask, intents: Mapping[str, Mapping[str, Any]]
) -> Ask:
    """One task of many, as a question to the engine."""
    own = body.get("id")
    task_id = new_id() if own is None else own_id(own, "id")
    command = command_from(core, caller, task_id, body, intents)
    return Ask(command, caller.actor, fresh=own is None)


def posted(
    command: c.SubmitTask | c.SubmitJob,
    caller: Caller,
    body: object,
    key: str | None,
    finish: Callable[[Answer], T],
    *,
    fresh: bool,
) -> Posted[T]:
    """One command to submit, under its idempotency key if it has one."""
    idempotency = None if key is None else Idempotency(command.project, key, digest(body))

    def finish_one(results: Sequence[Result]) -> T:
        result = results[0]
        if isinstance(result, DetentError):
            raise result
        return finish(result)

    return Posted([Ask(command, caller.actor, idempotency, fresh)], finish_one)


def submitted(answer: Answer) -> shapes.Submitted:
    return {"id": answer.value, "repeated": answer.repeated}
