"""Writes the rows of tasks, jobs, runs and the queue on SQLite, for one save.

A row is in the active table until its task or job has ended, then in the ended one. Payloads never
pass through Python when a row moves. A row that changed after it was loaded refuses the save.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from detent.errors import Broken, Refused
from detent.kernel.entities import Job, Run, Task
from detent.store.codec import to_json
from detent.store.rows import edited, writer
from detent.store.sqlite import leases
from detent.store.sqlite.commit_log import SQL, Appended, changed
from detent.store.sqlite.connection import Connection, array
from detent.store.types import Changes, QueueRow


class Put(NamedTuple):
    """A statement and the function that makes its values; `then` follow the entity's own."""

    text: str
    row: Any

    @classmethod
    def of(cls, name: str, entity: type[Any], *then: str) -> "Put":
        statement = SQL[name]
        own = statement.parameters[: len(statement.parameters) - len(then)]
        if statement.parameters != (*own, *then):
            raise ValueError(f"{name} must end with the parameters {then}")
        return cls(statement.text, writer(entity, own))

    @classmethod
    def of_job_and_run(cls, name: str, *then: str) -> "Put":
        """A statement for a job and the run in its row."""
        statement = SQL[name]
        names = statement.parameters[: len(statement.parameters) - len(then)]
        if statement.parameters != (*names, *then):
            raise ValueError(f"{name} must end with the parameters {then}")
        first = names.index("run_state")
        job = writer(Job, names[:first])
        run = writer(Run, [each.removeprefix("run_") for each in names[first:]])
        return cls(statement.text, lambda a_job, a_run: job(a_job) + run(a_run))


CHECKED = ("version", "commits", "id", "before")
INSERT_TASKS = Put.of("insert_tasks", Task, "version", "title", "payload", "tags", "commits")
INSERT_ENDED_TASKS = Put.of(
    "insert_ended_tasks", Task, "version", "title", "payload", "tags", "commits"
)
UPDATE_TASKS = Put.of("update_tasks", Task, *CHECKED)
END_TASKS = Put.of("end_tasks", Task, *CHECKED)
INSERT_JOBS = Put.of(
    "insert_jobs", Job, "version", "payload", "commits", "lane", "due_at", "asleep"
)
INSERT_ENDED_JOBS = Put.of("insert_ended_jobs", Job, "version", "payload", "commits")
UPDATE_JOBS = Put.of("update_jobs", Job, *CHECKED)
UPDATE_VERSIONS = SQL["update_job_versions"].text
UPDATE_JOBS_WITH_RUNS = Put.of_job_and_run("update_jobs_with_runs", *CHECKED)
CLAIM_JOBS = Put.of_job_and_run("claim_jobs", "lease", *CHECKED)
END_JOBS = Put.of("end_jobs", Job, *CHECKED)
END_JOBS_WITH_RUNS = Put.of_job_and_run("end_jobs_with_runs", *CHECKED)
UPDATE_RUNS = Put.of("update_runs", Run)
UPDATE_ENDED_RUNS = Put.of("update_ended_runs", Run)
UPSERT_RUNS = Put.of("upsert_runs", Run)

USED_IDS, KEEP_RUNS = SQL["used_ids"].text, SQL["keep_runs"].text
QUEUE_JOBS, UNQUEUE_JOBS = SQL["queue_jobs"].text, SQL["unqueue_jobs"].text
DELETE_JOBS = SQL["delete_jobs"].text


class WorkRows:
    """Writes the rows of one save."""

    def __init__(
        self, connection: Connection, changes: Changes, appended: Appended, now: int
    ) -> None:
        self._connection = connection
        self._changes = changes
        self._appended = appended
        self._now = now

    def save(self) -> None:
        changes = self._changes
        self._check_new_ids()
        if changes.new_tasks or changes.tasks or changes.edits:
            self._save_tasks()
        if changes.new_jobs or changes.jobs or changes.new_runs or changes.runs:
            JobRows(self._connection, changes, self._appended, self._now).save()
        elif changes.queue or changes.leases or changes.unqueued:
            JobRows(self._connection, changes, self._appended, self._now).save_queue()

    def _check_new_ids(self) -> None:
        """Refuse ids that a task, a job or deleted work has."""
        new_tasks = [new.task.id for new in self._changes.new_tasks]
        new_jobs = [new.job.id for new in self._changes.new_jobs]
        if not new_tasks and not new_jobs:
            return
        for used, kind in self._connection.all(USED_IDS, (array([*new_tasks, *new_jobs]),)):
            if kind == "task" and used in new_tasks:
                raise Refused("a task with this id already exists", code="task_exists")
            if kind == "job" and used in new_jobs:
                raise Refused("a job with this id already exists", code="job_exists")
            raise changed()

    def _save_tasks(self) -> None:
        changes, many = self._changes, self._connection.many
        for put, is_ended in ((INSERT_TASKS, False), (INSERT_ENDED_TASKS, True)):
            rows = [
                (*put.row(task), *self._new(task.id, title, payload, tags))
                for task, title, payload, tags in changes.new_tasks
                if (task.id in changes.ended) == is_ended
            ]
            if rows:
                many(put.text, rows)
        depending = [
            (new.task.id, each) for new in changes.new_tasks for each in new.task.depends_on
        ]
        if depending:
            many(SQL["insert_dependencies"].text, depending)
        if changes.tasks:
            update(
                self._connection,
                changes,
                self._appended,
                changes.tasks,
                self._put_tasks,
                REOPEN_TASKS,
            )
        if changes.edits:
            rows = [(*edited(each), task_id) for task_id, each in changes.edits.items()]
            many(SQL["edit_tasks"].text, rows)
            many(SQL["edit_ended_tasks"].text, rows)

    def _new(self, stream: str, title: str, payload: Any, tags: tuple[str, ...]) -> tuple[Any, ...]:
        version = self._changes.versions[stream]
        return (version, title, to_json(payload), to_json(tags), self._appended.inline(stream))

    def _put_tasks(self, tasks: Sequence[Task]) -> int:
        """Update active rows or move them; returns how many were found."""
        changes, connection = self._changes, self._connection
        ended = [task for task in tasks if task.id in changes.ended]
        rest = [task for task in tasks if task.id not in changes.ended] if ended else tasks
        before = connection.changed
        for put, some in ((UPDATE_TASKS, rest), (END_TASKS, ended)):
            if some:
                connection.many(put.text, [self._checked(put.row(task), task.id) for task in some])
        found = connection.changed - before
        if ended:
            connection.all(SQL["delete_tasks"].text, (array([task.id for task in ended]),))
        return found

    def _checked(self, row: tuple[Any, ...], stream: str) -> tuple[Any, ...]:
        appended = self._appended
        version, before = self._changes.versions[stream], appended.before.get(stream)
        return (*row, version, appended.inline(stream), stream, before)


class JobRows:
    """Writes the rows of the jobs of one save, with their runs, their queue columns and leases."""

    def __init__(
        self, connection: Connection, changes: Changes, appended: Appended, now: int
    ) -> None:
        self._connection = connection
        self._many = connection.many
        self._changes = changes
        self._appended = appended
        self._now = now
        self._queue = {row.job_id: row for row in changes.queue}
        self._leases: dict[str, int] = {}
        #: The runs that are in the rows of their jobs.
        self._inline: dict[str, Run] = {}
        self._other_runs: list[Run] = []

    def save(self) -> None:
        changes = self._changes
        if changes.new_runs or changes.runs:
            self._sort_runs()
        if changes.new_jobs:
            self._insert()
        if changes.leases:
            self._leases = leases.grant(self._connection, changes.leases)
        if changes.jobs:
            update(self._connection, changes, self._appended, changes.jobs, self._put, REOPEN_JOBS)
        if self._other_runs:
            self._many(UPSERT_RUNS.text, [UPSERT_RUNS.row(run) for run in self._other_runs])
        self._write_queue()

    def save_queue(self) -> None:
        """Write queue columns only."""
        if self._changes.leases:
            self._leases = leases.grant(self._connection, self._changes.leases)
        self._write_queue()

    # -- runs ------------------------------------------------------------------------------

    def _sort_runs(self) -> None:
        """Find the runs that are in the rows of their jobs; others have rows of their own."""
        changes = self._changes
        jobs = [*changes.jobs, *(new.job for new in changes.new_jobs)]
        current = {
            job.id: job.run_id for job in jobs if job.state == "running" or job.id in changes.ended
        }
        for run in (*changes.new_runs, *changes.runs):
            if run.step is None and current.get(run.job_id) == run.id:
                self._inline[run.job_id] = run
            else:
                self._other_runs.append(run)

    # -- jobs ------------------------------------------------------------------------------

    def _insert(self) -> None:
        changes, appended, versions = self._changes, self._appended, self._changes.versions
        active, ended = [], []
        active_row, ended_row = INSERT_JOBS.row, INSERT_ENDED_JOBS.row
        for job, payload in changes.new_jobs:
            common = (versions[job.id], to_json(payload), appended.inline(job.id))
            if job.id in changes.ended:
                ended.append((*ended_row(job), *common))
            else:
                queued = self._queued(self._queue.pop(job.id, None))
                active.append((*active_row(job), *common, *queued))
        if active:
            self._many(INSERT_JOBS.text, active)
        if ended:
            self._many(INSERT_ENDED_JOBS.text, ended)
        if self._inline:
            self._put_first_runs()

    def _put_first_runs(self) -> None:
        """Runs that began in the same save as their jobs."""
        for new in self._changes.new_jobs:
            run = self._inline.pop(new.job.id, None)
            if run is not None:
                put = UPDATE_ENDED_RUNS if new.job.id in self._changes.ended else UPDATE_RUNS
                self._many(put.text, [put.row(run)])

    def _queued(self, row: QueueRow | None) -> tuple[str | None, int | None, bool]:
        if row is None:
            return (None, None, False)
        return (row.lane, row.due_at, row.due_at > self._now)

    def _put(self, jobs: Sequence[Job]) -> int:
        """Update active rows or move them; returns how many were found."""
        self._keep_runs(jobs)
        changes, inline, granted = self._changes, self._inline, self._leases
        rows: dict[str, list[tuple[Any, ...]]] = {}
        ended = []
        for job in jobs:
            run = inline.get(job.id)
            lease = granted.get(job.id)
            if job.id in changes.ended:
                ended.append(job.id)
                put = END_JOBS if run is None else END_JOBS_WITH_RUNS
            elif lease is not None and run is not None:
                row = (*CLAIM_JOBS.row(job, run), lease, *self._checked(job.id))
                rows.setdefault(CLAIM_JOBS.text, []).append(row)
                continue
            elif run is None and job.id in changes.unchanged:
                rows.setdefault(UPDATE_VERSIONS, []).append(self._checked(job.id))
                continue
            else:
                put = UPDATE_JOBS if run is None else UPDATE_JOBS_WITH_RUNS
            values = put.row(job) if run is None else put.row(job, run)
            rows.setdefault(put.text, []).append((*values, *self._checked(job.id)))
        before = self._connection.changed
        for text, some in rows.items():
            self._many(text, some)
        found = self._connection.changed - before
        if ended:
            leases.lower(self._connection, self._connection.all(DELETE_JOBS, (array(ended),)))
        return found

    def _checked(self, stream: str) -> tuple[int, str, str, int | None]:
        appended = self._appended
        version, before = self._changes.versions[stream], appended.before.get(stream)
        return (version, appended.inline(stream), stream, before)

    def _keep_runs(self, jobs: Sequence[Job]) -> None:
        """Copy runs that are removed from rows; those of this save are written anyway."""
        saved = {run.job_id for run in self._other_runs}
        removed = [
            (job.id,)
            for job in jobs
            if job.runs
            and job.state != "running"
            and job.id not in self._changes.ended
            and job.id not in saved
        ]
        if removed:
            self._many(KEEP_RUNS, removed)

    # -- the queue -------------------------------------------------------------------------

    def _write_queue(self) -> None:
        changes = self._changes
        gone = [job_id for job_id in changes.unqueued if job_id not in changes.ended]
        if self._queue or gone:
            leases.release(self._connection, [*self._queue, *gone])
        if self._queue:
            rows = [(*self._queued(row), job_id) for job_id, row in self._queue.items()]
            self._many(QUEUE_JOBS, rows)
        if gone:
            self._connection.all(UNQUEUE_JOBS, (array(gone),))
        claimed = self._changes.jobs
        updated = {job.id for job in claimed if job.id in self._inline}
        apart = [(lease, job) for job, lease in self._leases.items() if job not in updated]
        if apart:
            before = self._connection.changed
            self._many(leases.LEASE_JOBS, apart)
            if self._connection.changed - before != len(apart):
                raise Broken("a job was claimed that is not in the queue: its lease has no row")


class Reopen(NamedTuple):
    """The statements that find ended rows, copy them to the active table, and delete them."""

    find: str
    copy: str
    delete: str


REOPEN_TASKS, REOPEN_JOBS = (
    Reopen(*(SQL[name.format(kind)].text for name in ("ended_{}", "reopen_{}", "delete_ended_{}")))
    for kind in ("tasks", "jobs")
)


def update(
    connection: Connection,
    changes: Changes,
    appended: Appended,
    entities: Sequence[Any],
    put: Callable[[Sequence[Any]], int],
    reopen: Reopen,
) -> None:
    """Write changed rows. Rows of ended work are brought back first; that is rare."""
    ids = [each.id for each in entities]
    if not changes.entries:  # a rebuild: no version says which rows were there before
        _bring_back(
            connection, reopen, [row[0] for row in connection.all(reopen.find, (array(ids),))]
        )
        if put(entities) != len(entities):
            raise changed()
        return
    found = put(entities)
    if found == len(entities):
        return
    rows = connection.all(reopen.find, (array(ids),))
    ended = {row[0] for row in rows if row[-1] == appended.before.get(row[0], row[-1])}
    _bring_back(connection, reopen, ended)
    if found + put([each for each in entities if each.id in ended]) != len(entities):
        raise changed()


def _bring_back(connection: Connection, reopen: Reopen, ids: Collection[str]) -> None:
    if ids:
        connection.all(reopen.copy, (array(ids),))
        connection.all(reopen.delete, (array(ids),))
