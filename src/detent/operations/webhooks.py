"""Webhooks: operators create them, the webhook dispatcher sends their deliveries.

In the table `webhooks` a webhook has three rows: `NAME` has its configuration, `NAME:cursor` its
position in the log, `NAME:status` its delivery status. Pending deliveries are in `outbox`.
"""

import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from detent import views
from detent.addresses import Network, known_refusal, networks
from detent.errors import Forbidden, Invalid, NotFound
from detent.ids import new_id
from detent.kernel.events import EVENTS
from detent.kernel.task_lifecycle import in_use
from detent.operations import schemas
from detent.operations.context import Core, check_choice
from detent.operations.registry import Caller, Scope, operation
from detent.operations.text_fields import texts
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Delivery

#: The due time of a dead delivery, one that was given up: never.
DEAD = 1 << 62
#: The maximum numbers of pending and of dead deliveries of a webhook. Further events wait in the
#: log.
MAX_PENDING = 200
MAX_DEAD = 200
MAX_KEPT = MAX_PENDING + MAX_DEAD
#: The field of the status with the time since which a pause after failures does not count.
ASKED_AT = "asked_at"
MAX_NAMES = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SHAPES = ("cloudevents", "slack")
ONLY = ("people",)
KEY_BYTES = 32
KEY_PREFIX = "whsec_"
#: How long an old key signs as well after a new key was created.
OVERLAP_S = 86_400
MAX_OVERLAP_S = 30 * 86_400
LONGEST_URL = 2_000
TEST = "test"
#: The setting with the private networks that webhooks may reach.
ALLOWED = "webhooks.allow"


class Webhook(NamedTuple):
    """A webhook. `id` is generated when it is created."""

    name: str
    id: str
    url: str
    shape: str
    events: Sequence[str]
    projects: Sequence[str]
    intents: Sequence[str]
    only: str | None
    paused: bool
    #: The project of the token that created it: the webhook gets only events of this project.
    project: str | None
    keys: Sequence[Mapping[str, Any]]
    created_at: int
    #: For the webhook of one task: the task, headers of its requests, the address of the gateway.
    task: str | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    base: str = ""

    @property
    def target(self) -> str:
        """The name of its deliveries in the outbox."""
        return f"webhook:{self.name}"

    def live_keys(self, now: int) -> list[str]:
        """The valid signing keys, the newest first."""
        return [each["key"] for each in self.keys if each["until"] is None or each["until"] > now]


def webhooks(rows: Mapping[str, Any]) -> list[Webhook]:
    """The webhooks of the table, sorted by name."""
    suffixes = (cursor_name(""), status_name(""))
    return [Webhook(name, **rows[name]) for name in sorted(rows) if not name.endswith(suffixes)]


def asked_at(rows: Mapping[str, Any], hook: Webhook) -> int:
    """When a person has changed the webhook or asked for deliveries last; 0 if never."""
    status: Mapping[str, int] = rows.get(status_name(hook.name), {})
    return status.get(ASKED_AT, 0)


def cursor_name(name: str) -> str:
    return f"{name}:cursor"


def status_name(name: str) -> str:
    return f"{name}:status"


def message_id(hook: Webhook, delivery: Delivery) -> str:
    """The message id: the same for every attempt of a delivery, also after a crash or a replay."""
    return f"{hook.id}-{delivery.position or delivery.stream}"


# ---- create, change and delete ---------------------------------------------------------------


@operation(Scope.ADMIN, "GET", "/api/webhooks")
def list_webhooks(core: Core, caller: Caller) -> schemas.Webhooks:
    """List the webhooks with their delivery status."""
    with core.store.read() as view:
        seen = [hook for hook in webhooks(view.rows("webhooks")) if caller.may_see(hook.project)]
        return {"items": [_to_schema(view, hook) for hook in seen]}


@operation(Scope.ADMIN, "PUT", "/api/webhooks/{name}")
def put_webhook(
    core: Core,
    caller: Caller,
    *,
    name: str,
    url: str,
    shape: str = "cloudevents",
    events: Sequence[str] = (),
    projects: Sequence[str] = (),
    intents: Sequence[str] = (),
    only: str | None = None,
    paused: bool = False,
) -> schemas.NewWebhook:
    """Create a webhook, which starts at the end of the log, or change one, which continues."""
    _check_name(name)
    known = _known_events(core)
    wanted: dict[str, Any] = {
        "url": checked_url(url, networks(core.settings.webhooks_allow, ALLOWED)),
        "shape": check_choice(shape, SHAPES, "shape"),
        "events": [check_choice(each, known, "events", "unknown_event") for each in events],
        "projects": _projects(caller, projects),
        "intents": list(texts(intents, "intents", MAX_NAMES)),
        "only": None if only is None else check_choice(only, ONLY, "only"),
        "paused": paused,
    }

    def write(tx: WriteTransaction) -> tuple[dict[str, Any], str | None]:
        old = next(
            (hook for hook in webhooks(tx.rows_for_update("webhooks")) if hook.name == name), None
        )
        if old is not None:
            _own(caller, old)
            hook, key = old._replace(**wanted), None
        else:
            key = new_key()
            own: dict[str, Any] = {
                "id": new_id(),
                "project": caller.project,
                "created_at": tx.now(),
            }
            hook = Webhook(name, **wanted, **own, keys=[{"key": key, "until": None}])
            tx.put_rows("webhooks", {cursor_name(name): {"position": tx.head()}})
        save_webhook(tx, hook)
        _end_rest(tx, hook)
        return dict(_to_schema(tx, hook)), key

    shown, key = core.engine.transaction(write, notify=True)
    return cast(schemas.NewWebhook, {**shown, "key": key})


@operation(Scope.ADMIN, "DELETE", "/api/webhooks/{name}")
def delete_webhook(core: Core, caller: Caller, *, name: str) -> schemas.Removed:
    """Delete a webhook and its pending deliveries."""

    def write(tx: WriteTransaction) -> None:
        remove_webhook(tx, _one(tx.rows_for_update("webhooks"), caller, name))

    core.engine.transaction(write)
    return {"name": name, "removed": True}


@operation(Scope.ADMIN, "POST", "/api/webhooks/{name}/rotate")
def rotate_webhook_key(
    core: Core, caller: Caller, *, name: str, overlap_s: int = OVERLAP_S
) -> schemas.WebhookKey:
    """Create a new signing key and show it once. The old keys also sign until the overlap ends."""
    if not 0 <= overlap_s <= MAX_OVERLAP_S:
        raise Invalid(
            f"overlap_s must be from 0 to {MAX_OVERLAP_S}, not {overlap_s}.",
            field="overlap_s",
            given=overlap_s,
        )
    key = new_key()

    def write(tx: WriteTransaction) -> int:
        hook, now = _one(tx.rows_for_update("webhooks"), caller, name), tx.now()
        until = now + overlap_s * 1_000_000
        old = [
            {"key": each["key"], "until": min(each["until"] or until, until)}
            for each in hook.keys
            if each["until"] is None or each["until"] > now
        ]
        save_webhook(tx, hook._replace(keys=[{"key": key, "until": None}, *old]))
        return until

    until = core.engine.transaction(write)
    return {"name": name, "key": key, "old_until": views.utc(until)}


# ---- deliveries ------------------------------------------------------------------------------


@operation(Scope.ADMIN, "POST", "/api/webhooks/{name}/test", status=202)
def try_webhook(core: Core, caller: Caller, *, name: str) -> schemas.TriedWebhook:
    """Queue a test delivery to a webhook."""

    def write(tx: WriteTransaction) -> str:
        hook = _one(tx.rows_for_update("webhooks"), caller, name)
        stream = f"{TEST}-{new_id()}"
        # The body is generated when the delivery is sent.
        row = Delivery(0, hook.target, stream, 0, "", tx.now())
        tx.put_outbox([row])
        _end_rest(tx, hook)
        return message_id(hook, row)

    return {"name": name, "id": core.engine.transaction(write, notify=True)}


@operation(Scope.ADMIN, "GET", "/api/webhooks/{name}/deliveries")
def list_deliveries(
    core: Core, caller: Caller, *, name: str, limit: int = 100
) -> schemas.Deliveries:
    """List the pending and the dead deliveries of a webhook, oldest first."""
    with core.store.read() as view:
        hook = _one(view.rows("webhooks"), caller, name)
        rows = view.outbox(hook.target, limit)
    return {"items": [_delivery(hook, row) for row in rows]}


@operation(Scope.ADMIN, "POST", "/api/webhooks/{name}/replay")
def replay_webhook(
    core: Core, caller: Caller, *, name: str, after: int | None = None, dead: bool = False
) -> schemas.Replayed:
    """Send again: the events after a position of the log, or the dead deliveries."""
    if after is None and not dead:
        raise Invalid("Give after (a position of the log), or dead.", field="after")

    def write(tx: WriteTransaction) -> schemas.Replayed:
        hook = _one(tx.rows_for_update("webhooks"), caller, name)
        rows = tx.outbox(hook.target, MAX_KEPT)
        revived = [row._replace(due_at=tx.now(), attempts=0) for row in rows if row.due_at == DEAD]
        if dead:
            tx.update_outbox(revived)
        cursor = tx.rows("webhooks")[cursor_name(name)]["position"]
        if after is not None:
            # Pending deliveries after that position would be sent twice.
            tx.delete_outbox([row.id for row in rows if row.position > after])
            cursor = min(after, tx.head())
            tx.put_rows("webhooks", {cursor_name(name): {"position": cursor}})
        _end_rest(tx, hook)
        return {"name": name, "position": cursor, "revived": len(revived) if dead else 0}

    return core.engine.transaction(write, notify=True)


# ---- helpers ---------------------------------------------------------------------------------


def _known_events(core: Core) -> list[str]:
    """The events of detent, and those that lifecycles declare."""
    with core.store.read() as view:
        declared = [event for each in in_use(view.lifecycles()) for event in each.events]
    return list(dict.fromkeys([*EVENTS, *declared]))


def new_key() -> str:
    return KEY_PREFIX + base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def save_webhook(tx: WriteTransaction, hook: Webhook) -> None:
    row = {**hook._asdict(), "headers": dict(hook.headers)}
    del row["name"]
    tx.put_rows("webhooks", {hook.name: row})


def remove_webhook(tx: WriteTransaction, hook: Webhook) -> None:
    """Delete a webhook and its pending deliveries."""
    tx.delete_outbox([each.id for each in tx.outbox(hook.target, MAX_KEPT)])
    names = (hook.name, cursor_name(hook.name), status_name(hook.name))
    tx.put_rows("webhooks", dict.fromkeys(names))


def _end_rest(tx: WriteTransaction, hook: Webhook) -> None:
    """Send now, although the receiver has failed or has asked to wait: a person asks for it."""
    status = tx.rows_for_update("webhooks").get(status_name(hook.name), {})
    tx.put_rows("webhooks", {status_name(hook.name): {**status, ASKED_AT: tx.now()}})


def _one(rows: Mapping[str, Any], caller: Caller, name: str) -> Webhook:
    for hook in webhooks(rows):
        if hook.name == name and caller.may_see(hook.project):
            return hook
    raise NotFound(f"There is no webhook {name!r}.", code="unknown_webhook")


def _own(caller: Caller, hook: Webhook) -> None:
    if not caller.may_see(hook.project):
        raise Forbidden(f"Webhook {hook.name!r} does not belong to project {caller.project!r}.")


def _projects(caller: Caller, given: Sequence[str]) -> list[str]:
    """The project filter. The webhook of a project's token gets only events of that project."""
    if caller.project is None:
        return list(texts(given, "projects", MAX_NAMES))
    if set(given) - {caller.project}:
        raise Forbidden(f"{caller.name} may create webhooks only for project {caller.project!r}.")
    return [caller.project]


def _check_name(given: str) -> None:
    if not NAME.fullmatch(given):
        form = "1 to 100 of letters, digits, . _ -"
        raise Invalid(
            f"name must be {form}, not {given[:100]!r}.", field="name", given=given, allowed=(form,)
        )


def checked_url(given: str, allowed: Sequence[Network]) -> str:
    """The URL, if it may receive deliveries. The address of a host name is checked when sending."""
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    good = (
        parts.scheme in ("http", "https")
        and parts.hostname
        and port != 0
        and "@" not in parts.netloc
        and not parts.fragment
        and given.isascii()
        and given.isprintable()
        and " " not in given
        and len(given) <= LONGEST_URL
    )
    if not good:
        raise Invalid(
            "url must be like https://example.org/hook, without a user name, password or fragment, "
            f"not {given[:100]!r}.",
            field="url",
            given=given,
        )
    refused = known_refusal(parts, allowed)
    if refused is not None:
        raise Invalid(
            f"Deliveries to this url are not allowed: {refused}.",
            field="url",
            given=given,
            hint=f"Use a public https URL, or add its network to the setting {ALLOWED}.",
        )
    return given


def _to_schema(view: ReadTransaction, hook: Webhook) -> schemas.Webhook:
    rows = view.rows("webhooks")
    cursor, status = rows.get(cursor_name(hook.name)), rows.get(status_name(hook.name), {})
    kept = view.outbox(hook.target, MAX_KEPT)
    dead = sum(1 for row in kept if row.due_at == DEAD)
    wanted = ("name", "url", "shape", "events", "projects", "intents", "only", "paused")
    shown = {
        **{name: value for name, value in hook._asdict().items() if name in wanted},
        "position": cursor["position"] if cursor else 0,
        "pending": len(kept) - dead,
        "dead": dead,
        "delivered": status.get("delivered", 0),
        "delivered_at": status.get("delivered_at"),
        "failed_at": status.get("failed_at"),
        "error": status.get("error"),
        "keys": len(hook.live_keys(view.now())),
        "created_at": hook.created_at,
    }
    return cast(schemas.Webhook, views.shown(shown))


def _delivery(hook: Webhook, row: Delivery) -> schemas.Delivery:
    dead = row.due_at == DEAD
    return {
        "id": message_id(hook, row),
        "state": "dead" if dead else "pending",
        "position": row.position,
        "attempts": row.attempts,
        "due_at": None if dead else views.utc(row.due_at),
        "error": row.error,
        "body": row.body,
    }
