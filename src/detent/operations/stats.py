"""Statistics over a time window, from a bounded number of runs; and the `system_state` values."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from detent import views
from detent.engine.concurrency_limits import RATE_PREFIX
from detent.errors import Invalid, Refused
from detent.operations import recent_runs, schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.leader_election import CURSORS, LEADER_ROLES
from detent.operations.process_registry import PROCESS_PREFIX
from detent.operations.recent_runs import Run, at_percent
from detent.operations.registry import Caller, Scope, operation
from detent.operations.resources import require_all_projects
from detent.store.clock import CLOCK
from detent.store.stale_reads import read_stale
from detent.store.table_names import CHAINED_POSITION, LATE_BLOCKS, REPLICA_ROW, TRIMMED
from detent.store.types import Query

HOUR_US = 3_600_000_000
S_US = 1_000_000
MAX_HOURS = 31 * 24
ENDED = ("succeeded", "failed", "timeout", "cancelled")
#: The row that a gateway writes to check whether the store accepts writes.
PROBE = "ready"
#: Rows through which detent's processes coordinate. Users may not set them.
RESERVED_ROWS = (
    *(*LEADER_ROLES, *CURSORS, TRIMMED, CLOCK, CHAINED_POSITION, LATE_BLOCKS, PROBE),
    REPLICA_ROW,
    *("run_counts", "retention_cursors", "slack_status"),
)

#: The allowed names of values that users set.
STATE_KEY = re.compile(r"[a-z][a-z0-9_]{0,99}")
STATE_KEY_FORM = "a lower-case letter, then at most 99 lower-case letters, digits or _"


@operation(Scope.READ, "GET", "/api/stats")
def stats(
    core: Core, caller: Caller, *, hours: int = 24, project: str | None = None
) -> schemas.Stats:
    """Show throughput, success rate, durations, cost per day and the age of the queue."""
    if not 1 <= hours <= MAX_HOURS:
        raise Invalid(
            f"hours must be from 1 to {MAX_HOURS}, not {hours}.", field="hours", given=hours
        )
    of = of_project(caller, {}, project)
    with read_stale(core.store) as view:
        now = view.now()
        runs = recent_runs.ended_since(view, now - hours * HOUR_US)
        read = len(runs)
        if of:
            jobs = recent_runs.jobs_of(view, runs)
            own = {job.id for job in jobs if job.project == of["project"]}
            runs = [run for run in runs if run["job_id"] in own]
        waiting = view.count_by(Query("jobs", {**of, "state": "queued"}), "state")
        oldest = view.page(Query("jobs", {**of, "state": "queued"}, "queued_at", limit=1))
    counted = [run for run in runs if run["outcome"] != "suspended"]
    by_state = {state: sum(run["state"] == state for run in counted) for state in ENDED}
    return {
        "hours": hours,
        "ended": len(counted),
        "per_hour": round(len(counted) / hours, 3),
        "by_state": by_state,
        "success_rate": _success_rate(by_state),
        "durations": _durations(counted),
        "cost_per_day": _costs(runs),
        "queued": sum(waiting.values()),
        "oldest_queued_s": (now - oldest[0]["queued_at"]) / S_US if oldest else None,
        "looked_at": read,
        "partial": read >= recent_runs.MAX_RUNS,
    }


def _success_rate(by_state: Mapping[str, int]) -> float | None:
    """The share of succeeded runs among those that succeeded, failed or timed out."""
    judged = by_state["succeeded"] + by_state["failed"] + by_state["timeout"]
    return round(by_state["succeeded"] / judged, 4) if judged else None


def _durations(runs: Sequence[Run]) -> schemas.Durations:
    lasted = sorted(
        (run["ended_at"] - run["started_at"]) / S_US
        for run in runs
        if run["started_at"] is not None
    )
    return {
        "p50_s": at_percent(lasted, 50),
        "p95_s": at_percent(lasted, 95),
        "mean_s": round(sum(lasted) / len(lasted), 3) if lasted else None,
    }


def _costs(runs: Sequence[Run]) -> list[schemas.DayCost]:
    days: dict[str, list[int]] = {}
    for run in runs:
        days.setdefault(views.utc(run["ended_at"])[:10], []).append(run["cost"])
    return [
        {"day": day, "cost": sum(costs) / S_US, "runs": len(costs)}
        for day, costs in sorted(days.items())
    ]


# ---- the installation's state ----------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/state")
def show_state(core: Core, caller: Caller) -> schemas.StateValues:
    """Show the values of the installation's state, by name."""
    require_all_projects(caller, "the whole installation's state")
    with core.store.read() as view:
        return {"values": dict(view.rows("system_state"))}


@operation(Scope.OPERATE, "PUT", "/api/state/{name}")
def set_state(core: Core, caller: Caller, *, name: str, value: Any = None) -> schemas.StateValues:
    """Set a value of the installation's state; null deletes it."""
    require_all_projects(caller, "the whole installation's state")
    if name in RESERVED_ROWS or name.startswith((RATE_PREFIX, PROCESS_PREFIX)):
        raise Refused(
            f"{name!r} is reserved for detent and cannot be set.",
            hint="Choose another name; see `detent state get`.",
        )

    with core.store.read() as view:
        may_delete = value is None and name in view.rows("system_state")
    if not may_delete and not STATE_KEY.fullmatch(name):
        raise Invalid(
            f"name must be {STATE_KEY_FORM}, not {name!r}.",
            field="name",
            given=name,
            allowed=(STATE_KEY_FORM,),
        )

    core.engine.transaction(lambda tx: tx.put_rows("system_state", {name: value}))
    return {"values": {name: value}}
