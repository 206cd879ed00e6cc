"""Projects and intents: what is known of them, and how much of each there is."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid, NotFound
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.registry import Caller, Scope, operation
from detent.operations.requests import text
from detent.operations.resources import everywhere
from detent.store.port import Query, Writing

#: How an intent is carried out, by what its row names; a function is what is left.
KINDS = ("command", "agent", "app", "plan", "planner")


@operation(Scope.READ, "GET", "/api/projects")
def list_projects(core: Core, caller: Caller) -> schemas.Projects:
    """The projects that are known or have tasks, with how many."""
    with core.store.read() as view:
        counts = view.count_by(Query("tasks", of_project(caller, {}, None)), "project")
        names = {*view.rows("projects"), *counts}
    return {
        "items": [
            {"name": name, "tasks": counts.get(name, 0)}
            for name in sorted(names)
            if caller.project in (None, name)
        ]
    }


@operation(Scope.OPERATE, "POST", "/api/projects", status=201)
def create_project(core: Core, caller: Caller, *, name: str) -> schemas.Project:
    """Make a project known, which matters where projects are locked. One that is there stays."""
    everywhere(caller, "projects")
    named = text({"name": name}, "name")
    if not named.strip():
        raise Invalid("name must not be empty.", field="name", given=name)

    def write(tx: Writing) -> bool:
        tx.put_rows("projects", {named: tx.changing("projects").get(named, {})})
        return True

    core.engine.transaction(write)
    return {"name": named, "tasks": sum(show_project(core, caller, name=named)["tasks"].values())}


@operation(Scope.READ, "GET", "/api/projects/{name}")
def show_project(core: Core, caller: Caller, *, name: str) -> schemas.ProjectCounts:
    """One project with its tasks and jobs by state."""
    where = of_project(caller, {}, name)
    with core.store.read() as view:
        tasks = view.count_by(Query("tasks", where), "state")
        jobs = view.count_by(Query("jobs", where), "state")
        known = name in view.rows("projects")
        paused = bool(view.rows("limits").get(f"project:{name}", {}).get("paused"))
    if not (known or tasks or jobs):
        raise NotFound(f"There is no project {name!r}.", hint="See `detent projects`.")
    return {"name": name, "paused": paused, "tasks": dict(tasks), "jobs": dict(jobs)}


@operation(Scope.READ, "GET", "/api/intents")
def list_intents(core: Core, caller: Caller) -> schemas.KnownIntents:
    """The intents that may be submitted, whence they are known, and how many workers do them."""
    with core.store.read() as view:
        registered, limits = view.rows("intents"), view.rows("limits")
        lately = view.now() - core.settings.worker_lease_ms * 1_000
        rows = view.rows("workers").values()
        alive = [row for row in rows if row.get("seen_at", 0) > lately]
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
    }
