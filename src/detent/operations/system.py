"""The installation as a whole: queue, health, lifecycles, pauses, workers."""

from dataclasses import asdict
from typing import Any

from detent.kernel import exchange
from detent.kernel.health import Figures, judge
from detent.kernel.lifecycles import LIFECYCLES, lifecycle
from detent.operations.core import Core
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import Query

DAY_US = 86_400_000_000
#: What blocks a task until a person speaks: shown apart, not counted as trouble.
FOR_PEOPLE = ("question", "needs_user")


@operation(Scope.READ, "GET", "/status")
def status(core: Core, caller: Caller) -> dict[str, Any]:
    """How long the queue is, by priority."""
    with core.store.read() as view:
        tasks = view.count_by(Query("tasks", {"state": ["todo", "queued"]}), "priority")
        jobs = view.count_by(Query("jobs", {"state": "queued", "task_id": None}), "priority")
    by_priority = {f"P{level}": 0 for level in range(4)}
    for counts in (tasks, jobs):
        for priority, count in counts.items():
            by_priority[priority] += count
    return {"queueLength": sum(by_priority.values()), "byPriority": by_priority}


@operation(Scope.READ, "GET", "/api/health")
def health(core: Core, caller: Caller) -> dict[str, Any]:
    """Whether all is well, with the reasons."""
    return asdict(judge(figures(core)))


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


@operation(Scope.READ, "GET", "/api/lifecycles")
def list_lifecycles(core: Core, caller: Caller) -> dict[str, Any]:
    """The five lifecycles as tables."""
    return {"lifecycles": [exchange.export(each) for each in LIFECYCLES.values()]}


@operation(Scope.READ, "GET", "/api/lifecycles/{name}")
def show_lifecycle(core: Core, caller: Caller, *, name: str) -> dict[str, Any]:
    """One lifecycle as a table."""
    return dict(exchange.export(lifecycle(name)))
