"""Leases on SQLite: jobs that a worker has claimed together have one row, with one time."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from detent.store.codec import to_json
from detent.store.sqlite.commit_log import SQL
from detent.store.sqlite.connection import Connection, Rows, array
from detent.store.types import LeaseRow

INSERT, LEASES_OF, LEASED = (SQL[name].text for name in ("insert_lease", "leases_of", "leased"))
LOWER, DELETE, EXTEND = (
    SQL[name].text for name in ("lower_leases", "delete_leases", "extend_leases")
)
LEASE_JOBS, RUNNING = SQL["lease_jobs"].text, SQL["running"].text
RUNNING_BY_KEY = SQL["running_by_key"].text


def grant(connection: Connection, rows: Iterable[LeaseRow]) -> dict[str, int]:
    """Write a lease for each worker and time; returns the id of the lease of each job."""
    together: dict[tuple[str, int], list[str]] = {}
    for job_id, worker, _, until in rows:
        together.setdefault((worker, until), []).append(job_id)
    return {
        job_id: lease_id
        for (worker, until), jobs in together.items()
        for lease_id in [insert(connection, worker, until, jobs)]
        for job_id in jobs
    }


def insert(connection: Connection, worker: str, until: int, jobs: Sequence[str]) -> int:
    values = (worker, until, len(jobs), to_json(jobs))
    lease_id: int = connection.all(INSERT, values)[0][0]
    return lease_id


def release(connection: Connection, job_ids: Collection[str]) -> None:
    """Take jobs out of their leases; the caller writes their rows."""
    if job_ids:
        lower(connection, connection.all(LEASES_OF, (array(job_ids),)))


def lower(connection: Connection, released: Rows) -> None:
    """Count leases down by the rows with their ids; delete those that hold no job any more."""
    counts = Counter(lease_id for (lease_id,) in released if lease_id is not None)
    for lease_id, count in counts.items():
        connection.all(LOWER, (count, lease_id))
        connection.all(DELETE, (lease_id,))


def renew(
    connection: Connection, worker: str, grants: Sequence[tuple[str, int]], until: int
) -> set[tuple[str, int]]:
    """Extend leases. Jobs that are not named keep their time, in a lease of their own."""
    fences = dict(grants)
    found = connection.many(LEASED, [(*each, worker) for each in grants])
    held: dict[int, list[str]] = {}
    for lease_id, job_id in found:
        held.setdefault(lease_id, []).append(job_id)
    for lease_id, jobs in held.items():
        if not connection.all(EXTEND, (until, lease_id, len(jobs))):
            _divide(connection, worker, lease_id, jobs, until)
    return {(job_id, fences[job_id]) for _, job_id in found}


def _divide(
    connection: Connection, worker: str, lease_id: int, jobs: Sequence[str], until: int
) -> None:
    apart = insert(connection, worker, until, jobs)
    connection.many(LEASE_JOBS, [(apart, job_id) for job_id in jobs])
    lower(connection, [(lease_id,)] * len(jobs))


def counts(connection: Connection, keys: Collection[str]) -> Mapping[str, int]:
    """The number of leased jobs under each key: `intent:NAME`, `project:NAME`, `key:NAME`."""
    running: Counter[str] = Counter()
    if any(not key.startswith("key:") for key in keys):
        for intent, project, count in connection.all(RUNNING):
            running[f"intent:{intent}"] += count
            running[f"project:{project}"] += count
    for key in keys:
        if key.startswith("key:"):
            running[key] = connection.all(RUNNING_BY_KEY, (key[4:],))[0][0]
    return {key: running[key] for key in keys}
