"""Builds the statements for the changes of a batch: one per table, with its rows as one JSON
parameter.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from detent.kernel.entities import Checkpoint, Job, Run, Signal, Step, Task, Wait
from detent.store.codec import EVENT_COLUMNS, event_digest, event_rows, to_json
from detent.store.postgres.connection import Query
from detent.store.postgres.locks import Lock
from detent.store.postgres.reader import READY, SQL
from detent.store.rows import Row, columns, edited, evidence_row, writer
from detent.store.table_names import TOMBSTONES
from detent.store.types import Changes, LoggedEvent, NewEvent

_GIVEN = re.compile(r"\bgiven\.(\w+)")

#: The lane of a queue row, its project and its concurrency key, or an empty text.
Lane = tuple[str, str, str]
#: The lane of delayed jobs: its floor is a time, not a rank.
ASLEEP: Lane = ("", "", "")
#: The lanes with new jobs, and their lowest rank.
Arrivals = dict[Lane, int]


def into(name: str, *fields: str) -> Callable[[Iterable[Row]], Query]:
    """A statement for rows with these fields. A field that a row does not have is omitted."""
    if set(fields) != set(_GIVEN.findall(SQL[name].text)):
        raise ValueError(f"{name} does not take {fields}")
    row_type = msgspec.defstruct(name, [(each, Any, None) for each in fields], omit_defaults=True)
    query = READY[name]
    return lambda rows: query(rows=to_json([row_type(*row) for row in rows]))


def of(name: str, entity: type[Any], *more: str) -> Callable[[Iterable[tuple[Any, ...]]], Query]:
    """The same for entities, each in a tuple with the further columns of its row."""
    taken = set(_GIVEN.findall(SQL[name].text))
    own = [column for column in columns(entity) if column in taken]
    row, query = writer(entity, own), into(name, *own, *more)
    return lambda given: query([(*row(each), *beside) for each, *beside in given])


INSERT_TASKS = of("insert_tasks", Task, "version", "title", "payload", "tags")
UPDATE_TASKS = of("update_tasks", Task, "version")
EDIT_TASKS = into("edit_tasks", "id", "title", "payload", "tags")
DEPENDENCIES = into("insert_dependencies", "task_id", "depends_on")
INSERT_JOBS = of("insert_jobs", Job, "version", "payload")
UPDATE_JOBS = of("update_jobs", Job, "version")
INSERT_RUNS, UPDATE_RUNS = of("insert_runs", Run), of("update_runs", Run)
STEPS, WAITS = of("upsert_steps", Step), of("upsert_waits", Wait)
SIGNALS, CHECKPOINTS = of("upsert_signals", Signal), of("upsert_checkpoints", Checkpoint)
END_WAITS = into("end_waits", "job_id", "name")
PLANS = into("insert_plans", "job_id", "plan_version", "document")
EVIDENCE = into(
    "insert_evidence", *("run_id", "file", "kind", "sha256", "size", "media_type", "at")
)
QUEUE = into(
    "upsert_queue",
    *("job_id", "root_id", "project", "intent", "rank", "due_at", "concurrency_key", "lane"),
    "asleep",
)
LEASES = into("lease_queue", "job_id", "worker", "fence", "lease_until")
DEADLINES = into("upsert_deadlines", "job_id", "due_at")
KEYS = into("upsert_keys", "project", "key", "digest", "answer", "expires_at")
EVENTS = into("insert_events", *EVENT_COLUMNS, "digest")
ARRIVALS = into("insert_arrivals", "lane", "project", "key", "rank")

#: The tables whose rows are deleted with a job, in the order of their references.
PARTS_OF_JOBS = (
    *("waits", "signals", "checkpoints", "steps", "plans", "evidence", "output", "runs"),
    *("queue", "deadlines", "jobs"),
)


def by_ids(name: str, ids: Iterable[str]) -> Query:
    return READY[name](ids=to_json(list(ids)))


def rows_of(changes: Changes, now: int) -> Iterator[Query]:
    """The statements for all rows except events and deletions. Leases come first."""
    if changes.leases:
        yield LEASES(changes.leases)
    yield from _tasks(changes)
    yield from _jobs(changes)
    yield from _parts(changes)
    yield from _queue(changes, now)
    if changes.keys:
        keys = ((*key[:3], to_json(key.answer), key.expires_at) for key in changes.keys)
        yield KEYS(sorted(keys))


def _tasks(changes: Changes) -> Iterator[Query]:
    """Insert new rows in the order of ids, so that two writers of the same rows do not deadlock."""
    versions = changes.versions
    if changes.new_tasks:
        yield INSERT_TASKS(
            (task, versions[task.id], title, to_json(payload), to_json(tags))
            for task, title, payload, tags in sorted(changes.new_tasks, key=lambda new: new.task.id)
        )
        needs = [(new.task.id, each) for new in changes.new_tasks for each in new.task.depends_on]
        if needs:
            yield DEPENDENCIES(needs)
    if changes.tasks:
        yield UPDATE_TASKS((task, versions[task.id]) for task in changes.tasks)
    if changes.edits:
        yield EDIT_TASKS((task_id, *edited(each)) for task_id, each in changes.edits.items())


def _jobs(changes: Changes) -> Iterator[Query]:
    versions = changes.versions
    if changes.new_jobs:
        yield INSERT_JOBS(
            (job, versions[job.id], to_json(payload))
            for job, payload in sorted(changes.new_jobs, key=lambda new: new.job.id)
        )
    if changes.jobs:
        yield UPDATE_JOBS((job, versions[job.id]) for job in changes.jobs)


def _parts(changes: Changes) -> Iterator[Query]:
    for put, entities in (
        (INSERT_RUNS, changes.new_runs),
        (STEPS, changes.steps),
        (WAITS, changes.waits),
        (SIGNALS, changes.signals),
        (CHECKPOINTS, changes.checkpoints),
        (UPDATE_RUNS, changes.runs),
    ):
        if entities:
            yield put(zip(entities))
    if changes.ended_waits:
        yield END_WAITS(changes.ended_waits)
    if changes.unwaited:
        yield by_ids("delete_waits", changes.unwaited)
        yield by_ids("delete_signals", changes.unwaited)
    if changes.plans:
        plans = changes.plans.items()
        yield PLANS((job_id, version, to_json(plan)) for job_id, (version, plan) in plans)
    if changes.evidence:
        # A file that was added twice is stored once, with the last values.
        yield EVIDENCE({row[:2]: row for row in map(evidence_row, changes.evidence)}.values())


def _queue(changes: Changes, now: int) -> Iterator[Query]:
    if changes.queue:
        yield QUEUE((*row, row.due_at > now) for row in changes.queue)
    if changes.unqueued:
        yield by_ids("delete_queue", changes.unqueued)
    standing = [row for row in changes.deadlines if row[1] is not None]
    gone = [job_id for job_id, due_at in changes.deadlines if due_at is None]
    if standing:
        yield DEADLINES(standing)
    if gone:
        yield by_ids("delete_deadlines", gone)


def arrivals_of(changes: Changes, now: int) -> Arrivals:
    """The lanes that get jobs, and their lowest rank."""
    found: Arrivals = {}
    for row in changes.queue:
        asleep = row.due_at > now
        lane = ASLEEP if asleep else (row.lane, row.project, row.concurrency_key or "")
        begin = row.due_at if asleep else row.rank
        found[lane] = min(begin, found.get(lane, begin))
    return found


#: Longer rows are sent before the lock to append is taken.
LONG = 3_000


def appended(
    entries: Sequence[NewEvent], arrivals: Arrivals, deleted: Collection[str] = ()
) -> Iterator[Query]:
    """The last statements of a write, under the lock to append: the log is in commit order.

    The lock and all that follows fit into one write, so that no process can be stopped between.
    """
    if not entries and not arrivals:
        return
    rows: dict[str, Query] = {}
    if entries:
        events = event_rows(entries)
        rows["events"] = EVENTS(_blanked(events, deleted) if deleted else events)
    if arrivals:
        rows["arrivals"] = ARRIVALS((*lane, rank) for lane, rank in arrivals.items())
    given = {name: rows[name].values[0] if name in rows else b"" for name in ("events", "arrivals")}
    if sum(len(each or b"") for each in given.values()) > LONG:
        yield READY["hand_over"](**given)
        rows = {name: query._replace(values=[None]) for name, query in rows.items()}
    yield READY["append_turn"](kind=Lock.APPEND)._replace(exclusive=True)
    yield from rows.values()
    if arrivals:
        # Workers that wait are notified with the commit, without another transaction.
        yield READY["notify"]()


def _blanked(rows: Iterable[Row], deleted: Collection[str]) -> Iterator[Row]:
    """The events, blanked if their work is deleted in the same batch, except tombstones."""
    for row in rows:
        event = LoggedEvent._make((0, *row, None))
        if event.stream not in deleted or event.name in TOMBSTONES:
            yield row
        else:
            yield (*row[:-1], "", f"\\x{event_digest(event).hex()}")
