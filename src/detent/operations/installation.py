"""The installation as a whole: its queue and its health."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from detent.kernel.health import Figures, Health, SystemFigures, judge
from detent.kernel.priority import Priority
from detent.kernel.task_lifecycle import Phase, TaskState, state_names
from detent.kernel.wait_kinds import PEOPLE
from detent.operations import recent_runs, schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.recent_runs import at_percent, queue_times
from detent.operations.registry import Caller, Scope, operation
from detent.operations.waiting_work import count_waiting
from detent.server_file import read_live
from detent.store.stale_reads import read_stale
from detent.store.types import Query
from detent.thresholds import thresholds

DAY_US = 86_400_000_000
S_US = 1_000_000
#: Percentiles are computed from at most this number of runs, the newest of the last day.
MAX_RUNS = 200
#: The oldest job that can be claimed is searched for among this number of queued jobs.
MAX_QUEUED = 100
#: The caller for figures of the whole installation; it has snoozed nothing.
SYSTEM = Caller("system")


@operation(Scope.READ, "GET", "/status")
def status(core: Core, caller: Caller, *, project: str | None = None) -> schemas.Queue:
    """Show the length of the queue, in total and by priority."""
    alone = of_project(caller, {"state": "queued", "task_id": None}, project)
    with read_stale(core.store) as view:
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
    found = judge(figures(core), thresholds(core.settings), system_figures(core))
    return cast(schemas.Health, asdict(found))


def verdict(core: Core) -> Health:
    """The health now, judged by the thresholds of the settings."""
    return judge(figures(core), thresholds(core.settings))


def figures(core: Core) -> Figures:
    """The figures from which the health is judged, counted now."""
    with read_stale(core.store) as view:
        now = view.now()
        recent = {"ended_at": (">=", now - DAY_US)}
        ended = view.count_by(Query("runs", recent), "state")
        suspended = view.count_by(Query("runs", {**recent, "outcome": "suspended"}), "state")
        known = view.lifecycles()
        queue = view.count_by(Query("tasks", {"state": state_names(known, _is_queued)}), "state")
        alone = view.count_by(Query("jobs", {"state": "queued", "task_id": None}), "state")
        stopped = {"state": state_names(known, _is_blocked)}
        blocked = view.count_by(Query("tasks", stopped), "blocked_by")
        people = count_waiting(view, SYSTEM)
        took = _durations_s(view.page(_recent_runs(now)))
    # Tasks that wait for an answer are counted with the inbox, not as blocked.
    asking = sum(blocked.get(reason, 0) for reason in PEOPLE)
    return Figures(
        succeeded=ended.get("succeeded", 0) - suspended.get("succeeded", 0),
        failed=ended.get("failed", 0),
        timed_out=ended.get("timeout", 0),
        queue=sum(queue.values()) + sum(alone.values()),
        blocked=sum(blocked.values()) - asking,
        waiting_for_people=people,
        spent_budgets=blocked.get("budget", 0),
        p50_duration_ms=_milliseconds(at_percent(took, 50)),
        p95_duration_ms=_milliseconds(at_percent(took, 95)),
    )


def system_figures(core: Core) -> SystemFigures:
    """The figures of the parts of the system, measured now."""
    server = read_live(core.settings.data_dir)
    begun = time.monotonic()
    with core.store.read() as view:
        now = view.now()
        runs = view.page(_recent_runs(now))
        waited = queue_times(runs, recent_runs.jobs_of(view, runs))
        took_s = time.monotonic() - begun
        keeper: Mapping[str, Any] = view.rows("system_state").get("keeper") or {}
        workers = view.rows("workers").values()
        oldest = view.page(Query("jobs", {"state": "queued"}, "queued_at", limit=MAX_QUEUED))
    alive_since = now - core.settings.worker_lease_ms * 1_000
    ready = [job["queued_at"] for job in oldest if job["not_before"] <= now]
    return SystemFigures(
        gateway=None if server is None else server.get("url"),
        store_read_ms=int(took_s * 1_000),
        has_keeper=keeper.get("until", 0) > now,
        workers_alive=sum(row.get("seen_at", 0) >= alive_since for row in workers),
        workers_known=len(workers),
        p50_queue_delay_ms=_milliseconds(at_percent(waited, 50)),
        p95_queue_delay_ms=_milliseconds(at_percent(waited, 95)),
        oldest_queued_ms=(now - ready[0]) // 1_000 if ready else None,
    )


def _recent_runs(now: int) -> Query:
    """The newest runs that ended in the last day."""
    recent = {"ended_at": (">=", now - DAY_US)}
    return Query("runs", recent, "ended_at", descending=True, limit=MAX_RUNS)


def _durations_s(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    """The durations of runs that succeeded, failed or timed out, sorted."""
    return sorted(
        (run["ended_at"] - run["started_at"]) / S_US
        for run in runs
        if run["started_at"] is not None
        and run["state"] in ("succeeded", "failed", "timeout")
        and run["outcome"] != "suspended"
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000)
