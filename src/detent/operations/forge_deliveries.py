"""Deliveries from the webhooks of forges: checked, and recorded once for the leader service.

A delivery only says what has changed. The leader service reads the current state from the forge, so
that late, repeated and reordered deliveries cannot apply an old one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import msgspec

from detent.errors import Invalid, Misconfigured, NotFound, Unauthorized
from detent.operations.context import Core
from detent.operations.forge_hook import Headers, Hook, Named
from detent.operations.github_hook import GITHUB_HOOK
from detent.operations.gitlab_hook import GITLAB_HOOK
from detent.redaction import resolve
from detent.settings import name
from detent.store.port import WriteTransaction

TABLE = "forge_items"
HOOKS: Mapping[str, Hook] = {each.forge: each for each in (GITHUB_HOOK, GITLAB_HOOK)}
#: A delivery that is sent again after this time is read again, which changes nothing.
REMEMBERED_US = 7 * 86_400_000_000


class Received(TypedDict):
    """The response to a delivery."""

    status: str


class Delivery(NamedTuple):
    """A delivery that the leader service has not processed yet."""

    row: str
    named: Named


def repositories(given: tuple[str, ...], setting: str) -> dict[str, str]:
    """The task type of each repository, from a setting."""
    found: dict[str, str] = {}
    for each in given:
        repo, sign, intent = each.partition("=")
        if not sign or "/" not in repo or not intent:
            raise Misconfigured(
                f"{setting} must have entries OWNER/NAME=INTENT, not {each!r}.", setting=setting
            )
        found[repo] = intent
    return found


def receive(core: Core, hook: Hook, headers: Headers, body: bytes) -> Received:
    """Check a delivery and record it. A repeated one is not recorded again."""
    ident = _checked(core, hook, headers, body)
    try:
        payload = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # also if it is not UTF-8
        raise Invalid(f"The body is not JSON: {error}", field="body") from None
    named = hook.named(headers, payload)
    if named is None:
        return {"status": "ignored"}
    known = repositories(getattr(core.settings, hook.repositories), name(hook.repositories))
    if named.repo not in known:
        raise NotFound(
            f"The repository {named.repo!r} is not configured.",
            known=known,
            hint=f"Add {named.repo}=INTENT to {name(hook.repositories)} and restart detent.",
        )
    return {"status": record(core, hook.forge, ident, named)}


def _checked(core: Core, hook: Hook, headers: Headers, body: bytes) -> str:
    """The id of a delivery that has the right signature."""
    reference = getattr(core.settings, hook.secret)
    if not reference:
        raise NotFound(f"{name(hook.secret)} is not set, so no deliveries are accepted.")
    if not hook.signed(resolve(reference, name(hook.secret)), headers, body):
        raise Unauthorized(
            "The delivery is not signed with the secret of this installation.",
            hint=f"Set the same secret in the webhook and in {name(hook.secret)}.",
        )
    ident = hook.ident(headers)
    if ident is None:
        raise Invalid("The delivery has no id.", field="headers")
    return ident


def record(core: Core, tracker: str, ident: str, named: Named) -> str:
    """Record a delivery for the leader service, unless it was recorded before."""
    row = f"{_prefix(tracker)}{ident}"

    def write(tx: WriteTransaction) -> str:
        if row in tx.rows_for_update(TABLE, row):
            return "repeated"
        tx.put_rows(TABLE, {row: {**named._asdict(), "at": tx.now(), "open": True}})
        return "accepted"

    return core.engine.transaction(write, notify=True)


def _prefix(forge: str) -> str:
    return f"{forge}:delivery:"


# ---- for the leader service ------------------------------------------------------------------


def open_deliveries(core: Core, forge: str) -> list[Delivery]:
    """The deliveries that are not processed yet, in the order of their arrival."""
    with core.store.read() as view:
        rows = view.rows_under(TABLE, _prefix(forge))
    found = sorted((value["at"], row, value) for row, value in rows.items() if value["open"])
    return [Delivery(row, _named(value)) for _, row, value in found]


def _named(value: Mapping[str, Any]) -> Named:
    lists = (tuple(value[name]) for name in ("branches", "issues", "requests"))
    return Named(value["repo"], *lists)


def close_deliveries(core: Core, forge: str, done: list[Delivery]) -> None:
    """Record that deliveries were processed; forget those that were processed long ago."""

    def write(tx: WriteTransaction) -> None:
        rows = tx.rows_for_update(TABLE, _prefix(forge))
        closed = {each.row: {**rows[each.row], "open": False} for each in done if each.row in rows}
        before = tx.now() - REMEMBERED_US
        old = {row: None for row, value in rows.items() if value["at"] < before}
        tx.put_rows(TABLE, {**closed, **old})

    core.engine.transaction(write)
