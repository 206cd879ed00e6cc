"""The write transaction on PostgreSQL: locks first, rows next, events and the commit last.

It needs few round trips. What `save` is given is sent with the commit; a statement that is asked
before then takes the rows along and sees them. The commit id of a save is allocated in the same
round trip, when all locks are held: so the commits of one stream are in the order of their ids.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from detent.errors import Broken, Refused
from detent.kernel.entities import Resource
from detent.store import clock
from detent.store.codec import from_json, to_json
from detent.store.postgres import save_statements
from detent.store.postgres.claims import Lanes, claimable
from detent.store.postgres.connection import Query, Rows, ready
from detent.store.postgres.locks import Lock, lock_names, share_names
from detent.store.postgres.new_commits import NewCommits
from detent.store.postgres.reader import READY, SEQUENCE, SQL, Clock, PostgresReader, named_rows
from detent.store.postgres.root_locks import RootLocks
from detent.store.postgres.set_rows import PostgresJobSets
from detent.store.postgres.transaction import Transaction
from detent.store.postgres.work_rows import LEASE
from detent.store.read_caches import ReadCaches
from detent.store.rows import resource_from
from detent.store.statements import for_tables
from detent.store.table_names import REBUILT, TABLES
from detent.store.types import (
    Candidate,
    ChainBlock,
    Changes,
    ClaimFilter,
    Delivery,
    DueTimers,
    IdempotencyKey,
    Intake,
)

PUT_NAMED = {name: ready(each) for name, each in for_tables(SQL["put_named"], TABLES).items()}
REMOVE_NAMED = {name: ready(each) for name, each in for_tables(SQL["remove_named"], TABLES).items()}

#: Wakes claimers, in a transaction of its own that need not reach the disk.
NOTIFY = READY["notify"]()._replace(alone=True)

#: The tables of rows that are derived from the log, in place of the views that lists read.
_VIEWS = {
    "tasks": ("active_tasks", "ended_tasks"),
    "jobs": ("active_jobs", "ended_jobs"),
    "runs": ("other_runs",),
    "queue": ("leases",),
}
DERIVED = [table for name in REBUILT for table in _VIEWS.get(name, (name,))]
CLEAR_ROWS = [
    ready(each)() for each in for_tables(SQL["clear_rows"], (*DERIVED, "arrivals")).values()
]


class PostgresWriter(PostgresReader):
    """Writes concurrently with others: rows do not change once their root is locked."""

    def __init__(
        self,
        transaction: Transaction,
        moment: Clock,
        lanes: Lanes,
        bound: Callable[[], clock.Bound],
        sequence: Callable[[], object],
        caches: ReadCaches,
    ) -> None:
        super().__init__(transaction, moment, caches)
        self._lanes, self.bound, self._sequence = lanes, bound, sequence
        #: Tasks and jobs whose row was read or written, and whether it is that of ended work.
        self._ended: dict[str, bool] = {}
        #: What was saved and not sent yet, made when it is sent.
        self._saved: list[Iterable[Query]] = []
        self._arrivals: save_statements.Arrivals = {}
        self.appended = False
        #: Rows were written that may be due at some time, and perhaps no event with them.
        self._timed = False
        #: Whether the time was set for the statements of sets, and whether those bring new work.
        self._time_is_set = self._set_arrived = False
        #: Whether the commit was sent.
        self.committed = False

    @property
    def sets(self) -> PostgresJobSets:
        return PostgresJobSets(self, self._lanes)

    def _feed(self) -> None:
        if not self.sequenced:
            self.sequenced = True
            if not self._transaction.precede(SEQUENCE):
                self._sequence()

    def _located(self, name: str, ids: Collection[str]) -> Rows:
        rows = super()._located(name, ids)
        self._ended.update((row[0], row[-1]) for row in rows)
        return rows

    def _ask(self, query: Query) -> Rows:
        return self._run(query)[-1]

    def _run(self, *queries: Query) -> list[Rows]:
        """The results of these; rows that were saved before are sent ahead of them."""
        results = self._transaction.run(chain(self._unsent(), queries))
        return [answer.rows for answer in results[len(results) - len(queries) :]]

    def _unsent(self) -> Iterator[Query]:
        """What was saved and not sent yet."""
        saved, self._saved = self._saved, []
        return chain.from_iterable(saved)

    # -- locks -----------------------------------------------------------------------------

    @cached_property
    def _root_locks(self) -> RootLocks:
        return RootLocks(self._run)

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        self._root_locks.lock(task_ids, job_ids)

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """Lock tasks that came to depend on these while this transaction waited for locks, without
        waiting for them.
        """
        rows = self._ask(save_statements.by_ids("dependents", task_ids))
        self._root_locks.lock_late(root for _, _, root in rows)
        return [(task_id, dependent) for task_id, dependent, _ in rows]

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> list[IdempotencyKey]:
        """Two transactions with the same key are serialised: the second finds the result of the
        first.
        """
        self._ask(lock_names(Lock.KEYS, ("\0".join(key) for key in keys)))
        return super().keys(keys, now)

    def resources(self) -> list[Resource]:
        _, in_use, named = self._run(
            READY["lock_resources"](kind=Lock.RESOURCES),
            READY["resources_in_use"](),
            named_rows("resources"),
        )
        held: dict[Any, Any] = dict(in_use)
        return [resource_from(name, from_json(value), held.get(name, 0)) for name, value in named]

    # -- the queue -------------------------------------------------------------------------

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        if self.appended:
            raise Broken("A claim must come before the saves of its transaction.")
        found = claimable(self._run, self._lanes, claim_filter, limit, now)
        self._root_locks.add(root for _, root in found)
        return [candidate for candidate, _ in found]

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        """Claims under the same key are serialised; each counts the leases of the earlier ones."""
        names: dict[str, list[str]] = {}
        for key in keys:
            kind, _, name = key.partition(":")
            names.setdefault(kind, []).append(name)
        counts = [
            READY[f"running_by_{kind}"](names=to_json(found)) for kind, found in names.items()
        ]
        _, *results = self._run(lock_names(Lock.LIMITS, keys), *counts)
        running = dict.fromkeys(keys, 0)
        for kind, rows in zip(names, results, strict=True):
            running.update({f"{kind}:{name}": count for name, count in rows})
        return running

    def due(self, limit: int, now: int) -> DueTimers:
        kinds = ("expired_leases", "due_waits", "due_deadlines")
        leases, waits, deadlines = self._run(*[READY[kind](now=now, limit=limit) for kind in kinds])
        return DueTimers(leases, waits, [job_id for (job_id,) in deadlines])

    def reset_clock(self) -> int:
        moment = self._moment()
        if moment.ahead:
            put = PUT_NAMED["system_state"]
            ((last,),) = self._ask(READY["last_commit"]())
            row = to_json(clock.reset(moment, last))
            self._run(
                put(name=clock.CLOCK, value=row, updated_at=moment.now - moment.ahead),
                READY["shift_all_leases"](ahead=moment.ahead),
            )
        return moment.ahead

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        self._timed = True
        rows = to_json([{"job_id": job_id, "fence": fence} for job_id, fence in grants])
        free, held = self._run(
            READY["lock_leases"](rows=rows, worker=worker),
            READY["held_leases"](rows=rows, worker=worker),
        )
        named = Counter(lease for _, _, lease, _ in held)
        whole = {lease for _, _, lease, count in held if named[lease] == count}
        locked = {lease for (lease,) in free}
        if locked & whole:
            renewed = to_json(sorted(locked & whole))
            self._saved.append([READY["renew_leases"](ids=renewed, until=until)])
        apart = [(job_id, fence) for job_id, fence, lease, _ in held if lease in locked - whole]
        if apart:
            self._renew_apart(worker, apart, until)
        return {(job_id, fence) for job_id, fence, _, _ in held}

    def _renew_apart(self, worker: str, grants: Sequence[tuple[str, int]], until: int) -> None:
        """Jobs that are renewed without the others of their lease get a new one."""
        rows = to_json([{"job_id": job_id, "fence": fence} for job_id, fence in grants])
        jobs = [job_id for job_id, _ in self._ask(READY["lock_leased"](rows=rows, worker=worker))]
        if not jobs:
            return
        lease = {"id": secrets.randbits(62), "worker": worker, "until": until, "jobs": jobs}
        moved = [{"id": job_id, "place": LEASE, "lease_id": lease["id"]} for job_id in jobs]
        self._saved.append(
            [
                READY["insert_leases"](rows=to_json([lease])),
                READY["release_leases"](ids=to_json(jobs)),
                READY["place_jobs"](rows=to_json(moved)),
            ]
        )

    # -- saving ----------------------------------------------------------------------------

    def rows_for_update(self, table: str, prefix: str = "") -> Mapping[str, Any]:
        """Read in a statement after the lock, which sees what earlier holders have written."""
        _, rows = self._run(lock_names(Lock.NAMED, [table]), named_rows(table, prefix))
        return {name: from_json(value) for name, value in rows}

    def rows_held(self, table: str) -> Mapping[str, Any]:
        _, rows = self._run(share_names(Lock.NAMED, [table]), named_rows(table))
        return {name: from_json(value) for name, value in rows}

    def put_rows(self, table: str, rows: Mapping[str, Any]) -> None:
        self._timed = True
        put, remove, now = PUT_NAMED[table], REMOVE_NAMED[table], self.now()
        self._run(
            *(
                remove(name=name)
                if value is None
                else put(name=name, value=to_json(value), updated_at=now)
                for name, value in sorted(rows.items(), key=lambda row: row[0])
            )
        )

    def save(self, changes: Changes) -> None:
        now = self.now()
        for table, named in changes.named_rows():
            self.put_rows(table, named)
        gone = self._gone(changes)
        new = NewCommits(changes.entries, now, self._rowless(changes, gone), gone)
        self._find({*(task.id for task in changes.tasks), *(job.id for job in changes.jobs)})
        was_ended = {each for each, ended in self._ended.items() if ended}
        rows = save_statements.rows_of(changes, new, was_ended)
        if gone:
            rows = chain(rows, self._deletion(changes.deleted_tasks, gone, new))
        self._saved.append(new.statements(rows))
        self.appended = self.appended or bool(changes.entries)
        written = [row.task.id for row in changes.new_tasks]
        written += [row.job.id for row in changes.new_jobs]
        written += [task.id for task in changes.tasks]
        written += [job.id for job in changes.jobs]
        self._ended.update((each, each in changes.ended) for each in written)
        for lane, rank in save_statements.arrivals_of(changes, now).items():
            self._arrivals[lane] = min(rank, self._arrivals.get(lane, rank))

    def _find(self, ids: Collection[str]) -> None:
        """Find the tables of rows that this transaction has not read."""
        unknown = [each for each in ids if each not in self._ended]
        if unknown:
            self._ended.update(dict.fromkeys(unknown, False))
            rows = self._ask(save_statements.by_ids("ended_ids", unknown))
            self._ended.update((each, True) for (each,) in rows)

    def _rowless(self, changes: Changes, gone: Collection[str]) -> set[str]:
        """The streams without a row of a task or job. Their versions are checked under a lock."""
        known = {*(row.task.id for row in changes.new_tasks), *(task.id for task in changes.tasks)}
        known |= {*(row.job.id for row in changes.new_jobs), *(job.id for job in changes.jobs)}
        first: dict[str, int] = {}
        for entry in changes.entries:
            if entry.stream not in known and entry.stream not in gone:
                first.setdefault(entry.stream, entry.version)
        if first:
            self._ask(lock_names(Lock.STREAMS, first))
            for stream, version in first.items():
                if self.version_of(stream) != version - 1:
                    raise Refused(
                        f"{stream} was changed by another process", code="version_conflict"
                    )
        return set(first)

    # -- intake, outbox, chain blocks, and removal of rows and events --------------------

    def intake(self, limit: int) -> list[Intake]:
        return [Intake._make(row) for row in self._ask(READY["lock_intake"](limit=limit))]

    def put_intake(self, operation: str, body: str, idempotency_key: str | None = None) -> None:
        put = READY["put_intake"]
        self._run(put(operation=operation, body=body, idempotency_key=idempotency_key))

    def end_intake(self, taken: Collection[int], refused: Mapping[int, str]) -> None:
        delete, refuse, now = READY["delete_intake"], READY["refuse_intake"], self.now()
        self._run(
            *(delete(id=number) for number in sorted(taken)),
            *(refuse(id=number, error=refused[number], at=now) for number in sorted(refused)),
        )

    def delete_expired_keys(self, now: int, limit: int) -> int:
        expired = self._ask(READY["expired_keys"](now=now, limit=limit))
        rows = to_json([{"project": project, "key": key} for project, key in expired])
        self._run(READY["delete_keys"](rows=rows))
        return len(expired)

    def outbox(self, target: str, limit: int) -> list[Delivery]:
        """Two transactions that send to one target are serialised."""
        self._ask(lock_names(Lock.OUTBOX, [target]))
        return super().outbox(target, limit)

    def put_outbox(self, rows: Sequence[Delivery]) -> None:
        self._timed = True
        put = READY["insert_outbox"]
        names = ("target", "stream", "position", "body", "due_at")
        self._run(*(put(**{name: getattr(row, name) for name in names}) for row in rows))

    def update_outbox(self, rows: Sequence[Delivery]) -> None:
        self._timed = True
        names = ("due_at", "attempts", "error", "id")
        update = READY["update_outbox"]
        self._run(*(update(**{name: getattr(row, name) for name in names}) for row in rows))

    def delete_outbox(self, ids: Collection[int]) -> None:
        self._run(*(READY["delete_outbox"](id=each) for each in ids))

    def put_chain_block(self, block: ChainBlock) -> None:
        """Of two processes that write a chain block at the same time, the second is refused."""
        self._ask(lock_names(Lock.CHAIN_BLOCKS, [""]))
        last = self.last_chain_block()
        if last is not None and block.from_position <= last.to_position:
            raise Refused("another process has written this chain block", code="version_conflict")
        first, to, count, chain, at = block
        digest = f"\\x{chain.hex()}"
        self._ask(
            READY["insert_chain_block"](
                from_position=first, to_position=to, count=count, chain=digest, at=at
            )
        )

    def clear_rows(self) -> None:
        """Empty the tables. The commits of each stream are listed as the log has them, because the
        rows that had the first ones are gone.
        """
        self._run()
        self._ended.clear()
        self._transaction.run_long([READY["plan_freely"](), READY["list_streams"](), *CLEAR_ROWS])

    def trim(self, upto: int) -> int:
        statements = [READY["plan_freely"](), READY["trim_commits"](upto=upto)]
        _, trimmed, _ = self._transaction.run_long([*statements, READY["plan_by_key"]()])
        return int(trimmed.rows[0][0])

    @property
    def notifies(self) -> bool:
        """Whether the commit notifies others."""
        return bool(self._arrivals) or self._set_arrived

    def last_queries(self) -> Iterable[Query]:
        """What is sent with the commit."""
        self.committed = True
        arrived = save_statements.arrived(self._arrivals) if self._arrivals else ()
        return chain(self._unsent(), self._time(), arrived)

    def after_commit(self) -> Sequence[Query]:
        """What is sent after the commit, each in a transaction of its own."""
        return [NOTIFY] if self.notifies else []

    # -- sets ------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        return bool(self._transaction.started)

    def set_time(self) -> Iterator[Query]:
        if self._time_is_set:
            return
        self._time_is_set = True
        if self.begun:
            yield READY["set_now"](now=str(self.now()))
        else:
            wall, least, resets, _ = self.bound()
            yield READY["find_now"](wall=wall, least=least, resets=resets)

    def save_later(self, queries: Iterable[Query], *, arrived: bool) -> None:
        self._saved.append(queries)
        self._set_arrived |= arrived

    def ask(self, *queries: Query) -> list[Rows]:
        return self._run(*queries)

    def finish(self, first: Iterable[Query], last: Sequence[Query]) -> list[Rows]:
        queries = chain(first, self.last_queries(), last)
        results = self._transaction.commit(queries, self.after_commit())
        return [answer.rows for answer in results[len(results) - len(last) :]]

    def _time(self) -> Iterator[Query]:
        """Renew the row of the clock after a write without an event. It comes last, so that other
        writers do not wait long for the row.
        """
        moment = self._moment() if self._timed and not self.appended else None
        row = None if moment is None else clock.renewed(moment)
        if moment is not None and row is not None:
            yield READY["renew_clock"](value=row, now=moment.now, old=moment.written.row)

    # -- deleting --------------------------------------------------------------------------

    def _gone(self, changes: Changes) -> list[str]:
        """The tasks and jobs that are deleted; with a task its jobs are."""
        if not changes.deleted_tasks and not changes.deleted_jobs:
            return []
        of_tasks = self._ask(save_statements.by_ids("jobs_of_task", changes.deleted_tasks))
        new = [row.job for row in changes.new_jobs if row.job.task_id in changes.deleted_tasks]
        jobs = (*changes.deleted_jobs, *(job_id for (job_id,) in of_tasks))
        return list(dict.fromkeys((*changes.deleted_tasks, *jobs, *(job.id for job in new))))

    def _deletion(
        self, task_ids: Sequence[str], gone: Sequence[str], new: NewCommits
    ) -> Iterator[Query]:
        """Remove rows, and blank the data of the events of their streams; digests keep the chain
        valid. The bodies are read here, before any of these statements is sent.
        """
        found = self._ask(save_statements.by_ids("commits_to_blank", gone))
        blanked = save_statements.to_blank(found, gone)
        return save_statements.deleting(task_ids, gone, new, blanked)
