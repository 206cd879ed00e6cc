"""The write transaction on SQLite: `save` turns the changes of a batch into rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import apsw

from detent.errors import DetentError, Refused
from detent.kernel.entities import Checkpoint, Signal, Step, Wait
from detent.store import clock
from detent.store.clock import Moment
from detent.store.codec import to_json
from detent.store.read_caches import ReadCaches
from detent.store.rows import evidence_row
from detent.store.sqlite import leases
from detent.store.sqlite.claims import claimable
from detent.store.sqlite.commit_log import (
    SQL,
    STREAM_COMMITS,
    STREAMS,
    Appended,
    append,
    blank,
    changed,
    ids_in,
    index_streams,
    trim,
)
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.error_mapping import explained
from detent.store.sqlite.reader import SqliteReader
from detent.store.sqlite.set_rows import SqliteJobSets
from detent.store.sqlite.work_rows import Put, WorkRows
from detent.store.statements import for_tables
from detent.store.table_names import TABLES
from detent.store.types import (
    Candidate,
    ChainBlock,
    Changes,
    ClaimFilter,
    Delivery,
    DueTimers,
)

STEPS = Put.of("upsert_steps", Step)
WAITS = Put.of("upsert_waits", Wait)
SIGNALS = Put.of("upsert_signals", Signal)
CHECKPOINTS = Put.of("upsert_checkpoints", Checkpoint)

RENEW_CLOCK, JOBS_OF_TASK = SQL["renew_clock"].text, SQL["jobs_of_task"].text
#: Tables whose rows are derived from the log; a rebuild writes them again.
CLEARED = (
    *("active_tasks", "ended_tasks", "dependencies", "active_jobs", "ended_jobs", "other_runs"),
    *("evidence", "plans", "steps", "waits", "signals", "checkpoints", "leases", "deadlines"),
)
PUT_NAMED = for_tables(SQL["put_named"], TABLES)
REMOVE_NAMED = for_tables(SQL["remove_named"], TABLES)
CLEAR_ROWS = for_tables(SQL["clear_rows"], CLEARED)

#: The tables whose rows are deleted with a job, in the order of their references.
PARTS_OF_JOBS = [
    SQL[f"delete_{table}"].text
    for table in (
        *("waits", "signals", "checkpoints", "steps", "plans", "evidence", "runs"),
        *("deadlines", "ended_jobs"),
    )
]


class SqliteWriter(SqliteReader):
    """Writes within a transaction; SQLite has one writer at a time."""

    def __init__(
        self, connection: Connection, moment: Moment, caches: ReadCaches, where: str
    ) -> None:
        super().__init__(connection, moment, caches)
        self._where = where
        #: Whether the row of the clock was checked.
        self._noted = False
        #: Why a save failed. Its partial writes must not be committed.
        self.failed: DetentError | None = None
        self.appended = False

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """The write lock covers everything."""

    # -- the queue -------------------------------------------------------------------------

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        return claimable(self._connection, claim_filter, limit, now)

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        return leases.counts(self._connection, keys)

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
        return leases.renew(self._connection, worker, grants, until)

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
        """Record the time of a write without an event: its row may have a due time."""
        row = None if self._noted else clock.renewed(self._moment)
        self._noted = True
        if row is not None:
            self._all(RENEW_CLOCK, (row, self._now, self._moment.written.row))

    # -- saving ----------------------------------------------------------------------------

    def rows_for_update(self, table: str, prefix: str = "") -> Mapping[str, Any]:
        return self.rows_under(table, prefix) if prefix else self.rows(table)

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
        with self.saving():
            self._save(changes)

    @cached_property
    def sets(self) -> SqliteJobSets:
        return SqliteJobSets(self._connection, self)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Note a failure: what was written before it must not be committed."""
        try:
            yield
        except apsw.Error as error:
            self.failed = explained(error, self._where)
            raise self.failed from error
        except DetentError as error:
            self.failed = error
            raise

    def _save(self, changes: Changes) -> None:
        position = self.head() + 1 if changes.entries else 0
        appended = Appended(changes.entries, self._now, position)
        WorkRows(self._connection, changes, appended, self._now).save()
        self._save_parts(changes)
        if changes.deadlines:
            self._save_deadlines(changes)
        for table, named in changes.named_rows():
            self.put_rows(table, named)
        if changes.keys:
            self._save_keys(changes)
        if changes.entries:
            self._append(changes, appended)
        if changes.deleted_tasks or changes.deleted_jobs:
            self._forget(changes, appended)

    def _append(self, changes: Changes, appended: Appended) -> None:
        """Write the commits. Streams without a row in this save are checked here."""
        rows = (changes.new_tasks, changes.tasks, changes.new_jobs, changes.jobs)
        if len(appended.before) != sum(map(len, rows)):
            written = _written(changes)
            deleted = {*changes.deleted_tasks, *changes.deleted_jobs}
            for stream in appended.before.keys() - written:
                if self.version_of(stream) != appended.before[stream]:
                    raise changed()
                if stream not in deleted:
                    appended.put_apart(stream)
        append(self._connection, appended)
        self.appended = True

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
        index_streams(self._connection)

    def trim(self, upto: int) -> int:
        return trim(self._connection, upto)

    # -- rows ------------------------------------------------------------------------------

    def _save_parts(self, changes: Changes) -> None:
        for put, entities in (
            (STEPS, changes.steps),
            (WAITS, changes.waits),
            (SIGNALS, changes.signals),
            (CHECKPOINTS, changes.checkpoints),
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

    def _save_deadlines(self, changes: Changes) -> None:
        standing = [row for row in changes.deadlines if row[1] is not None]
        gone = [row[0] for row in changes.deadlines if row[1] is None]
        self._many(SQL["upsert_deadlines"].text, standing)
        self._of(SQL["delete_deadlines"].text, gone)

    def _save_keys(self, changes: Changes) -> None:
        rows = [(*key[:3], to_json(key.answer), key.expires_at) for key in changes.keys]
        self._many(SQL["upsert_keys"].text, rows)

    # -- forgetting ------------------------------------------------------------------------

    def _forget(self, changes: Changes, appended: Appended) -> None:
        """Delete rows and blank their events; digests keep the hash chain valid."""
        tasks = changes.deleted_tasks
        jobs = [*changes.deleted_jobs, *(row[0] for row in self._of(JOBS_OF_TASK, tasks))]
        jobs = list(dict.fromkeys(jobs))
        streams = self._commits_of([*tasks, *jobs], changes, appended)
        for text in PARTS_OF_JOBS:
            self._of(text, jobs)
        leases.lower(self._connection, self._of(SQL["delete_jobs"].text, jobs))
        for name in ("delete_dependencies", "delete_tasks", "delete_ended_tasks"):
            self._of(SQL[name].text, tasks)
        blank(self._connection, self._log, streams)

    def _commits_of(
        self, streams: Sequence[str], changes: Changes, appended: Appended
    ) -> dict[str, list[int]]:
        """Write the tombstones of streams; returns the ids of all their commits."""
        written = _written(changes)
        found: dict[str, list[int]] = {}
        rows = []
        for stream, _, commits in self._of(STREAMS, streams):
            if stream not in written:
                commits += appended.ids_of(stream)
            later = [row[0] for row in self._all(STREAM_COMMITS, (stream,))]
            found[stream] = [*later, *ids_in(commits)]
            rows.append((stream, max(found[stream]), commits))
        self._many(SQL["upsert_tombstones"].text, rows)
        return found


def _written(changes: Changes) -> set[str]:
    """The streams whose rows are written, with the ids of their commits."""
    return {
        *(task.id for task in changes.tasks),
        *(job.id for job in changes.jobs),
        *(new.task.id for new in changes.new_tasks),
        *(new.job.id for new in changes.new_jobs),
    }
