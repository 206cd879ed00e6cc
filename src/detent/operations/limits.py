"""Pausing, resuming, and limits of the configuration: rows of `limits`, which every claim reads.

`[limits]` of detent.toml is written to the table at every start: for a name that stands in the file
the file wins, and what the file no longer names is removed if it came from there.
"""

from collections.abc import Mapping
from typing import Any, cast

from detent.errors import Forbidden, Invalid, Misconfigured
from detent.kernel import fields
from detent.operations import shapes
from detent.operations.core import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.requests import text
from detent.store.port import Writing

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


@operation(Scope.READ, "GET", "/api/limits")
def list_limits(core: Core, caller: Caller) -> shapes.Limits:
    """What is paused, how many may run at once under each key, and how many may start in a time."""
    with core.store.read() as view:
        rows = view.rows("limits")
    return {"items": [_shown(name, rows[name]) for name in sorted(rows)]}


def _shown(name: str, row: Mapping[str, Any]) -> shapes.Limit:
    shown = {field: row.get(field) for field in NUMBERS}
    flags = {field: bool(row.get(field)) for field in ("paused", IN_FILE)}
    return cast(shapes.Limit, {"name": name, **flags, **shown})


@operation(Scope.OPERATE, "POST", "/api/pause")
def pause(
    core: Core, caller: Caller, *, intent: str | None = None, project: str | None = None
) -> shapes.Limit:
    """Claim no more work of an intent or a project, or none at all if neither is named."""
    return _set(core, _key(caller, intent, project), paused=True)


@operation(Scope.OPERATE, "POST", "/api/resume")
def resume(
    core: Core, caller: Caller, *, intent: str | None = None, project: str | None = None
) -> shapes.Limit:
    """End the pause of an intent, of a project, or of everything."""
    return _set(core, _key(caller, intent, project), paused=False)


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


def _set(core: Core, name: str, *, paused: bool) -> shapes.Limit:
    def write(tx: Writing) -> dict[str, Any]:
        row = {**tx.rows("limits").get(name, {}), "paused": paused}
        if not paused:
            del row["paused"]
        tx.put_rows("limits", {name: row or None})
        return row

    return _shown(name, core.engine.within(write))


# ---- from the file ---------------------------------------------------------------------------


def limits_from(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """`[limits]` of a configuration file: by name, any of running, rate with per_s, and paused."""
    try:
        named = fields.table(tables.get("limits", {}), "limits")
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
    row = fields.table(given, where, (*NUMBERS, "paused"))
    for field, (least, most) in NUMBERS.items():
        if field in row:
            fields.whole_number(row[field], f"{where}.{field}", least, most)
    if not isinstance(row.get("paused", False), bool):
        raise fields.wrong(f"{where}.paused", "true or false", row["paused"])
    return row


def keep_limits(core: Core) -> None:
    """Write the limits of the file into the table, and remove what the file has dropped."""

    def write(tx: Writing) -> bool:
        known = tx.rows("limits")
        wanted: dict[str, Any] = {name: {**row, IN_FILE: True} for name, row in core.limits.items()}
        dropped = {
            name: None for name, row in known.items() if row.get(IN_FILE) and name not in wanted
        }
        new = {name: row for name, row in wanted.items() if known.get(name) != row}
        if new or dropped:
            tx.put_rows("limits", {**new, **dropped})
        return bool(new or dropped)

    core.engine.within(write)
