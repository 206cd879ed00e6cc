"""Projects and intents: lists of them, with the numbers of their tasks, jobs and workers."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from detent.engine.known_limits import weights
from detent.errors import Invalid
from detent.limit_config import PROJECT
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.limits import to_schema
from detent.operations.project_quotas import require_project, used
from detent.operations.registry import Caller, Scope, operation
from detent.operations.resources import require_all_projects
from detent.operations.text_fields import text
from detent.store.port import WriteTransaction
from detent.store.stale_reads import read_stale
from detent.store.types import Query
from detent.submission.payload import ARGUMENTS
from detent.submission.prompt_template import fields_schema

#: The kinds of intents, by the field that the row of an intent has; otherwise a function.
KINDS = ("command", "agent", "app", "plan", "planner")


@operation(Scope.READ, "GET", "/api/projects")
def list_projects(core: Core, caller: Caller) -> schemas.Projects:
    """List the projects that were created or have tasks, with the number of tasks."""
    with read_stale(core.store) as view:
        counts = view.count_by(Query("tasks", of_project(caller, {}, None)), "project")
        names = {*view.rows("projects"), *counts}
        weighted = weights(view.rows("limits"))
    return {
        "items": [
            {"name": name, "tasks": counts.get(name, 0), "weight": weighted.get(name, 1)}
            for name in sorted(names)
            if caller.may_see(name)
        ]
    }


@operation(Scope.OPERATE, "POST", "/api/projects", status=201)
def create_project(core: Core, caller: Caller, *, name: str) -> schemas.Project:
    """Create a project; while `intake.projects_locked` is set, tasks need an existing project."""
    require_all_projects(caller, "projects")
    named = text(name, "name")
    if not named.strip():
        raise Invalid(f"name must not be blank, not {name!r}.", field="name", given=name)

    def write(tx: WriteTransaction) -> None:
        tx.put_rows("projects", {named: tx.rows_for_update("projects").get(named, {})})

    core.engine.transaction(write)
    found = show_project(core, caller, name=named)
    weight = found["limits"]["weight"] or 1
    return {"name": named, "tasks": sum(found["tasks"].values()), "weight": weight}


@operation(Scope.READ, "GET", "/api/projects/{name}")
def show_project(core: Core, caller: Caller, *, name: str) -> schemas.ProjectCounts:
    """Show a project: its tasks and jobs by state, its limits and what it has used of them."""
    where = of_project(caller, {}, name)
    with core.store.read() as view:
        tasks = view.count_by(Query("tasks", where), "state")
        jobs = view.count_by(Query("jobs", where), "state")
        if not (tasks or jobs):
            require_project(view, name)
        limit = PROJECT + name
        limits = to_schema(limit, view.rows("limits").get(limit, {}))
        return {
            "name": name,
            "paused": limits["paused"],
            "tasks": dict(tasks),
            "jobs": dict(jobs),
            "limits": limits,
            "used": used(view, name),
        }


@operation(Scope.READ, "GET", "/api/intents")
def list_intents(core: Core, caller: Caller) -> schemas.KnownIntents:
    """List the intents that may be submitted, with their origins and numbers of live workers."""
    with core.store.read() as view:
        registered, limits = view.rows("intents"), view.rows("limits")
        alive_since = view.now() - core.settings.worker_lease_ms * 1_000
        rows = view.rows("workers").values()
        alive = [row for row in rows if row.get("seen_at", 0) > alive_since]
    workers = Counter(name for row in alive for name in row.get("intents", ()))
    names = sorted({*registered, *core.intents})
    return {"items": [_intent(core, name, registered, limits, workers[name]) for name in names]}


def _intent(
    core: Core, name: str, registered: Mapping[str, Any], limits: Mapping[str, Any], workers: int
) -> schemas.KnownIntent:
    row = {**registered.get(name, {}), **core.intents.get(name, {})}
    places = (("configuration", core.intents), ("worker", registered))
    return {
        "name": name,
        "kind": next((kind for kind in KINDS if row.get(kind)), "function"),
        "origins": [origin for origin, known in places if name in known],
        "paused": bool(limits.get(f"intent:{name}", {}).get("paused")),
        "workers": workers,
        "arguments": _prompt_fields(row) or row.get(ARGUMENTS),
    }


def _prompt_fields(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of the payload that the prompt of a configured agent names, as texts of a form."""
    return fields_schema(str(row["prompt"])) if row.get("agent") and row.get("prompt") else None
