"""The work that needs workers now or soon, by intent: what an autoscaler decides by.

Work that a worker holds counts too, so that the last worker is not stopped while it works. Work
that is paused by intent, or by a pause of everything, needs no worker and is not counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from detent.operations.context import Core
from detent.store.port import ReadTransaction
from detent.store.types import Query

#: Work that becomes due within this time is counted: a new worker takes as long to start.
DUE_SOON_US = 60_000_000
#: How many waits are read to find their intents; there may be more that are due soon.
MAX_WAITS = 1_000


class Workload(NamedTuple):
    """Numbers of jobs by intent."""

    #: Jobs that a worker could claim now.
    queued: Mapping[str, int]
    #: Jobs that a worker has claimed, also if the worker is lost.
    held: Mapping[str, int]
    #: Delayed jobs, retries, waits and schedules that become due within `DUE_SOON_US`.
    due_soon: Mapping[str, int]

    def totals(self) -> dict[str, int]:
        """The number of jobs of each kind, of all intents."""
        return {kind: sum(counts.values()) for kind, counts in self._asdict().items()}


def workload(core: Core) -> Workload:
    """The work that needs workers, counted now."""
    with core.store.read() as view:
        now, limits = view.now(), view.rows("limits")
        free = view.count_by(Query("queue", {"worker": None, "due_at": ("<=", now)}), "intent")
        later = view.count_by(
            Query("queue", {"worker": None, "due_at": ("<=", now + DUE_SOON_US)}), "intent"
        )
        every = view.count_by(Query("queue"), "intent")
        unclaimed = view.count_by(Query("queue", {"worker": None}), "intent")
        timers = Counter([*_waits(view, now), *_schedules(view, now)])
    due_soon = Counter(later) - Counter(free) + timers
    return Workload(
        _startable(free, limits), Counter(every) - Counter(unclaimed), _startable(due_soon, limits)
    )


def _waits(view: ReadTransaction, now: int) -> Iterable[str]:
    """The intent of each job whose wait ends soon."""
    due = Query("waits", {"due_at": ("<=", now + DUE_SOON_US)}, "due_at", limit=MAX_WAITS)
    jobs = {row["job_id"] for row in view.page(due)}
    return [job.intent for job, _ in view.jobs(sorted(jobs))]


def _schedules(view: ReadTransaction, now: int) -> Iterable[str]:
    """The intent of each schedule that fires soon."""
    for row in view.rows("schedules").values():
        next_at = row.get("next_at")
        if not row.get("paused") and next_at is not None and next_at <= now + DUE_SOON_US:
            yield str(row["intent"])


def _startable(counts: Mapping[str, int], limits: Mapping[str, Any]) -> Mapping[str, int]:
    def paused(name: str) -> bool:
        return bool(limits.get(name, {}).get("paused"))

    if paused("all"):
        return {}
    return {name: count for name, count in counts.items() if not paused(f"intent:{name}")}
