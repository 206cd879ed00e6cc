"""Recently ended runs, a bounded number, newest first, for statistics and charts. Reads only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from detent.kernel.entities import Job
from detent.store.port import ReadTransaction
from detent.store.types import Query

#: The maximum number of runs that are read, and the number read in one query.
MAX_RUNS = 10_000
PAGE = 1_000

Run = Mapping[str, Any]


def ended_since(view: ReadTransaction, since: int) -> list[Run]:
    """The runs that ended since a time, at most `MAX_RUNS`."""
    found: list[Run] = []
    after = None
    while len(found) < MAX_RUNS:
        where = {"ended_at": (">=", since)}
        page = view.page(Query("runs", where, "ended_at", True, after, PAGE))
        found += page
        if len(page) < PAGE:
            break
        after = (page[-1]["ended_at"], page[-1]["id"])
    return found


def jobs_of(view: ReadTransaction, runs: Sequence[Run]) -> Iterator[Job]:
    ids = sorted({run["job_id"] for run in runs})
    for at in range(0, len(ids), PAGE):
        yield from (job for job, _ in view.jobs(ids[at : at + PAGE]))


def queue_times(runs: Iterable[Run], jobs: Iterable[Job]) -> list[float]:
    """How long the jobs of runs were queued until the claim, in seconds, sorted.

    The time of an earlier run is unknown after its job was queued again.
    """
    queued = {job.id: job.queued_at for job in jobs}
    return sorted(
        (run["queued_at"] - queued[run["job_id"]]) / 1_000_000
        for run in runs
        if run["queued_at"] >= queued.get(run["job_id"], run["queued_at"] + 1)
    )


def at_percent(ordered: Sequence[float], percent: int) -> float | None:
    """The percentile of sorted values; None without values."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)
    return round(ordered[max(rank, 1) - 1], 3)
