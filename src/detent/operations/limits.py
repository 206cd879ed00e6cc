"""Pausing and resuming: rows of the table `limits`, which every claim looks at."""

from typing import Any

from detent.errors import Forbidden, Invalid
from detent.operations import shapes
from detent.operations.core import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.requests import text
from detent.store.port import Writing

EVERYTHING = "all"


@operation(Scope.READ, "GET", "/api/limits")
def list_limits(core: Core, caller: Caller) -> shapes.Limits:
    """What is paused, and how many may run at once under each key."""
    with core.store.read() as view:
        rows = view.rows("limits")
    return {
        "items": [
            {
                "name": name,
                "paused": bool(rows[name].get("paused")),
                "running": rows[name].get("running"),
            }
            for name in sorted(rows)
        ]
    }


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

    row = core.engine.within(write)
    return {"name": name, "paused": paused, "running": row.get("running")}
