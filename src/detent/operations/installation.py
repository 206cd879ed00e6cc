"""The installation as a whole: its queue and its health."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from detent.kernel.health import Figures, Health, judge
from detent.kernel.priority import Priority
from detent.kernel.task_lifecycle import Phase, TaskState, state_names
from detent.kernel.wait_kinds import PEOPLE
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.registry import Caller, Scope, operation
from detent.operations.waiting_work import count_waiting
from detent.store.types import Query
from detent.thresholds import thresholds

DAY_US = 86_400_000_000
#: The mean duration is computed from at most this number of runs, the newest of the last day.
MAX_RUNS = 200
#: The caller for figures of the whole installation; it has snoozed nothing.
SYSTEM = Caller("system")


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
        people = count_waiting(view, SYSTEM)
        last = view.page(Query("runs", recent, "ended_at", descending=True, limit=MAX_RUNS))
    # Tasks that wait for an answer are counted with the inbox, not as blocked.
    asking = sum(blocked.get(reason, 0) for reason in PEOPLE)
    return Figures(
        succeeded=ended.get("succeeded", 0) - suspended.get("succeeded", 0),
        failed=ended.get("failed", 0),
        timed_out=ended.get("timeout", 0),
        queue=sum(queue.values()) + sum(alone.values()),
        blocked=sum(blocked.values()) - asking,
        waiting_for_people=people,
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
