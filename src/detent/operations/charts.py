"""Data for charts: counts by state, and a time window divided into intervals."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detent import views
from detent.kernel.entities import Job
from detent.kernel.health import Thresholds
from detent.kernel.task_lifecycle import in_use
from detent.operations import recent_runs, schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.recent_runs import Run, at_percent, queue_times
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import ReadTransaction
from detent.store.stale_reads import read_stale
from detent.store.types import Query
from detent.thresholds import thresholds

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
#: The number of intervals into which a window is divided, approximately.
INTERVALS = 24


@operation(Scope.READ, "GET", "/api/counts")
def counts(core: Core, caller: Caller, *, project: str | None = None) -> schemas.Counts:
    """Count tasks, jobs, runs and steps by lifecycle and state."""
    of = of_project(caller, {}, project)
    with read_stale(core.store) as view:
        known = {each.id: each for each in in_use(view.lifecycles())}
        tasks = {each: _tasks_by_state(view, of, each) for each in known}
        found = {
            **tasks,
            "job": view.count_by(Query("jobs", of), "state"),
            # Runs and steps have no project, so they are not counted for one project.
            "run": {} if of else view.count_by(Query("runs", {}), "state"),
            "step": {} if of else view.count_by(Query("steps", {}), "state"),
        }
    active = sum(
        count
        for name, states in tasks.items()
        for state, count in states.items()
        if known[name].by_state[state].ending is None
    )
    return {
        "lifecycles": {name: dict(counts) for name, counts in found.items()},
        "active": active,
    }


def _tasks_by_state(
    view: ReadTransaction, of: Mapping[str, Any], lifecycle: str
) -> Mapping[Any, int]:
    return view.count_by(Query("tasks", {**of, "lifecycle": lifecycle}), "state")


@operation(Scope.READ, "GET", "/api/stats/series")
def stats_series(
    core: Core, caller: Caller, *, hours: int = 24, project: str | None = None
) -> schemas.Series:
    """Show throughput, success rate, durations, queue times and cost per interval of a window."""
    of = of_project(caller, {}, project)
    span = max(hours // INTERVALS, 1) * HOUR_US
    with read_stale(core.store) as view:
        now = view.now()
        first = (now - hours * HOUR_US) // span * span
        found = recent_runs.ended_since(view, first)
        runs = [run for run in found if run["outcome"] != "suspended"]
        jobs = list(recent_runs.jobs_of(view, runs))
    if of:
        jobs = [job for job in jobs if job.project == of["project"]]
        own = {job.id for job in jobs}
        runs = [run for run in runs if run["job_id"] in own]
    spans = [_span(start, span, runs, jobs) for start in range(first, now + 1, span)]
    return {
        "span_s": span // SECOND_US,
        "spans": spans,
        "thresholds": _thresholds(thresholds(core.settings)),
        "partial": len(found) >= recent_runs.MAX_RUNS,
    }


def _span(start: int, span: int, runs: Sequence[Run], jobs: Sequence[Job]) -> schemas.Span:
    """One interval of runs, with their jobs."""
    inside = [run for run in runs if start <= run["ended_at"] < start + span]
    by_state = {
        state: sum(run["state"] == state for run in inside)
        for state in ("succeeded", "failed", "timeout", "cancelled")
    }
    judged = len(inside) - by_state["cancelled"]
    lasted = _seconds(run["ended_at"] - run["started_at"] for run in inside if run["started_at"])
    waited = queue_times(inside, jobs)
    return {
        "start": views.utc(start),
        "succeeded": by_state["succeeded"],
        "failed": by_state["failed"],
        "timed_out": by_state["timeout"],
        "cancelled": by_state["cancelled"],
        "success_rate": round(by_state["succeeded"] / judged, 4) if judged else None,
        "p50_s": at_percent(lasted, 50),
        "p95_s": at_percent(lasted, 95),
        "queue_p50_s": at_percent(waited, 50),
        "queue_p95_s": at_percent(waited, 95),
        "cost": sum(run["cost"] for run in inside) / 1_000_000,
    }


def _seconds(spans_us: Iterable[int]) -> list[float]:
    return sorted(each / SECOND_US for each in spans_us)


def _thresholds(marks: Thresholds) -> list[schemas.Threshold]:
    """The values at which the health verdict of the installation changes."""
    low, high = marks.success_degraded_from_percent, marks.success_ok_over_percent
    return [
        {"figure": "success_rate", "ok": high / 100, "degraded": low / 100},
        {"figure": "queue", "ok": marks.queue_ok_below, "degraded": marks.queue_degraded_to},
        {"figure": "blocked", "ok": marks.blocked_ok_below, "degraded": marks.blocked_degraded_to},
        {"figure": "p95_duration_s", "ok": marks.p95_duration_ok_below_s, "degraded": None},
        {"figure": "queue_delay_s", "ok": marks.queue_delay_ok_below_s, "degraded": None},
        {"figure": "failures", "ok": marks.failures_ok_below, "degraded": None},
    ]
