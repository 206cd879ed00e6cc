"""The installation as a whole: queue, health, lifecycles, and what stands in its small tables."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from detent.kernel import exchange
from detent.kernel.health import Figures, judge
from detent.kernel.lifecycles import LIFECYCLES, lifecycle
from detent.operations import shapes
from detent.operations.core import Core
from detent.operations.pages import of_project
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import Query, Reading

DAY_US = 86_400_000_000
#: What blocks a task until a person speaks: shown apart, not counted as trouble.
FOR_PEOPLE = ("question", "needs_user")


@operation(Scope.READ, "GET", "/status")
def status(core: Core, caller: Caller) -> shapes.Queue:
    """How long the queue is, by priority."""
    queued = of_project(caller, {"state": ["todo", "queued"]}, None)
    alone = of_project(caller, {"state": "queued", "task_id": None}, None)
    with core.store.read() as view:
        tasks = view.count_by(Query("tasks", queued), "priority")
        jobs = view.count_by(Query("jobs", alone), "priority")
    by_priority = {f"P{level}": 0 for level in range(4)}
    for counts in (tasks, jobs):
        for priority, count in counts.items():
            by_priority[priority] += count
    return {"queueLength": sum(by_priority.values()), "byPriority": by_priority}


@operation(Scope.READ, "GET", "/api/health")
def health(core: Core, caller: Caller) -> shapes.Health:
    """Whether all is well in the whole installation, with the reasons."""
    return cast(shapes.Health, asdict(judge(figures(core))))


def figures(core: Core) -> Figures:
    """What the verdict is about, counted now."""
    with core.store.read() as view:
        lately = {"ended_at": (">=", view.now() - DAY_US)}
        ended = view.count_by(Query("runs", lately), "state")
        suspended = view.count_by(Query("runs", {**lately, "outcome": "suspended"}), "state")
        queue = view.count_by(Query("tasks", {"state": ["todo", "queued"]}), "state")
        alone = view.count_by(Query("jobs", {"state": "queued", "task_id": None}), "state")
        blocked = view.count_by(Query("tasks", {"state": "blocked"}), "blocked_by")
        ready = view.count_by(Query("tasks", {"state": "ready"}), "state")
    asking = sum(blocked.get(reason, 0) for reason in FOR_PEOPLE)
    return Figures(
        succeeded=ended.get("succeeded", 0) - suspended.get("succeeded", 0),
        failed=ended.get("failed", 0),
        timed_out=ended.get("timeout", 0),
        queue=sum(queue.values()) + sum(alone.values()),
        blocked=sum(blocked.values()) - asking,
        waiting_for_people=asking + sum(ready.values()),
    )


# ---- lifecycles ------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/lifecycles")
def list_lifecycles(core: Core, caller: Caller) -> shapes.Lifecycles:
    """The five lifecycles as tables."""
    return {"lifecycles": [_exported(name) for name in LIFECYCLES]}


@operation(Scope.READ, "GET", "/api/lifecycles/{name}")
def show_lifecycle(core: Core, caller: Caller, *, name: str) -> shapes.Lifecycle:
    """One lifecycle as a table."""
    return _exported(name)


def _exported(name: str) -> shapes.Lifecycle:
    return cast(shapes.Lifecycle, exchange.export(lifecycle(name)))


# ---- small tables ----------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/resources")
def list_resources(core: Core, caller: Caller) -> shapes.Resources:
    """Every resource, and how many steps hold it."""
    with core.store.read() as view:
        return {"items": [cast(shapes.Resource, each._asdict()) for each in view.resources()]}


@operation(Scope.READ, "GET", "/api/workers")
def list_workers(core: Core, caller: Caller) -> shapes.Workers:
    """Every worker that has registered, as it last did."""
    with core.store.read() as view:
        return {"items": _named(view, "workers")}


@operation(Scope.READ, "GET", "/api/schedules")
def list_schedules(core: Core, caller: Caller) -> shapes.Schedules:
    """Every schedule."""
    with core.store.read() as view:
        return {"items": _named(view, "schedules")}


@operation(Scope.READ, "GET", "/api/projects")
def list_projects(core: Core, caller: Caller) -> shapes.Projects:
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


def _named(view: Reading, table: str) -> list[Any]:
    rows: Mapping[str, Any] = view.rows(table)
    return [{"name": name, "detail": rows[name]} for name in sorted(rows)]
