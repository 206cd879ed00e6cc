"""The methods of the Agent2Agent protocol (A2A) 1.0 over JSON-RPC, made from operations.

Nothing is kept here: the id of a task is its id in detent, and every request reads the store, so
any gateway answers. A client sees only the tasks that it created itself.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import anyio
import msgspec

from detent.errors import DetentError, Forbidden, Invalid, NotFound, Refused, Unauthorized
from detent.integrations.a2a import a2a_messages as a2a
from detent.integrations.a2a.a2a_parameters import (
    Configuration,
    ListParams,
    PushConfig,
    PushParams,
    SendParams,
    TaskParams,
)
from detent.integrations.poll import poll
from detent.kernel.state_mapping import A2aState
from detent.operations.registry import CallOperation
from detent.operations.task_webhooks import check_task_webhook
from detent.redaction import redact
from detent.settings import Settings

log = logging.getLogger("detent.a2a")

#: The lifecycle of tasks that messages create: the result needs no review.
LIFECYCLE = "board"
#: How long a request without `returnImmediately` waits. A stream has no such limit.
LONGEST_WAIT_S = 300.0
#: How often a stream reads its task.
STREAM_PAUSE_S = 0.25
#: The newest tasks are listed, at most this many.
MAX_LISTED = 1_000
LONGEST_ID = 128

INVALID_REQUEST, METHOD_NOT_FOUND = -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
TASK_NOT_FOUND, NOT_CANCELABLE, UNSUPPORTED = -32001, -32002, -32004
CONTENT_TYPE, VERSION_NOT_SUPPORTED = -32005, -32009
#: The names of the errors that only this protocol has.
REASONS = {
    TASK_NOT_FOUND: "TASK_NOT_FOUND",
    NOT_CANCELABLE: "TASK_NOT_CANCELABLE",
    UNSUPPORTED: "UNSUPPORTED_OPERATION",
    CONTENT_TYPE: "CONTENT_TYPE_NOT_SUPPORTED",
    VERSION_NOT_SUPPORTED: "VERSION_NOT_SUPPORTED",
}
Row = Mapping[str, Any]
S = TypeVar("S", bound=msgspec.Struct)


class A2aError(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class A2aClient(Protocol):
    """The client of a request: its operations, its name, and the address that it used."""

    @property
    def call(self) -> CallOperation: ...

    @property
    def name(self) -> str: ...

    @property
    def base(self) -> str: ...

    @property
    def stopping(self) -> anyio.Event:
        """Set when the gateway stops."""
        ...


# ---- requests --------------------------------------------------------------------------------


class A2aServer:
    """Answers JSON-RPC requests."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def card(self, call: CallOperation, base: str) -> dict[str, Any]:
        """The agent card. A client that may submit tasks sees the offered intents as skills."""
        try:
            offered = (await call("list_offered_intents", {}))["items"]
        except Forbidden:
            offered = []
        return a2a.agent_card(offered, base, version("detent"))

    async def respond(
        self, client: A2aClient, given_version: str | None, body: Any
    ) -> dict[str, Any] | AsyncIterator[dict[str, Any]]:
        """The response to a request, or the responses of a stream."""
        ident = body.get("id") if isinstance(body, Mapping) else None
        ident = ident if isinstance(ident, str | int) and not isinstance(ident, bool) else None
        try:
            method, params = _request(body, given_version)
            if method in SENDS:
                self._check_push(_read(SendParams, params).configuration)
            if method in STREAMS:
                outcome = await STREAMS[method](client, params)
                return _wrapped(ident, _stream(client, outcome))
            return _result(ident, await METHODS[method](client, params))
        except Exception as error:
            return failure(ident, error)

    def _check_push(self, given: Configuration) -> None:
        """Refuse wrong notifications before the task is created."""
        push = given.task_push_notification_config
        if push is not None:
            name, header = push.id or "default", _authorization(push)
            check_task_webhook(self.settings, name, push.url, push.token, header)


def _request(body: Any, given_version: str | None) -> tuple[str, Any]:
    """The method and the parameters of a request."""
    well = isinstance(body, Mapping) and body.get("jsonrpc") == "2.0"
    if not well or not isinstance(body.get("method"), str):
        raise A2aError(INVALID_REQUEST, "The body must be one JSON-RPC 2.0 request.")
    if ".".join((given_version or "0.3").split(".")[:2]) != a2a.VERSION:
        text = f"The header A2A-Version must be {a2a.VERSION}, not {given_version or 'missing'}."
        raise A2aError(VERSION_NOT_SUPPORTED, text[:200])
    method = body["method"]
    if method not in METHODS and method not in STREAMS:
        raise A2aError(METHOD_NOT_FOUND, f"There is no method {method[:100]!r}.")
    return method, body.get("params", {})


def _result(ident: str | int | None, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "result": result}


async def _wrapped(
    ident: str | int | None, events: AsyncIterator[dict[str, Any]]
) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream as responses; an error is the last one."""
    try:
        async for each in events:
            yield _result(ident, each)
    except Exception as error:
        yield failure(ident, error)


def failure(ident: str | int | None, error: Exception) -> dict[str, Any]:
    """The response with the protocol's own error."""
    code, message = _error(error)
    about: dict[str, Any] = {"code": code, "message": redact(message)}
    if code in REASONS:
        info = "type.googleapis.com/google.rpc.ErrorInfo"
        about["data"] = [{"@type": info, "reason": REASONS[code], "domain": "a2a-protocol.org"}]
    return {"jsonrpc": "2.0", "id": ident, "error": about}


def _error(error: Exception) -> tuple[int, str]:
    if isinstance(error, A2aError):
        return error.code, str(error)
    if isinstance(error, NotFound):
        return TASK_NOT_FOUND, error.message
    if isinstance(error, Forbidden | Unauthorized):
        return INVALID_REQUEST, error.message
    if isinstance(error, Invalid | Refused):
        return INVALID_PARAMS, error.text
    if isinstance(error, DetentError):
        return INTERNAL_ERROR, error.message
    log.error("a request failed", exc_info=error)
    return INTERNAL_ERROR, "The request failed with an internal error."


def _read(kind: type[S], params: Any) -> S:
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise A2aError(INVALID_PARAMS, f"params: {error}") from None


# ---- methods ---------------------------------------------------------------------------------


async def _offered(client: A2aClient) -> list[Row]:
    found: list[Row] = (await client.call("list_offered_intents", {}))["items"]
    return found


async def _outcome(client: A2aClient, task_id: str) -> Row:
    found: Row = await client.call("task_outcome", {"task_id": task_id, "own": True})
    return found


async def _send(client: A2aClient, params: Any) -> Row:
    """Submit a task, or answer a question of one; the outcome of the task then."""
    given = _read(SendParams, params)
    message = given.message
    if a2a.has_files(message):
        raise A2aError(CONTENT_TYPE, "detent reads text parts and data parts only.")
    if not 0 < len(message.message_id) <= LONGEST_ID:
        raise A2aError(INVALID_PARAMS, f"messageId must have 1 to {LONGEST_ID} characters.")
    task_id = message.task_id
    if task_id:
        await _answer_question(client, task_id, message)
    else:
        task_id = await _submit(client, given)
    push = given.configuration.task_push_notification_config
    if push is not None:
        await _put_push(client, task_id, push)
    return await _outcome(client, task_id)


async def _submit(client: A2aClient, given: SendParams) -> str:
    """Submit a task. The same message id of the same client creates it only once."""
    message = given.message
    offered = a2a.skill_of(message, given.metadata, await _offered(client))
    context = message.context_id
    if context is not None and not 0 < len(context) <= LONGEST_ID:
        raise A2aError(INVALID_PARAMS, f"contextId must have 1 to {LONGEST_ID} characters.")
    wanted = {
        "intent": offered["name"],
        "payload": a2a.payload_of(message, offered["arguments"]),
        "lifecycle": LIFECYCLE,
        "run": True,
        "tags": [a2a.TAG, *([] if context is None else [a2a.CONTEXT_TAG + context])],
        "idempotency_key": _key(client, message),
    }
    return str((await client.call("submit_task", wanted))["id"])


def _key(client: A2aClient, message: a2a.Message) -> str:
    """The idempotency key of a message."""
    digest = hashlib.sha256(f"{client.name}\0{message.message_id}".encode()).hexdigest()
    return f"a2a:{digest}"


async def _answer_question(client: A2aClient, task_id: str, message: a2a.Message) -> None:
    """Answer a question of a task. The same message id of the same client answers only once."""
    outcome = await _outcome(client, task_id)
    question = a2a.question_of(message, outcome)
    wanted = {
        "task_id": task_id,
        # Without an open question, the operation still recognises a repeated message by its key.
        "question": a2a.named_question(message) if question is None else question["name"],
        "answer": a2a.answer_to(question, message),
        "idempotency_key": _key(client, message),
    }
    try:
        await client.call("answer_task", wanted)
    except Refused as refusal:
        if refusal.code == "idempotency_conflict":
            return  # it has answered an earlier question, and another one is open now
        if question is not None:
            raise
        text = f"Task {task_id} has no such open question; it is {a2a.state_of(outcome)}."
        raise A2aError(UNSUPPORTED, text) from None


async def send_message(client: A2aClient, params: Any) -> Any:
    """`SendMessage`: the task when it has ended or asks, or immediately."""
    outcome = await _send(client, params)
    if not _read(SendParams, params).configuration.return_immediately:
        outcome = await poll(
            lambda: _outcome(client, outcome["id"]),
            a2a.is_interrupted,
            client.stopping,
            LONGEST_WAIT_S,
        )
    return {"task": a2a.task(outcome, client.base)}


async def get_task(client: A2aClient, params: Any) -> Any:
    """`GetTask`: the task with its artifacts."""
    return a2a.task(await _outcome(client, _read(TaskParams, params).id), client.base)


async def list_tasks(client: A2aClient, params: Any) -> Any:
    """`ListTasks`: the client's newest tasks, a page at a time."""
    given = _read(ListParams, params)
    if not 1 <= given.page_size <= 100:
        raise A2aError(INVALID_PARAMS, "pageSize must be from 1 to 100.")
    wanted = {"own": True, "tag": a2a.TAG, "limit": MAX_LISTED}
    rows = (await client.call("list_tasks", wanted))["items"]
    found = [each["id"] for each in rows if await _is_listed(client, given, each)]
    # From the position in all tasks: the last one of a page may have another status by now.
    start = _position_after(given.page_token, [each["id"] for each in rows])
    rest = {each["id"] for each in rows[start:]}
    left = [each for each in found if each in rest]
    page = left[: given.page_size]
    tasks = [a2a.task(await _outcome(client, each), client.base) for each in page]
    if not given.include_artifacts:
        tasks = [{**each, "artifacts": []} for each in tasks]
    return {
        "tasks": tasks,
        "nextPageToken": page[-1] if len(page) < len(left) else "",
        "pageSize": given.page_size,
        "totalSize": len(found),
    }


async def _is_listed(client: A2aClient, given: ListParams, row: Row) -> bool:
    """Whether a task has the context, the status and the time that the client wants."""
    if given.context_id not in (None, "", a2a.context_of(row)):
        return False
    after = given.status_timestamp_after
    if after is not None and datetime.fromisoformat(row["state_at"]) < after:
        return False
    wanted, mapped = given.status, A2aState(row["elsewhere"]["a2a"])
    if wanted == "TASK_STATE_UNSPECIFIED":
        return True
    if mapped in a2a.ENDED or wanted in a2a.ENDED:
        return mapped == wanted
    return a2a.state_of(await _outcome(client, row["id"])) == wanted


def _position_after(token: str | None, names: Sequence[str]) -> int:
    if not token:
        return 0
    if token not in names:
        text = "pageToken is not that of a listed task: list the tasks from the first page again."
        raise A2aError(INVALID_PARAMS, text)
    return names.index(token) + 1


async def cancel_task(client: A2aClient, params: Any) -> Any:
    """`CancelTask`: the cancelled task; refused if it has ended."""
    task_id = _read(TaskParams, params).id
    outcome = await _outcome(client, task_id)
    if a2a.state_of(outcome) in a2a.ENDED:
        text = f"Task {task_id} has ended: it is {a2a.state_of(outcome)}."
        raise A2aError(NOT_CANCELABLE, text)
    await client.call("cancel_task", {"task_id": task_id, "reason": "cancelled by the client"})
    return a2a.task(await _outcome(client, task_id), client.base)


# ---- streams ---------------------------------------------------------------------------------


async def _subscribe(client: A2aClient, params: Any) -> Row:
    """`SubscribeToTask`: continue a stream that was cut; refused if the task has ended."""
    outcome = await _outcome(client, _read(TaskParams, params).id)
    if a2a.state_of(outcome) in a2a.ENDED:
        text = f"Task {outcome['id']} has ended; GetTask returns its result."
        raise A2aError(UNSUPPORTED, text)
    return outcome


async def _stream(client: A2aClient, outcome: Row) -> AsyncIterator[dict[str, Any]]:
    """The task, then what changes, until it has ended or the client has to act."""
    yield {"task": a2a.task(outcome, client.base)}
    while not a2a.is_interrupted(outcome) and not client.stopping.is_set():
        with anyio.move_on_after(STREAM_PAUSE_S):
            await client.stopping.wait()
        newer = await _outcome(client, outcome["id"])
        for each in a2a.updates(outcome, newer, client.base):
            yield each
        outcome = newer


# ---- push notifications ----------------------------------------------------------------------


async def _put_push(client: A2aClient, task_id: str, given: PushConfig) -> Any:
    await _outcome(client, task_id)
    wanted = {
        "task_id": task_id,
        "name": given.id or "default",
        "url": given.url,
        "base": client.base,
        "token": given.token,
        "authorization": _authorization(given),
    }
    return _push(await client.call("put_task_webhook", wanted))


def _authorization(given: PushConfig) -> str | None:
    found = given.authentication
    return None if found is None else f"{found.scheme} {found.credentials}".strip()


def _push(row: Row) -> dict[str, Any]:
    return {"id": row["name"], "taskId": row["task_id"], "url": row["url"]}


async def create_push(client: A2aClient, params: Any) -> Any:
    """`CreateTaskPushNotificationConfig`."""
    given = _read(PushConfig, params)
    return await _put_push(client, given.task_id, given)


async def _pushes(client: A2aClient, task_id: str) -> list[dict[str, Any]]:
    found = await client.call("list_task_webhooks", {"task_id": task_id})
    return [_push(each) for each in found["items"]]


async def get_push(client: A2aClient, params: Any) -> Any:
    """`GetTaskPushNotificationConfig`: without the secrets."""
    given = _read(PushParams, params)
    for each in await _pushes(client, given.task_id):
        if each["id"] == (given.id or "default"):
            return each
    raise A2aError(TASK_NOT_FOUND, f"Task {given.task_id} has no notifications {given.id!r:.80}.")


async def list_pushes(client: A2aClient, params: Any) -> Any:
    """`ListTaskPushNotificationConfigs`."""
    return {"configs": await _pushes(client, _read(PushParams, params).task_id)}


async def delete_push(client: A2aClient, params: Any) -> Any:
    """`DeleteTaskPushNotificationConfig`; repeated deletions change nothing."""
    given = _read(PushParams, params)
    wanted = {"task_id": given.task_id, "name": given.id or "default"}
    await client.call("delete_task_webhook", wanted)
    return {}


Method = Callable[[A2aClient, Any], Awaitable[Any]]
METHODS: Mapping[str, Method] = {
    "SendMessage": send_message,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "CancelTask": cancel_task,
    "CreateTaskPushNotificationConfig": create_push,
    "GetTaskPushNotificationConfig": get_push,
    "ListTaskPushNotificationConfigs": list_pushes,
    "DeleteTaskPushNotificationConfig": delete_push,
}
#: The methods that send a message.
SENDS = ("SendMessage", "SendStreamingMessage")
STREAMS: Mapping[str, Method] = {"SendStreamingMessage": _send, "SubscribeToTask": _subscribe}
