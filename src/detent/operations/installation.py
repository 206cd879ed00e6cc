"""The installation as a whole: its queue, its health and its lifecycles."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any, cast

from detent.diagrams.drawing import outline
from detent.kernel import lifecycle_json
from detent.kernel.health import Figures, Health, judge
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.priority import Priority
from detent.kernel.state_mapping import mapped
from detent.kernel.state_shapes import APPEARANCES
from detent.kernel.task_lifecycle import Phase, TaskState, choices, state_names
from detent.kernel.wait_kinds import PEOPLE, QUESTIONS
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.registry import Caller, Scope, operation
from detent.store.types import Query
from detent.task_lifecycles import all_lifecycles, find
from detent.thresholds import thresholds

DAY_US = 86_400_000_000
#: The mean duration is computed from at most this number of runs, the newest of the last day.
MAX_RUNS = 200


@operation(Scope.READ, "GET", "/status")
def status(core: Core, caller: Caller, *, project: str | None = None) -> schemas.Queue:
    """Show the length of the queue, in total and by priority."""
    alone = of_project(caller, {"state": "queued", "task_id": None}, project)
    with core.store.read() as view:
        states = state_names(view.lifecycles(), _is_queued)
        queued = of_project(caller, {"state": states}, project)
        tasks = view.count_by(Query("tasks", queued), "priority")
        jobs = view.count_by(Query("jobs", alone), "priority")
    by_priority = {each.value: 0 for each in Priority}
    for counts in (tasks, jobs):
        for priority, count in counts.items():
            by_priority[priority] += count
    return {"queueLength": sum(by_priority.values()), "byPriority": by_priority}


def _is_queued(state: TaskState) -> bool:
    return state.phase is Phase.QUEUED


def _is_blocked(state: TaskState) -> bool:
    return state.phase is Phase.BLOCKED


@operation(Scope.READ, "GET", "/api/health")
def health(core: Core, caller: Caller) -> schemas.Health:
    """Show the health of the installation: ok, degraded or unhealthy, with the reasons."""
    return cast(schemas.Health, asdict(verdict(core)))


def verdict(core: Core) -> Health:
    """The health now, judged by the thresholds of the settings."""
    return judge(figures(core), thresholds(core.settings))


def figures(core: Core) -> Figures:
    """The figures from which the health is judged, counted now."""
    with core.store.read() as view:
        recent = {"ended_at": (">=", view.now() - DAY_US)}
        ended = view.count_by(Query("runs", recent), "state")
        suspended = view.count_by(Query("runs", {**recent, "outcome": "suspended"}), "state")
        known = view.lifecycles()
        queue = view.count_by(Query("tasks", {"state": state_names(known, _is_queued)}), "state")
        alone = view.count_by(Query("jobs", {"state": "queued", "task_id": None}), "state")
        stopped = {"state": state_names(known, _is_blocked)}
        blocked = view.count_by(Query("tasks", stopped), "blocked_by")
        finished = {"state": state_names(known, attrgetter("under_review"))}
        ready = view.count_by(Query("tasks", finished), "state")
        asked = view.count_by(Query("questions", {"kind": sorted(QUESTIONS)}), "kind")
        last = view.page(Query("runs", recent, "ended_at", descending=True, limit=MAX_RUNS))
    # Tasks that wait for a person are counted separately, not as blocked.
    waiting_for_people = sum(blocked.get(reason, 0) for reason in PEOPLE)
    return Figures(
        succeeded=ended.get("succeeded", 0) - suspended.get("succeeded", 0),
        failed=ended.get("failed", 0),
        timed_out=ended.get("timeout", 0),
        queue=sum(queue.values()) + sum(alone.values()),
        blocked=sum(blocked.values()) - waiting_for_people,
        waiting_for_people=waiting_for_people + sum(ready.values()) + sum(asked.values()),
        mean_duration_ms=_mean_ms(last),
    )


def _mean_ms(runs: Sequence[Mapping[str, Any]]) -> int | None:
    """The mean duration of runs that succeeded, failed or timed out, in milliseconds."""
    took = [
        run["ended_at"] - run["started_at"]
        for run in runs
        if run["started_at"] is not None
        and run["state"] in ("succeeded", "failed", "timeout")
        and run["outcome"] != "suspended"
    ]
    return sum(took) // len(took) // 1_000 if took else None


# ---- lifecycles ------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/lifecycles")
def list_lifecycles(core: Core, caller: Caller) -> schemas.Lifecycles:
    """List the lifecycles of tasks, jobs, plan steps and runs as tables."""
    looks = {
        look.value: cast(schemas.Appearance, asdict(each)) for look, each in APPEARANCES.items()
    }
    with core.store.read() as view:
        tasks = dict(view.lifecycles())
    return {
        "lifecycles": [_exported(each) for each in all_lifecycles(tasks).values()],
        "defaults": {entry.value: each.id for entry, each in choices(tasks).defaults.items()},
        "appearances": looks,
    }


@operation(Scope.READ, "GET", "/api/lifecycles/{name}")
def show_lifecycle(core: Core, caller: Caller, *, name: str) -> schemas.Lifecycle:
    """Show one lifecycle as a table."""
    return _exported(_found(core, name))


@operation(Scope.READ, "GET", "/api/lifecycles/{name}/diagram")
def lifecycle_diagram(core: Core, caller: Caller, *, name: str) -> schemas.Diagram:
    """Show the diagram of a lifecycle: the positions of its states, and the paths of its arrows."""
    return cast(schemas.Diagram, outline(_found(core, name)))


@operation(Scope.READ, "GET", "/api/mapping")
def state_mapping(core: Core, caller: Caller) -> schemas.Mapping:
    """Map each task state to the counterpart's state and to the MCP and A2A task states."""
    with core.store.read() as view:
        rows = mapped(view.lifecycles().values())
    return {"items": cast(list[schemas.MappedState], rows)}


def _found(core: Core, name: str) -> Lifecycle:
    with core.store.read() as view:
        return find(name, view.lifecycles())


def _exported(lifecycle: Lifecycle) -> schemas.Lifecycle:
    return cast(schemas.Lifecycle, lifecycle_json.export(lifecycle))
