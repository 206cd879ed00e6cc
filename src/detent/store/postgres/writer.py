"""The write transaction on PostgreSQL: locks first, rows next, events and the commit last, in few
round trips.

What `save` is given goes out with the commit, so that the turn to append is held no longer than
needed; a statement that is asked before then takes the rows along and sees them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from detent.errors import Broken, Refused
from detent.kernel.entities import Resource
from detent.store import clock
from detent.store.codec import event_digest, from_json, to_json
from detent.store.job_sets import JobSets
from detent.store.postgres import save_statements
from detent.store.postgres.claims import Lanes, claimable
from detent.store.postgres.connection import Query, Rows, ready
from detent.store.postgres.locks import Lock, lock_names, share_names
from detent.store.postgres.reader import NAMED, READY, SQL, Clock, PostgresReader
from detent.store.postgres.transaction import Transaction
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
    LoggedEvent,
    NewEvent,
)

PUT_NAMED = {name: ready(each) for name, each in for_tables(SQL["put_named"], TABLES).items()}
REMOVE_NAMED = {name: ready(each) for name, each in for_tables(SQL["remove_named"], TABLES).items()}

#: What follows from the log, and the places in the queue that are kept beside it.
CLEAR_ROWS = [
    ready(each)() for each in for_tables(SQL["clear_rows"], (*REBUILT, "arrivals")).values()
]


class PostgresWriter(PostgresReader):
    """Writes concurrently with others: rows do not change once their root is locked."""

    def __init__(self, transaction: Transaction, clock: Clock, lanes: Lanes) -> None:
        super().__init__(transaction, clock)
        self._lanes = lanes
        #: Roots whose rows are ours until the end.
        self._roots: set[str] = set()
        #: What was saved and not sent yet, made when it is sent; how many leases are first in it.
        self._saved: list[Iterable[Query]] = []
        self._leases = 0
        self._entries: list[NewEvent] = []
        self._arrivals: save_statements.Arrivals = {}
        self._deleted: set[str] = set()
        #: Rows were written that may be due at some time, and perhaps no event with them.
        self._timed = False

    #: Each job is written separately.
    sets: JobSets | None = None

    @property
    def appended(self) -> bool:
        return bool(self._entries)

    def _ask(self, query: Query) -> Rows:
        return self._run(query)[-1]

    def _run(self, *queries: Query) -> list[Rows]:
        """The answers to these; rows that were saved before go ahead of them."""
        leases = self._leases
        results = self._transaction.run(chain(self._unsent(), queries))
        if leases and results[0].done != f"MERGE {leases}":
            raise Broken("A job was claimed that has no row in the queue.")
        return [answer.rows for answer in results[len(results) - len(queries) :]]

    def _unsent(self) -> Iterator[Query]:
        """What was saved and not sent yet. Leases, which are counted, come first."""
        saved, self._saved, self._leases = self._saved, [], 0
        return chain.from_iterable(saved)

    # -- locks -----------------------------------------------------------------------------

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        if not task_ids and not job_ids:
            return
        query = READY["lock_roots"](jobs=to_json(list(job_ids)), tasks=to_json(list(task_ids)))
        self._roots.update(root for (root,) in self._ask(query))

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """Who came to depend on these while we waited for locks, or further away, is locked now
        or never.
        """
        rows = self._ask(save_statements.by_ids("dependents", task_ids))
        late = {root for _, _, root in rows} - self._roots
        if late:
            self._ask(save_statements.by_ids("lock_late", sorted(late)))
            self._roots |= late
        return [(task_id, dependent) for task_id, dependent, _ in rows]

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> list[IdempotencyKey]:
        """Two who bring the same key come one after the other: the second finds the first one's
        answer.
        """
        self._ask(lock_names(Lock.KEYS, ("\0".join(key) for key in keys)))
        return super().keys(keys, now)

    def resources(self) -> list[Resource]:
        _, in_use, named = self._run(
            READY["lock_resources"](kind=Lock.RESOURCES),
            READY["resources_in_use"](),
            NAMED["resources"],
        )
        held: dict[Any, Any] = dict(in_use)
        return [resource_from(name, from_json(value), held.get(name, 0)) for name, value in named]

    # -- the queue -------------------------------------------------------------------------

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        if self._entries:
            raise Broken("A claim must come before the saves of its transaction.")
        found = claimable(self._run, self._lanes, claim_filter, limit, now)
        self._roots.update(root for _, root in found)
        return [candidate for candidate, _ in found]

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        """Claimers under the same key come one after the other, each counting what those before
        it took.
        """
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
        kinds = ("due_leases", "due_waits", "due_deadlines")
        leases, waits, deadlines = self._run(*[READY[kind](now=now, limit=limit) for kind in kinds])
        return DueTimers(leases, waits, [job_id for (job_id,) in deadlines])

    def reset_clock(self) -> int:
        moment = self._moment()
        if moment.ahead:
            put = PUT_NAMED["system_state"]
            row = to_json(clock.reset(moment, self.head()))
            self._run(
                put(name=clock.CLOCK, value=row, updated_at=moment.now - moment.ahead),
                READY["shift_leases"](ahead=moment.ahead),
            )
        return moment.ahead

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        self._timed = True
        rows = to_json([{"job_id": job_id, "fence": fence} for job_id, fence in grants])
        held, free = self._run(
            READY["held_leases"](rows=rows, worker=worker),
            READY["lock_leases"](rows=rows, worker=worker),
        )
        self._saved.append([READY["renew"](until=until, ids=to_json([each for (each,) in free]))])
        return {(job_id, fence) for job_id, fence in held}

    # -- saving ----------------------------------------------------------------------------

    def rows_for_update(self, table: str) -> Mapping[str, Any]:
        """Asked for in a statement after the lock: it sees what those before us have written."""
        _, rows = self._run(lock_names(Lock.NAMED, [table]), NAMED[table])
        return {name: from_json(value) for name, value in rows}

    def rows_held(self, table: str) -> Mapping[str, Any]:
        _, rows = self._run(share_names(Lock.NAMED, [table]), NAMED[table])
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
        if changes.leases:
            if self._saved:
                self._run()
            self._leases = len(changes.leases)
        if changes.limits:
            self.put_rows("limits", changes.limits)
        self._saved.append(save_statements.rows_of(changes, now))
        if changes.deleted_tasks or changes.deleted_jobs:
            self._delete(changes.deleted_tasks, changes.deleted_jobs)
        self._entries += changes.entries
        for lane, rank in save_statements.arrivals_of(changes, now).items():
            self._arrivals[lane] = min(rank, self._arrivals.get(lane, rank))

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
        """Two that send to one target come one after the other."""
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
        self._ask(lock_names(Lock.SEALS, [""]))
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
        self._run()
        self._transaction.run_long(CLEAR_ROWS)

    def trim(self, upto: int) -> int:
        (trimmed,) = self._transaction.run_long([READY["trim_events"](upto=upto)])
        return int(trimmed.done.split()[-1])

    def commit(self) -> bool:
        """Send the remaining statements and commit; returns whether others were notified."""
        if self._leases:
            self._run()
        appended = save_statements.appended(self._entries, self._arrivals, self._deleted)
        self._transaction.commit(chain(self._unsent(), self._time(), appended))
        return bool(self._arrivals)

    def _time(self) -> Iterator[Query]:
        """Renew the row of the clock after a write without an event. It comes last, so that other
        writers do not wait long for the row.
        """
        moment = self._moment() if self._timed and not self._entries else None
        row = None if moment is None else clock.renewed(moment)
        if moment is not None and row is not None:
            yield READY["renew_clock"](value=row, now=moment.now, old=moment.written.row)

    # -- deleting --------------------------------------------------------------------------

    def _delete(self, task_ids: Sequence[str], job_ids: Sequence[str]) -> None:
        """Remove rows, and blank what the events of their streams said; digests keep the chain
        whole.
        """
        of_tasks = self._ask(save_statements.by_ids("jobs_of_task", task_ids))
        jobs = [*job_ids, *(job_id for (job_id,) in of_tasks)]
        self._deleted.update(task_ids, jobs)
        events = map(
            LoggedEvent._make,
            self._ask(save_statements.by_ids("events_to_blank", [*task_ids, *jobs])),
        )
        blanked = [
            {"position": each.position, "digest": event_digest(each).hex()} for each in events
        ]
        self._saved.append(
            [
                *(
                    save_statements.by_ids(f"delete_{table}", jobs)
                    for table in save_statements.PARTS_OF_JOBS
                ),
                save_statements.by_ids("delete_dependencies", task_ids),
                save_statements.by_ids("delete_tasks", task_ids),
                READY["blank_events"](rows=to_json(blanked)),
            ]
        )
