"""Builds the statements for the changes of a batch: one per table, its rows as one JSON."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from detent.kernel.entities import Checkpoint, Run, Signal, Step, Wait
from detent.store import commit_body
from detent.store.codec import event_digest, to_json
from detent.store.postgres.connection import Query, Rows
from detent.store.postgres.new_commits import NewCommits
from detent.store.postgres.reader import READY, SQL
from detent.store.postgres.work_rows import JobRows, TaskRows
from detent.store.rows import Row, columns, edited, evidence_row, writer
from detent.store.table_names import TOMBSTONES
from detent.store.types import Changes

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


DEPENDENCIES = into("insert_dependencies", "task_id", "depends_on")
RUNS, CHANGED_RUNS = of("upsert_runs", Run), of("update_runs", Run)
STEPS, WAITS = of("upsert_steps", Step), of("upsert_waits", Wait)
SIGNALS, CHECKPOINTS = of("upsert_signals", Signal), of("upsert_checkpoints", Checkpoint)
END_WAITS = into("end_waits", "job_id", "name")
PLANS = into("insert_plans", "job_id", "plan_version", "document")
EVIDENCE = into(
    "insert_evidence", *("run_id", "file", "kind", "sha256", "size", "media_type", "at")
)
DEADLINES = into("upsert_deadlines", "job_id", "due_at")
KEYS = into("upsert_keys", "project", "key", "digest", "answer", "expires_at")
ARRIVALS = into("insert_arrivals", "lane", "project", "key", "rank")

#: The tables whose rows are deleted with a job, in the order of their references.
PARTS_OF_JOBS = (
    *("waits", "signals", "checkpoints", "steps", "plans", "evidence", "output", "other_runs"),
    "deadlines",
)


def by_ids(name: str, ids: Iterable[str]) -> Query:
    return READY[name](ids=to_json(list(ids)))


def rows_of(changes: Changes, new: NewCommits, was_ended: Collection[str]) -> Iterator[Query]:
    """The statements for all rows except commits and deletions."""
    yield from _tasks(changes, new, was_ended)
    jobs = JobRows(changes, new, was_ended)
    yield from jobs.statements()
    if jobs.loose:
        yield CHANGED_RUNS(zip(jobs.loose))
    yield from _parts(changes, jobs.inline)
    if changes.keys:
        keys = ((*key[:3], to_json(key.answer), key.expires_at) for key in changes.keys)
        yield KEYS(sorted(keys))


def _tasks(changes: Changes, new: NewCommits, was_ended: Collection[str]) -> Iterator[Query]:
    yield from TaskRows(changes, new, was_ended).statements()
    needs = [(row.task.id, each) for row in changes.new_tasks for each in row.task.depends_on]
    if needs:
        yield DEPENDENCIES(needs)
    if changes.edits:
        rows = [
            dict(zip(("id", "title", "payload", "tags"), (task_id, *edited(each)), strict=True))
            for task_id, each in changes.edits.items()
        ]
        for table in ("active_tasks", "ended_tasks"):
            yield READY[f"edit_{table}"](rows=to_json(rows))


def _parts(changes: Changes, inline: Collection[str]) -> Iterator[Query]:
    """The rows of the parts of jobs; runs that are in the row of their job are left out."""
    runs = [run for run in (*changes.new_runs, *changes.runs) if run.id not in inline]
    for put, entities in (
        (RUNS, runs),
        (STEPS, changes.steps),
        (WAITS, changes.waits),
        (SIGNALS, changes.signals),
        (CHECKPOINTS, changes.checkpoints),
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


def arrived(arrivals: Mapping[Lane, int]) -> Iterator[Query]:
    """The statement that tells claimers which lanes got jobs."""
    if arrivals:
        yield ARRIVALS((*lane, rank) for lane, rank in arrivals.items())


def to_blank(rows: Rows, streams: Collection[str]) -> list[Mapping[str, Any]]:
    """The events of these commits whose data is to be replaced by their digests."""
    return [
        {
            "commit": commit,
            "stream": event.stream,
            "version": event.version,
            "digest": event_digest(event).hex(),
        }
        for commit, at, body in rows
        for event in commit_body.decode_streams(body, at, 0, streams)
        if event.digest is None and event.name not in TOMBSTONES
    ]


def deleting(
    task_ids: Sequence[str],
    gone: Sequence[str],
    new: NewCommits,
    blanked: Sequence[Mapping[str, Any]],
) -> Iterator[Query]:
    """The statements that remove the rows of tasks and jobs, and blank their events."""
    jobs = [each for each in gone if each not in task_ids]
    yield by_ids("release_leases", jobs)
    for table in PARTS_OF_JOBS:
        yield by_ids(f"delete_{table}", jobs)
    yield by_ids("delete_dependencies", task_ids)
    stones = [{"id": each, "part": new.part.get(each)} for each in gone]
    yield READY["insert_tombstones"](rows=to_json(stones))
    for table, ids in (("tasks", task_ids), ("jobs", jobs)):
        rows = to_json([{"id": each, "before": new.before.get(each) or None} for each in ids])
        yield READY[f"remove_active_{table}"](rows=rows)
        yield READY[f"remove_ended_{table}"](rows=rows)
    yield READY["blank_events"](rows=to_json(blanked))
