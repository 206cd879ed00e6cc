"""Webhooks of single tasks: the creator of a task has its changes sent to an address.

They are rows of the table `webhooks` like the webhooks of operators, with the same rules for
addresses and the same deliveries. The dispatcher deletes them some time after the task has ended.
"""

from collections.abc import Sequence
from typing import Any

from detent.addresses import networks
from detent.errors import Invalid, NotFound, Refused
from detent.ids import new_id
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.webhooks import (
    ALLOWED,
    NAME,
    Webhook,
    checked_url,
    cursor_name,
    new_key,
    remove_webhook,
    save_webhook,
    webhooks,
)
from detent.settings import Settings
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

#: The maximum number of webhooks of one task.
MAX_WEBHOOKS = 10
SHAPE = "a2a"
PREFIX = "task-"
LONGEST_NAME = 50
LONGEST_SECRET = 2_000
TAKEN = "Choose another name."


@operation(Scope.SUBMIT, "PUT", "/api/tasks/{task_id}/webhooks/{name}")
def put_task_webhook(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    name: str,
    url: str,
    base: str,
    token: str | None = None,
    authorization: str | None = None,
) -> schemas.TaskWebhook:
    """Send the changes of a task that the caller created to an address, as A2A notifications."""
    _check(core, caller, task_id)
    whole = _whole_name(task_id, name)
    headers = check_task_webhook(core.settings, name, url, token, authorization)
    about: dict[str, Any] = {"url": url, "headers": headers, "base": base}

    def write(tx: WriteTransaction) -> None:
        rows = tx.rows_for_update("webhooks")
        known = {each.name: each for each in _of_task(rows, task_id)}
        if whole in rows and whole not in known:  # task a-b, name c: task a, name b-c
            raise Refused(f"Another webhook has the name {name!r} of task {task_id}.", hint=TAKEN)
        if whole not in known and len(known) >= MAX_WEBHOOKS:
            raise Refused(f"Task {task_id} has {MAX_WEBHOOKS} webhooks already.")
        if whole in known:
            save_webhook(tx, known[whole]._replace(**about))
            return
        save_webhook(tx, _new(tx, whole, task_id, caller, about))
        tx.put_rows("webhooks", {cursor_name(whole): {"position": tx.head()}})

    core.engine.transaction(write, notify=True)
    return {"name": name, "task_id": task_id, "url": url}


@operation(Scope.SUBMIT, "GET", "/api/tasks/{task_id}/webhooks")
def list_task_webhooks(core: Core, caller: Caller, *, task_id: str) -> schemas.TaskWebhooks:
    """List the webhooks of a task that the caller created, without their secrets."""
    _check(core, caller, task_id)
    with core.store.read() as view:
        found = _of_task(view.rows("webhooks"), task_id)
    prefix = _whole_name(task_id, "x")[:-1]
    return {
        "items": [
            {"name": each.name.removeprefix(prefix), "task_id": task_id, "url": each.url}
            for each in found
        ]
    }


@operation(Scope.SUBMIT, "DELETE", "/api/tasks/{task_id}/webhooks/{name}")
def delete_task_webhook(core: Core, caller: Caller, *, task_id: str, name: str) -> schemas.Removed:
    """Delete a webhook of a task that the caller created, and its pending deliveries."""
    _check(core, caller, task_id)
    whole = _whole_name(task_id, name)

    def write(tx: WriteTransaction) -> bool:
        found = _of_task(tx.rows_for_update("webhooks"), task_id)
        hook = next((each for each in found if each.name == whole), None)
        if hook is not None:
            remove_webhook(tx, hook)
        return hook is not None

    return {"name": name, "removed": core.engine.transaction(write)}


def check_task_webhook(
    settings: Settings, name: str, url: str, token: str | None, authorization: str | None
) -> dict[str, str]:
    """The headers of the requests of a webhook; refused if it could not be created."""
    _whole_name("", name)
    checked_url(url, networks(settings.webhooks_allow, ALLOWED))
    headers = {"X-A2A-Notification-Token": token, "Authorization": authorization}
    return {each: _secret(text) for each, text in headers.items() if text}


def _check(core: Core, caller: Caller, task_id: str) -> None:
    core.task(caller, task_id)
    if _owner(core, task_id) != caller.actor.name:
        raise NotFound(f"There is no task {task_id!r} of {caller.name}.", code="unknown_task")


def _owner(core: Core, task_id: str) -> Any:
    with core.store.read() as view:
        return view.page(Query("tasks", {"id": task_id}))[0]["created_by"]


def _new(
    tx: ReadTransaction, name: str, task_id: str, caller: Caller, about: dict[str, Any]
) -> Webhook:
    return Webhook(
        name=name,
        id=new_id(),
        shape=SHAPE,
        events=[],
        projects=[],
        intents=[],
        only=None,
        paused=False,
        project=caller.project,
        keys=[{"key": new_key(), "until": None}],
        created_at=tx.now(),
        task=task_id,
        **about,
    )


def _of_task(rows: Any, task_id: str) -> Sequence[Webhook]:
    return [each for each in webhooks(rows) if each.task == task_id]


def _whole_name(task_id: str, name: str) -> str:
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        form = f"1 to {LONGEST_NAME} of letters, digits, . _ -"
        raise Invalid(f"name must be {form}, not {name[:100]!r}.", field="name", given=name)
    return f"{PREFIX}{task_id}-{name}"


def _secret(text: str) -> str:
    if len(text) > LONGEST_SECRET or not (text.isascii() and text.isprintable()):
        raise Invalid(
            f"token and authorization must be printable ASCII of at most {LONGEST_SECRET} "
            "characters.",
            field="token",
        )
    return text
