"""The rows of tasks and jobs of a save: new ones, changed ones, and those of work that has ended.

Active and ended work are in different tables: the rows of work that ends or is reopened move.
"""

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from detent.errors import Broken
from detent.kernel.entities import Job, Run, Task
from detent.store.codec import to_json
from detent.store.postgres.connection import Query
from detent.store.postgres.new_commits import NewCommits
from detent.store.postgres.reader import READY
from detent.store.rows import columns, writer
from detent.store.types import Changes, QueueRow
from detent.store.work_tables import RUN_COLUMNS, RUN_FACTS

#: The changes of a job's place in the queue: it can be claimed, it cannot, a worker holds it.
QUEUE, OUT, LEASE = "queue", "out", "lease"

Place = Mapping[str, Any]


def _row(name: str, *fields: str) -> Callable[..., Any]:
    """The type of a row. A field without a value is omitted."""
    return msgspec.defstruct(name, [(each, Any, None) for each in fields], omit_defaults=True)


TASK_ROW = _row("TaskRow", *columns(Task), "version", "before", "part", "title", "payload", "tags")
JOB_ROW = _row(
    "JobRow",
    *(*columns(Job), "version", "before", "part", "payload", "run", *RUN_COLUMNS),
    *("lane", "due_at", "asleep", "lease_id", "place"),
)
task_values, job_values = writer(Task, columns(Task)), writer(Job, columns(Job))
run_values = writer(Run, RUN_FACTS)


def routes(
    table: str,
    new: Mapping[str, Any],
    changed: Mapping[str, Any],
    ended: Collection[str],
    was_ended: Collection[str],
) -> Iterator[Query]:
    """The statements for rows by id: new ones, changed ones, and those that move.

    New rows are inserted in the order of ids, so that two writers of the same rows do not deadlock.
    """
    for names, rows in (
        ([f"insert_active_{table}"], {k: new[k] for k in sorted(new) if k not in ended}),
        ([f"insert_ended_{table}"], {k: new[k] for k in sorted(new) if k in ended}),
        ([f"update_active_{table}"], _of(changed, lambda k: k not in was_ended and k not in ended)),
        (
            [f"end_{table}", f"remove_active_{table}"],
            _of(changed, lambda k: k not in was_ended and k in ended),
        ),
        ([f"update_ended_{table}"], _of(changed, lambda k: k in was_ended and k in ended)),
        (
            [f"return_{table}", f"remove_ended_{table}"],
            _of(changed, lambda k: k in was_ended and k not in ended),
        ),
    ):
        if rows:
            text = to_json(list(rows.values()))
            for name in names:
                yield READY[name](rows=text)


def _of(rows: Mapping[str, Any], chosen: Callable[[str], bool]) -> dict[str, Any]:
    return {key: row for key, row in rows.items() if chosen(key)}


class TaskRows:
    """The rows of the tasks of a save."""

    def __init__(self, changes: Changes, new: NewCommits, was_ended: Collection[str]) -> None:
        self._changes, self._new, self._was_ended = changes, new, was_ended

    def statements(self) -> Iterator[Query]:
        changes = self._changes
        made = {
            row.task.id: self._row(row.task, row.title, to_json(row.payload), to_json(row.tags))
            for row in changes.new_tasks
        }
        changed = {task.id: self._row(task) for task in changes.tasks}
        yield from routes("tasks", made, changed, changes.ended, self._was_ended)

    def _row(self, task: Task, *texts: str) -> Any:
        new = self._new
        versions = (self._changes.versions[task.id], new.before.get(task.id))
        return TASK_ROW(*task_values(task), *versions, new.part.get(task.id), *texts)


class JobRows:
    """The rows of the jobs of a save, with their last runs and their places in the queue."""

    def __init__(self, changes: Changes, new: NewCommits, was_ended: Collection[str]) -> None:
        self._changes, self._new, self._was_ended = changes, new, was_ended
        self._jobs = {job.id: job for job in changes.jobs}
        self._made = {row.job.id: row.job for row in changes.new_jobs}
        self._runs: dict[str, Run] = {}
        for run in (*changes.new_runs, *changes.runs):
            job = self._jobs.get(run.job_id) or self._made.get(run.job_id)
            if job is None:
                raise Broken(f"The run {run.id} was changed without its job.")
            known = job.state == "running" or job.id in changes.ended
            if known and job.run_id == run.id and run.step is None:
                self._runs[job.id] = run
        #: The ids of the runs that are in the row of their job, and changed runs of ended jobs that
        #: may be in a row of their own, because the job had been waiting or is ended already.
        self.inline = {run.id for run in self._runs.values()}
        self._new_runs = {run.id for run in changes.new_runs}
        self.loose = [
            run
            for job_id, run in self._runs.items()
            if run.id not in self._new_runs and self._may_be_loose(job_id)
        ]

    def statements(self) -> Iterator[Query]:
        changes = self._changes
        leases = self._leases()
        places = self._places(leases)
        if leases:
            yield READY["insert_leases"](rows=to_json(list(leases.values())))
        released = [
            each
            for each, place in places.items()
            if place["place"] != LEASE and each not in self._made
        ]
        released += [each for each in changes.ended if each in self._jobs and each not in places]
        released = [each for each in released if each not in self._was_ended]
        if released:
            yield READY["release_leases"](ids=to_json(sorted(set(released))))
        yield from self._kept_runs()
        payloads = {row.job.id: to_json(row.payload) for row in changes.new_jobs}
        made = {each: self._row(job, places, payloads[each]) for each, job in self._made.items()}
        changed = {each: self._row(job, places) for each, job in self._jobs.items()}
        yield from routes("jobs", made, changed, changes.ended, self._was_ended)
        loose = [
            {"id": each, **place}
            for each, place in places.items()
            if each not in made and each not in changed
        ]
        if loose:
            yield READY["place_jobs"](rows=to_json(loose))

    def _leases(self) -> dict[tuple[str, int], dict[str, Any]]:
        """One lease for the jobs that a worker claims together."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for job_id, worker, _, until in self._changes.leases:
            lease = found.setdefault(
                (worker, until),
                {"id": secrets.randbits(62), "worker": worker, "until": until, "jobs": []},
            )
            lease["jobs"].append(job_id)
        return found

    def _places(self, leases: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[str, Place]:
        now = self._new.at
        places: dict[str, Place] = {row.job_id: _queued(row, now) for row in self._changes.queue}
        places.update((job_id, {"place": OUT}) for job_id in self._changes.unqueued)
        for lease in leases.values():
            places.update(
                (job_id, {"place": LEASE, "lease_id": lease["id"]}) for job_id in lease["jobs"]
            )
        return places

    def _may_be_loose(self, job_id: str) -> bool:
        job = self._jobs.get(job_id)
        return (
            job is not None
            and job_id in self._changes.ended
            and (job_id in self._was_ended or job.waited or job.runs > 1)
        )

    def _kept_runs(self) -> Iterator[Query]:
        """Copy the run in the row of each job that is not running any more, or whose next run
        begins.
        """
        rows = []
        for job in self._jobs.values():
            if job.state == "running":
                if job.runs > (job.id in self._runs):
                    rows.append({"id": job.id, "run_id": job.run_id})
            elif job.runs and job.id not in self._changes.ended:
                rows.append({"id": job.id, "run_id": None})
        if rows:
            yield READY["keep_runs"](rows=to_json(rows))

    def _row(self, job: Job, places: Mapping[str, Place], payload: str | None = None) -> Any:
        new, run, job_id = self._new, self._runs.get(job.id), job.id
        versions = (self._changes.versions[job_id], new.before.get(job_id), new.part.get(job_id))
        facts: Sequence[Any] = [None] * len(RUN_FACTS) if run is None else run_values(run)
        sure = job.state == "running" or (run is not None and run.id in self._new_runs)
        has_run = None if run is None else sure
        place = places.get(job_id, {})
        return JOB_ROW(*job_values(job), *versions, payload, has_run, *facts, **place)


def _queued(row: QueueRow, now: int) -> Place:
    return {"place": QUEUE, "lane": row.lane, "due_at": row.due_at, "asleep": row.due_at > now}
