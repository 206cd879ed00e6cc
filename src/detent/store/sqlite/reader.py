"""The read transaction on SQLite: each read is one statement for a set of ids."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan
from detent.kernel.task_lifecycle import TaskLifecycles
from detent.store import list_sql
from detent.store.clock import Moment
from detent.store.codec import from_json
from detent.store.logged_commit import LoggedCommit
from detent.store.read_caches import ReadCaches
from detent.store.rows import ANY_SIZE, END_OF_LOG, job_of_run, read_plan, reader, resource_from
from detent.store.sqlite.commit_log import SQL, LogReader
from detent.store.sqlite.connection import Connection, Rows, array
from detent.store.statements import for_tables
from detent.store.table_names import LAST, TABLES
from detent.store.types import (
    ChainBlock,
    Delivery,
    IdempotencyKey,
    Intake,
    LoggedEvent,
    Query,
    RefusedIntake,
)

NAMED = for_tables(SQL["named_rows"], TABLES)
NAMES = for_tables(SQL["row_names"], TABLES)
NAMED_UNDER = for_tables(SQL["named_rows_under"], TABLES)

#: Statements on active rows, and on ended ones for the ids that were not found.
TASKS, JOBS, PAYLOADS = (
    (SQL[name].text, SQL[f"ended_{name}"].text) for name in ("tasks", "jobs", "payloads")
)
DEPENDENTS, CHILDREN, CHILD_JOBS = (
    SQL[name].text for name in ("dependents", "children", "child_jobs")
)
LIVE_RUNS, STEPS, PLANS = SQL["live_runs"].text, SQL["steps"].text, SQL["plans"].text
WAITS, SIGNALS, KEYS = SQL["waits"].text, SQL["signals"].text, SQL["keys"].text
CHECKPOINTS, JOB_CHECKPOINTS = SQL["checkpoints"].text, SQL["job_checkpoints"].text
IN_USE, RUNS_OF_JOBS = SQL["resources_in_use"].text, SQL["runs_of_jobs"].text

read_task = reader(Task, SQL["tasks"].columns)
read_job = reader(Job, SQL["jobs"].columns)
read_run = reader(Run, SQL["live_runs"].columns)
read_step = reader(Step, SQL["steps"].columns)
read_wait = reader(Wait, SQL["waits"].columns)
read_signal = reader(Signal, SQL["signals"].columns)
read_checkpoint = reader(Checkpoint, SQL["checkpoints"].columns)

#: The condition in SQLite that a JSON list contains a value.
TAG_IN_JSON_EACH = "EXISTS (SELECT 1 FROM json_each({column}) WHERE value = :{value})"


class SqliteReader:
    """Reads within a transaction that the caller has begun."""

    def __init__(self, connection: Connection, moment: Moment, caches: ReadCaches) -> None:
        self._all = connection.all
        self._many = connection.many
        self._now, self._ahead, _ = self._moment = moment
        self._connection = connection
        self._caches = caches

    def lifecycles(self) -> TaskLifecycles:
        return self._caches.lifecycles.seen_by(self)

    @cached_property
    def _log(self) -> LogReader:
        return LogReader(self._connection, self._caches.commits)

    def now(self) -> int:
        return self._now

    def ahead(self) -> int:
        return self._ahead

    def _of(self, text: str, ids: Collection[str]) -> Rows:
        """Execute a statement for a set of ids."""
        return self._all(text, (array(ids),)) if ids else []

    def _either(self, texts: tuple[str, str], ids: Collection[str]) -> Rows:
        """The active rows of these ids, and the ended rows of the others."""
        rows = self._of(texts[0], ids)
        if len(rows) < len(ids):
            known = {row[0] for row in rows}
            rows += self._of(texts[1], [each for each in ids if each not in known])
        return rows

    # -- tasks and jobs --------------------------------------------------------------------

    def tasks(self, ids: Collection[str]) -> list[tuple[Task, int]]:
        return [(read_task(row), row[-1]) for row in self._either(TASKS, ids)]

    def jobs(self, ids: Collection[str]) -> list[tuple[Job, int]]:
        return [(read_job(row), row[-1]) for row in self._either(JOBS, ids)]

    def payloads(self, job_ids: Collection[str]) -> Mapping[str, Any]:
        rows = self._either(PAYLOADS, job_ids)
        return {job_id: None if text == "null" else from_json(text) for job_id, text in rows}

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[Any, ...]]:
        return self._of(DEPENDENTS, task_ids)

    def children(self, task_ids: Collection[str]) -> Iterable[tuple[Any, ...]]:
        return dict.fromkeys(self._of(CHILDREN, task_ids))

    def child_jobs(self, job_ids: Collection[str]) -> Iterable[tuple[Any, ...]]:
        return dict.fromkeys(self._of(CHILD_JOBS, job_ids))

    # -- parts of jobs ---------------------------------------------------------------------

    def live_runs(self, job_ids: Collection[str]) -> list[Run]:
        return [read_run(row) for row in self._of(LIVE_RUNS, job_ids)]

    def runs(self, ids: Collection[str]) -> list[Run]:
        rows = self._of(RUNS_OF_JOBS, list({job_of_run(each): None for each in ids}))
        return [read_run(row) for row in rows if row[0] in ids]

    def used_blobs(self, digests: Collection[str]) -> set[str]:
        return {digest for (digest,) in self._of(SQL["used_blobs"].text, digests)}

    def stored_bytes(self, project: str) -> int:
        [(size,)] = self._all(SQL["stored_bytes"].text, (project,))
        return int(size)

    def steps(self, job_ids: Collection[str]) -> list[Step]:
        return [read_step(row) for row in self._of(STEPS, job_ids)]

    def plans(self, job_ids: Collection[str]) -> Mapping[str, Plan]:
        rows = self._of(PLANS, job_ids)
        return {job_id: read_plan(document) for job_id, document in rows}

    def waits(self, job_ids: Collection[str]) -> list[Wait]:
        return [read_wait(row) for row in self._of(WAITS, job_ids)]

    def signals(self, job_ids: Collection[str]) -> list[Signal]:
        return [read_signal(row) for row in self._of(SIGNALS, job_ids)]

    def checkpoints(self, keys: Collection[tuple[str, str]]) -> list[Checkpoint]:
        return [read_checkpoint(row) for row in self._many(CHECKPOINTS, list(keys))]

    def job_checkpoints(self, job_id: str) -> list[Checkpoint]:
        return [read_checkpoint(row) for row in self._all(JOB_CHECKPOINTS, (job_id,))]

    def resources(self) -> list[Resource]:
        in_use: dict[str, int] = dict(self._all(IN_USE))
        rows = self._all(NAMED["resources"].text)
        return [resource_from(name, from_json(value), in_use.get(name, 0)) for name, value in rows]

    # -- the log, and what is kept beside it -----------------------------------------------

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> list[IdempotencyKey]:
        rows = self._many(KEYS, [(project, key, now) for project, key in keys])
        return [
            IdempotencyKey(project, key, digest, from_json(answer), expires_at)
            for project, key, digest, answer, expires_at in rows
        ]

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> list[LoggedEvent]:
        end = END_OF_LOG if upto is None else upto
        if stream is None:
            return self._log.events(after, limit, end)
        return self._log.stream(stream, after, limit, end)

    def commits(
        self, after: int, limit: int, upto: int | None = None, max_bytes: int | None = None
    ) -> list[LoggedCommit]:
        end = END_OF_LOG if upto is None else upto
        return self._log.commits(after, limit, end, max_bytes or ANY_SIZE)

    def rows(self, table: str) -> Mapping[str, Any]:
        return {name: from_json(value) for name, value in self._all(NAMED[table].text)}

    def row_names(self, table: str) -> list[str]:
        return [name for (name,) in self._all(NAMES[table].text)]

    def rows_under(self, table: str, prefix: str) -> Mapping[str, Any]:
        found = self._all(NAMED_UNDER[table].text, (prefix, f"{prefix}{LAST}"))
        return {name: from_json(value) for name, value in found}

    def head(self) -> int:
        return self._log.head()

    def commit_boundary(self, upto: int) -> int:
        return self._log.boundary(upto)

    def unsequenced(self) -> Sequence[LoggedEvent]:
        return ()

    def version_of(self, stream: str) -> int:
        return self._log.version(stream)

    def intake(self, limit: int) -> list[Intake]:
        return [Intake._make(row) for row in self._all(SQL["intake"].text, (limit,))]

    def refused_intake(self, limit: int) -> list[RefusedIntake]:
        found = self._all(SQL["refused_intake"].text, (limit,))
        return [RefusedIntake._make(row) for row in found]

    def chain_blocks(self, after: int, limit: int) -> list[ChainBlock]:
        return [
            ChainBlock._make(row)
            for row in self._all(SQL["chain_blocks_after"].text, (after, limit))
        ]

    def outbox(self, target: str, limit: int) -> list[Delivery]:
        return [Delivery._make(row) for row in self._all(SQL["outbox"].text, (target, limit))]

    def last_chain_block(self) -> ChainBlock | None:
        rows = self._all(SQL["last_chain_block"].text)
        return ChainBlock._make(rows[0]) if rows else None

    # -- whole tables, and lists for people ------------------------------------------------

    def raw(self, text: str, values: Sequence[Any] = ()) -> Rows:
        """Unconverted rows, for a copy of whole tables."""
        return self._all(text, values)

    def page(self, query: Query) -> Sequence[Mapping[str, Any]]:
        return list_sql.page(self._all, query, TAG_IN_JSON_EACH)

    def count_by(self, query: Query, column: str) -> Mapping[Any, int]:
        return list_sql.count_by(self._all, query, column, TAG_IN_JSON_EACH)
