"""The write transaction on SQLite: `save` turns the changes of a batch into rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from detent.errors import Broken, DetentError, Refused
from detent.kernel.entities import Checkpoint, Job, Run, Signal, Step, Task, Wait
from detent.store import clock
from detent.store.clock import Moment
from detent.store.codec import event_digest, event_rows, to_json
from detent.store.rows import edited, evidence_row, writer
from detent.store.sqlite.claims import claimable
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.error_mapping import explained
from detent.store.sqlite.reader import SQL, SqliteReader
from detent.store.statements import for_tables
from detent.store.table_names import REBUILT, TABLES
from detent.store.types import (
    Candidate,
    ChainBlock,
    Changes,
    ClaimFilter,
    Delivery,
    DueTimers,
    LoggedEvent,
)


class Put(NamedTuple):
    """A statement and what makes its values from an entity; `then` stand after the entity's own."""

    text: str
    row: Any

    @classmethod
    def of(cls, name: str, entity: type[Any], *then: str) -> "Put":
        statement = SQL[name]
        own = statement.parameters[: len(statement.parameters) - len(then)]
        if statement.parameters != (*own, *then):
            raise ValueError(f"{name} must end with the parameters {then}")
        return cls(statement.text, writer(entity, own))


INSERT_TASKS = Put.of("insert_tasks", Task, "version", "title", "payload", "tags")
UPDATE_TASKS = Put.of("update_tasks", Task, "version", "id")
INSERT_JOBS = Put.of("insert_jobs", Job, "version", "payload")
UPDATE_JOBS = Put.of("update_jobs", Job, "version", "id")
INSERT_RUNS = Put.of("insert_runs", Run)
UPDATE_RUNS = Put.of("update_runs", Run)
STEPS = Put.of("upsert_steps", Step)
WAITS = Put.of("upsert_waits", Wait)
SIGNALS = Put.of("upsert_signals", Signal)
CHECKPOINTS = Put.of("upsert_checkpoints", Checkpoint)

EVENTS, QUEUE, LEASE = SQL["insert_events"].text, SQL["upsert_queue"].text, SQL["lease_queue"].text
RENEW, TO_BLANK, BLANK = (SQL[name].text for name in ("renew", "events_to_blank", "blank_events"))
RENEW_CLOCK = SQL["renew_clock"].text
RUNNING_BY = {kind: SQL[f"running_by_{kind}"].text for kind in ("intent", "project", "key")}
PUT_NAMED = for_tables(SQL["put_named"], TABLES)
REMOVE_NAMED = for_tables(SQL["remove_named"], TABLES)
CLEAR_ROWS = for_tables(SQL["clear_rows"], REBUILT)

#: What is removed with a job, in an order in which nothing is needed after it is gone.
PARTS_OF_JOBS = [
    SQL[f"delete_{table}"].text
    for table in (
        *("waits", "signals", "checkpoints", "steps", "plans", "evidence", "runs"),
        *("queue", "deadlines", "jobs"),
    )
]


class SqliteWriter(SqliteReader):
    """Writes within a transaction; SQLite has one writer at a time."""

    def __init__(self, connection: Connection, moment: Moment, where: str) -> None:
        super().__init__(connection, moment)
        self._connection = connection
        self._where = where
        #: Whether the row of the clock was seen to.
        self._noted = False
        #: Why a save failed. What it had written by then must not be committed.
        self.failed: DetentError | None = None
        self.appended = False

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """The write lock covers everything."""

    # -- the queue -------------------------------------------------------------------------

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        return claimable(self._connection, claim_filter, limit, now)

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        running = {}
        for key in keys:
            kind, _, name = key.partition(":")
            running[key] = self._all(RUNNING_BY[kind], (name,))[0][0]
        return running

    def due(self, limit: int, now: int) -> DueTimers:
        values = (now, limit)
        return DueTimers(
            leases=self._all(SQL["due_leases"].text, values),
            waits=self._all(SQL["due_waits"].text, values),
            deadlines=[row[0] for row in self._all(SQL["due_deadlines"].text, values)],
        )

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        self._note_time()
        rows = [(until, job_id, fence, worker) for job_id, fence in grants]
        return set(self._many(RENEW, rows))

    def reset_clock(self) -> int:
        ahead = self._ahead
        if ahead:
            row = clock.reset(self._moment, self.head())
            self._all(
                PUT_NAMED["system_state"].text, (clock.CLOCK, to_json(row), self._now - ahead)
            )
            self._all(SQL["shift_leases"].text, (ahead,))
        return ahead

    def _note_time(self) -> None:
        """What is written without an event may be due at some time: the clock goes on from now."""
        row = None if self._noted else clock.renewed(self._moment)
        self._noted = True
        if row is not None:
            self._all(RENEW_CLOCK, (row, self._now, self._moment.written.row))

    # -- saving ----------------------------------------------------------------------------

    def rows_for_update(self, table: str) -> Mapping[str, Any]:
        return self.rows(table)

    def rows_held(self, table: str) -> Mapping[str, Any]:
        return self.rows(table)

    def put_rows(self, table: str, rows: Mapping[str, Any]) -> None:
        self._note_time()
        for name, value in rows.items():
            if value is None:
                self._all(REMOVE_NAMED[table].text, (name,))
            else:
                self._all(PUT_NAMED[table].text, (name, to_json(value), self._now))

    def save(self, changes: Changes) -> None:
        try:
            self._save_tasks(changes)
            self._save_jobs(changes)
            self._save_parts(changes)
            self._save_queue(changes)
            self.put_rows("limits", changes.limits)
            if changes.keys:
                self._save_keys(changes)
            self._many(EVENTS, event_rows(changes.entries))
            self.appended = self.appended or bool(changes.entries)
            if changes.deleted_tasks or changes.deleted_jobs:
                self._forget(changes.deleted_tasks, changes.deleted_jobs)
        except apsw.Error as error:
            self.failed = explained(error, self._where)
            raise self.failed from error
        except DetentError as error:
            self.failed = error
            raise

    # -- intake, outbox, chain blocks, and removal of rows and events --------------------

    def put_intake(self, operation: str, body: str, idempotency_key: str | None = None) -> None:
        self._all(SQL["put_intake"].text, (operation, body, idempotency_key))

    def end_intake(self, taken: Collection[int], refused: Mapping[int, str]) -> None:
        for number in taken:
            self._all(SQL["delete_intake"].text, (number,))
        for number, reason in refused.items():
            self._all(SQL["refuse_intake"].text, (reason, self._now, number))

    def delete_expired_keys(self, now: int, limit: int) -> int:
        before = self._connection.changed
        self._all(SQL["delete_expired_keys"].text, (now, limit))
        return self._connection.changed - before

    def put_outbox(self, rows: Sequence[Delivery]) -> None:
        self._note_time()
        self._many(SQL["insert_outbox"].text, [row[1:6] for row in rows])

    def update_outbox(self, rows: Sequence[Delivery]) -> None:
        self._note_time()
        values = [(row.due_at, row.attempts, row.error, row.id) for row in rows]
        self._many(SQL["update_outbox"].text, values)

    def delete_outbox(self, ids: Collection[int]) -> None:
        self._many(SQL["delete_outbox"].text, [(each,) for each in ids])

    def put_chain_block(self, block: ChainBlock) -> None:
        last = self.last_chain_block()
        if last is not None and block.from_position <= last.to_position:
            raise Refused("another process has written this chain block", code="version_conflict")
        self._all(SQL["insert_chain_block"].text, block)

    def clear_rows(self) -> None:
        for statement in CLEAR_ROWS.values():
            self._all(statement.text)

    def trim(self, upto: int) -> int:
        before = self._connection.changed
        self._all(SQL["trim_events"].text, (upto,))
        return self._connection.changed - before

    # -- rows ------------------------------------------------------------------------------

    def _save_tasks(self, changes: Changes) -> None:
        versions = changes.versions
        if changes.new_tasks:
            text, row = INSERT_TASKS
            self._many(
                text,
                [
                    (*row(task), versions[task.id], title, to_json(payload), to_json(tags))
                    for task, title, payload, tags in changes.new_tasks
                ],
            )
            self._many(
                SQL["insert_dependencies"].text,
                [(new.task.id, each) for new in changes.new_tasks for each in new.task.depends_on],
            )
        if changes.tasks:
            text, row = UPDATE_TASKS
            self._many(text, [(*row(task), versions[task.id], task.id) for task in changes.tasks])
        if changes.edits:
            self._many(
                SQL["edit_tasks"].text,
                [(*edited(each), task_id) for task_id, each in changes.edits.items()],
            )

    def _save_jobs(self, changes: Changes) -> None:
        versions = changes.versions
        if changes.new_jobs:
            text, row = INSERT_JOBS
            self._many(
                text,
                [
                    (*row(job), versions[job.id], to_json(payload))
                    for job, payload in changes.new_jobs
                ],
            )
        if changes.jobs:
            text, row = UPDATE_JOBS
            self._many(text, [(*row(job), versions[job.id], job.id) for job in changes.jobs])

    def _save_parts(self, changes: Changes) -> None:
        for put, entities in (
            (INSERT_RUNS, changes.new_runs),
            (STEPS, changes.steps),
            (WAITS, changes.waits),
            (SIGNALS, changes.signals),
            (CHECKPOINTS, changes.checkpoints),
            (UPDATE_RUNS, changes.runs),
        ):
            if entities:
                self._many(put.text, [put.row(entity) for entity in entities])
        if changes.ended_waits:
            self._many(SQL["end_waits"].text, changes.ended_waits)
        if changes.unwaited:
            self._of(SQL["delete_waits"].text, changes.unwaited)
            self._of(SQL["delete_signals"].text, changes.unwaited)
        if changes.plans:
            plans = changes.plans.items()
            rows = [(job_id, version, to_json(plan)) for job_id, (version, plan) in plans]
            self._many(SQL["insert_plans"].text, rows)
        if changes.evidence:
            self._many(
                SQL["insert_evidence"].text, [evidence_row(each) for each in changes.evidence]
            )

    def _save_queue(self, changes: Changes) -> None:
        now = self._now
        if changes.queue:
            self._many(QUEUE, [(*row, row.due_at > now) for row in changes.queue])
        if changes.leases:
            before = self._connection.changed
            self._many(
                LEASE, [(worker, fence, until, job) for job, worker, fence, until in changes.leases]
            )
            if self._connection.changed - before != len(changes.leases):
                raise Broken("a job was claimed that is not in the queue: its lease has no row")
        if changes.unqueued:
            self._of(SQL["delete_queue"].text, changes.unqueued)
        if changes.deadlines:
            standing = [row for row in changes.deadlines if row[1] is not None]
            gone = [row[0] for row in changes.deadlines if row[1] is None]
            self._many(SQL["upsert_deadlines"].text, standing)
            self._of(SQL["delete_deadlines"].text, gone)

    def _save_keys(self, changes: Changes) -> None:
        rows = [(*key[:3], to_json(key.answer), key.expires_at) for key in changes.keys]
        self._many(SQL["upsert_keys"].text, rows)

    # -- forgetting ------------------------------------------------------------------------

    def _forget(self, task_ids: Sequence[str], job_ids: Sequence[str]) -> None:
        """Remove rows, and blank what their events said; digests keep the chain whole."""
        jobs = [*job_ids, *(row[0] for row in self._of(SQL["jobs_of_task"].text, task_ids))]
        for text in PARTS_OF_JOBS:
            self._of(text, jobs)
        for name in ("delete_dependencies", "delete_tasks"):
            self._of(SQL[name].text, task_ids)
        events = map(LoggedEvent._make, self._of(TO_BLANK, [*task_ids, *jobs]))
        self._many(BLANK, [(event_digest(event), event.position) for event in events])
