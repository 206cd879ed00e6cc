"""Pausing, resuming, and limits of the configuration: rows of `limits`, which every claim reads.

A pause says who began it, when and why; its beginning and its end are lines of the program's log.
`[limits]` of detent.toml is written to the table at every start: for a name that stands in the file
the file's numbers win, and what the file no longer names is removed if it came from there. A pause
that a person began lasts until a person ends it.
"""

import logging
from collections.abc import Mapping
from typing import Any, cast

from detent.errors import Forbidden, Invalid, Misconfigured
from detent.kernel import document_fields
from detent.operations import schemas
from detent.operations.context import Core, known
from detent.operations.registry import Caller, Scope, operation
from detent.operations.requests import text
from detent.store.port import Writing
from detent.views import utc

log = logging.getLogger("detent.limits")

EVERYTHING = "all"
KINDS = ("intent:", "project:", "key:")
#: By field of a limit, the least and the most that it may be.
NUMBERS: Mapping[str, tuple[int, int]] = {
    "running": (0, 1_000_000),
    "rate": (1, 1_000_000),
    "per_s": (1, 86_400),
}
#: Marks a row that came from the configuration file.
IN_FILE = "in_file"
#: What is said of a pause; one of the file has no `paused_by`.
PAUSE = ("paused", "paused_by", "paused_at", "reason")


@operation(Scope.READ, "GET", "/api/limits")
def list_limits(core: Core, caller: Caller) -> schemas.Limits:
    """What is paused, how many may run at once under each key, and how many may start in a time."""
    with core.store.read() as view:
        rows = view.rows("limits")
    return {"items": [_shown(name, rows[name]) for name in sorted(rows)]}


def _shown(name: str, row: Mapping[str, Any]) -> schemas.Limit:
    shown = {field: row.get(field) for field in NUMBERS}
    flags = {field: bool(row.get(field)) for field in ("paused", IN_FILE)}
    since = utc(row["paused_at"]) if "paused_at" in row else None
    said = {"paused_by": row.get("paused_by"), "paused_at": since, "reason": row.get("reason")}
    return cast(schemas.Limit, {"name": name, **flags, **shown, **said})


@operation(Scope.OPERATE, "POST", "/api/pause")
def pause(
    core: Core,
    caller: Caller,
    *,
    intent: str | None = None,
    project: str | None = None,
    reason: str | None = None,
) -> schemas.Limit:
    """Claim no more work of an intent or a project, or none at all if neither is named."""
    name = _key(caller, intent, project)
    if intent is not None:
        known(intent, core.known_intents(), "intent", "unknown_intent")

    def write(tx: Writing) -> dict[str, Any]:
        said = {"paused": True, "paused_by": caller.name, "paused_at": tx.now(), "reason": reason}
        row = {**_unpaused(tx.changing("limits").get(name, {})), **said}
        tx.put_rows("limits", {name: row})
        return row

    row = core.engine.transaction(write)
    log.info("%s paused by %s: %s", name, caller.name, reason or "no reason given")
    return _shown(name, row)


@operation(Scope.OPERATE, "POST", "/api/resume")
def resume(
    core: Core, caller: Caller, *, intent: str | None = None, project: str | None = None
) -> schemas.Limit:
    """End the pause of an intent, of a project, or of everything."""
    name = _key(caller, intent, project)

    def write(tx: Writing) -> dict[str, Any]:
        row = _unpaused(tx.changing("limits").get(name, {}))
        tx.put_rows("limits", {name: row or None})
        return row

    row = core.engine.transaction(write, notify=True)
    log.info("%s resumed by %s", name, caller.name)
    return _shown(name, row)


def _unpaused(row: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in row.items() if field not in PAUSE}


def _pause_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The pause of a row, if a person began it."""
    return {field: row[field] for field in PAUSE if field in row} if "paused_by" in row else {}


def _key(caller: Caller, intent: str | None, project: str | None) -> str:
    """The row's name. A token of one project may stop that project and nothing else."""
    if caller.project is not None and (intent is not None or project != caller.project):
        raise Forbidden(f"{caller.name} may pause and resume project {caller.project!r} alone")
    if project is not None and intent is None:
        return "project:" + text({"project": project}, "project")
    if intent is not None and project is None:
        return "intent:" + text({"intent": intent}, "intent")
    if intent is None:
        return EVERYTHING
    raise Invalid("Name an intent or a project, not both.", field="project", given=project)


# ---- from the file ---------------------------------------------------------------------------


def limits_from(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """`[limits]` of a configuration file: by name, any of running, rate with per_s, and paused."""
    try:
        named = document_fields.table(tables.get("limits", {}), "limits")
        return {name: _row(name, row) for name, row in named.items()}
    except Invalid as error:
        raise Misconfigured(error.message, setting=error.field) from None


def _row(name: str, given: object) -> Mapping[str, Any]:
    where = f"limits.{name}"
    if name != EVERYTHING and not any(name.startswith(kind) and name != kind for kind in KINDS):
        allowed = (EVERYTHING, *(f"{kind}NAME" for kind in KINDS))
        raise Invalid(
            f"{where} must be one of {', '.join(allowed)}.",
            field=where,
            given=name,
            allowed=allowed,
        )
    row = document_fields.table(given, where, (*NUMBERS, "paused"))
    for field, (least, most) in NUMBERS.items():
        if field in row:
            document_fields.whole_number(row[field], f"{where}.{field}", least, most)
    if not isinstance(row.get("paused", False), bool):
        raise document_fields.wrong(f"{where}.paused", "true or false", row["paused"])
    return row


def keep_limits(core: Core) -> None:
    """Write the limits of the file into the table, and remove what the file has dropped."""

    def write(tx: Writing) -> None:
        rows = tx.changing("limits")
        wanted: dict[str, Any] = {
            name: {**_pause_of(rows.get(name, {})), **row, IN_FILE: True}
            for name, row in core.limits.items()
        }
        dropped = {
            name: _pause_of(row) or None
            for name, row in rows.items()
            if row.get(IN_FILE) and name not in wanted
        }
        new = {name: row for name, row in wanted.items() if rows.get(name) != row}
        if new or dropped:
            tx.put_rows("limits", {**new, **dropped})

    core.engine.transaction(write, notify=True)
