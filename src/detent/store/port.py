"""The interface of a store: set-based reads and one write, all inside transactions.

A store makes no decisions. Memory (the reference), SQLite and PostgreSQL implement the interface;
`detent.testing.conformance` checks them. All times are integer microseconds of the store's clock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan
from detent.kernel.task_lifecycle import TaskLifecycles
from detent.store.blobs import Blobs, Outputs
from detent.store.job_sets import JobSets
from detent.store.logged_commit import LoggedCommit
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
    Query,
    RefusedIntake,
)


class LogReader(Protocol):
    """Reads a log: that of a store, or the history in an archive."""

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> Sequence[LoggedEvent]:
        """Events after a position, in order; no event can still appear before them."""

    def unsequenced(self) -> Sequence[LoggedEvent]:
        """Committed events that have no position yet, with provisional ones after the last event.

        Every stream is in order. A store that assigns positions with the commit has none.
        """

    def rows(self, table: str) -> Mapping[str, Any]:
        """A small table of named JSON values: see `TABLES`."""


class ReadTransaction(LogReader, Protocol):
    """A consistent view of the store. Ids that do not exist are absent from the result."""

    def row_names(self, table: str) -> Collection[str]:
        """The names of the rows of a table, without their values."""

    def rows_under(self, table: str, prefix: str) -> Mapping[str, Any]:
        """As `rows`, but only the rows whose names begin with a prefix."""

    def lifecycles(self) -> TaskLifecycles:
        """The lifecycles of tasks by id. Documents never change, so known ones are not read."""

    def commits(
        self, after: int, limit: int, upto: int | None = None, max_bytes: int | None = None
    ) -> Sequence[LoggedCommit]:
        """The commits with the first `limit` events after a position.

        The first may begin at or before that position, and the last may end after `upto`. With
        `max_bytes`, no commit is read after those whose texts reach this size.
        """

    def version_of(self, stream: str) -> int:
        """The version of the last event of a stream; 0 if the log has none of it."""

    def now(self) -> int:
        """The store's time, the same for the whole transaction. Only `reset_clock` sets it back."""

    def ahead(self) -> int:
        """How far the store's time is ahead of the wall clock, in microseconds."""

    def tasks(self, ids: Collection[str]) -> Iterable[tuple[Task, int]]:
        """Tasks by id, each with the version of its stream."""

    def jobs(self, ids: Collection[str]) -> Iterable[tuple[Job, int]]:
        """Jobs by id, each with the version of its stream."""

    def payloads(self, job_ids: Collection[str]) -> Mapping[str, Any]:
        """The payload of each job: that of its task, or its own if it has no task."""

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """(task, dependent) for every task that depends on one of these."""

    def children(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """(parent, child) for every descendant of these tasks, at any depth."""

    def child_jobs(self, job_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """(parent, child) for every job below these jobs, at any depth."""

    def live_runs(self, job_ids: Collection[str]) -> Iterable[Run]:
        """Runs of these jobs that are queued or running."""

    def steps(self, job_ids: Collection[str]) -> Iterable[Step]:
        """The steps of each job's current plan version."""

    def plans(self, job_ids: Collection[str]) -> Mapping[str, Plan]:
        """Each job's current plan."""

    def waits(self, job_ids: Collection[str]) -> Iterable[Wait]:
        """Open waits."""

    def signals(self, job_ids: Collection[str]) -> Iterable[Signal]:
        """Signals that were received, consumed or not."""

    def checkpoints(self, keys: Collection[tuple[str, str]]) -> Iterable[Checkpoint]:
        """Checkpoints by (job, name)."""

    def job_checkpoints(self, job_id: str) -> Iterable[Checkpoint]:
        """All checkpoints of one job, for its next run."""

    def resources(self) -> Iterable[Resource]:
        """Every resource, with the number of plan steps that hold it."""

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> Iterable[IdempotencyKey]:
        """Idempotency keys by (project, key) that have not expired."""

    def page(self, query: Query) -> Sequence[Mapping[str, Any]]:
        """Matching rows of a listed table in order, as column to decoded value."""

    def count_by(self, query: Query, column: str) -> Mapping[Any, int]:
        """The number of matching rows for each value of a column; order and limit are ignored."""

    def head(self) -> int:
        """The position of the last visible event; 0 for an empty log."""

    def commit_boundary(self, upto: int) -> int:
        """The last position at or before another one at which no commit is divided."""

    def chain_blocks(self, after: int, limit: int) -> Sequence[ChainBlock]:
        """Chain blocks that end after a position, in the order of the log."""

    def outbox(self, target: str, limit: int) -> Sequence[Delivery]:
        """The deliveries to a target, in the order in which they were written.

        A write transaction locks them: no other one sees or changes them until it ends.
        """

    def last_chain_block(self) -> ChainBlock | None:
        """The chain block that ends last; None if there is none."""

    def intake(self, limit: int) -> Sequence[Intake]:
        """Submissions of other programs that are neither accepted nor refused yet, oldest first.

        A write transaction locks them until it ends.
        """

    def refused_intake(self, limit: int) -> Sequence[RefusedIntake]:
        """Submissions of other programs that were refused, oldest first."""

    def runs(self, ids: Collection[str]) -> Iterable[Run]:
        """Runs by id, whether ended or not."""

    def used_blobs(self, digests: Collection[str]) -> set[str]:
        """The digests among these that are used by evidence."""

    def stored_bytes(self, project: str) -> int:
        """The bytes of the payloads and the evidence of a project; reads all of its rows."""


class WriteTransaction(ReadTransaction, Protocol):
    """The write transaction: all of its changes are committed, or none."""

    @property
    def appended(self) -> bool:
        """Whether this transaction has appended events so far."""

    @property
    def sets(self) -> JobSets | None:
        """Operations on sets of plain jobs; None if the store writes each job separately."""

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """Lock these, their trees, and the trees that depend on them until the transaction ends."""

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        """Due jobs that no other transaction has locked; locks them until the end.

        They are in the order of the filter's shares, and by rank within a project.
        """

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        """The number of leases under each limited key; it cannot change until the end.

        Keys are `intent:NAME`, `project:NAME` and `key:NAME`.
        """

    def due(self, limit: int, now: int) -> DueTimers:
        """The timers that are due, oldest first."""

    def reset_clock(self) -> int:
        """Set time and leases back to the wall clock; returns by how many microseconds."""

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        """Extend leases in one statement; returns those that the worker still holds."""

    def rows_for_update(self, table: str, prefix: str = "") -> Mapping[str, Any]:
        """As `rows` or `rows_under`, and lock the table against other writers until the end."""

    def rows_held(self, table: str) -> Mapping[str, Any]:
        """As `rows`; a transaction that changes some of them waits until this one has ended."""

    def put_rows(self, table: str, rows: Mapping[str, Any]) -> None:
        """Write named JSON values; None deletes the row."""

    def save(self, changes: Changes) -> None:
        """Append the events and write the rows.

        Refused with `version_conflict` if a stream was changed after it was loaded.
        """

    def put_intake(self, operation: str, body: str, idempotency_key: str | None = None) -> None:
        """Write a submission as other programs do with an INSERT."""

    def end_intake(self, taken: Collection[int], refused: Mapping[int, str]) -> None:
        """Delete accepted submissions, and keep refused ones with the reason."""

    def delete_expired_keys(self, now: int, limit: int) -> int:
        """Delete up to `limit` expired idempotency keys; returns their number."""

    def put_outbox(self, rows: Sequence[Delivery]) -> None:
        """Write new deliveries, in this order."""

    def update_outbox(self, rows: Sequence[Delivery]) -> None:
        """Write the next time, the number of attempts and the last error of each delivery."""

    def delete_outbox(self, ids: Collection[int]) -> None:
        """Delete deliveries that were sent or are not needed any more."""

    def put_chain_block(self, block: ChainBlock) -> None:
        """Write a chain block; `version_conflict` if it begins before the end of the last one."""

    def clear_rows(self) -> None:
        """Empty the tables of `REBUILT`; the caller writes their rows again before the end."""

    def trim(self, upto: int) -> int:
        """Delete the commits that end at or before a position; returns the number of events.

        The last commit is never deleted.
        """


class ReplicaStatus(NamedTuple):
    """Whether the replica is used, how far it was behind, and otherwise the reason."""

    used: bool
    lag_us: int | None
    reason: str


class ReplicaReads(Protocol):
    """A copy of the database for reads that may be behind."""

    url: str
    status: ReplicaStatus

    def begin(self, position: int) -> AbstractContextManager[ReadTransaction] | None:
        """A read transaction that has the log up to a position; None: read from the primary."""

    def acknowledged(self) -> int:
        """The position of the primary up to which the replica may be read."""

    def close(self) -> None:
        """Close its connections."""


class Store(Protocol):
    """One database. Any number of threads use `read`, and `write` if `parallel_writes` is true."""

    url: str
    #: Whether several transactions can write at the same time; otherwise one thread uses `write`.
    parallel_writes: bool

    #: Files by their digest: evidence, and values that are too large for a row.
    blobs: Blobs
    #: The output of runs, for other machines; None if output is in files on a shared disk.
    outputs: Outputs | None
    #: A replica for lists, counts, metrics and the feed; see `store.stale_reads`.
    replica: ReplicaReads | None

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Begin a read transaction; it blocks no other transaction."""

    def write(self) -> AbstractContextManager[WriteTransaction]:
        """Begin the write transaction; it commits durably, or rolls back if the block raises."""

    def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until the log may have grown past a position; may return late or early."""

    def noticed(self) -> int:
        """A number that changes when a commit is noticed; reads nothing from the store."""

    def wait_for_notice(self, noticed: int, timeout_s: float) -> bool:
        """Wait until the number differs from an earlier one; may return late or early.

        A worker waits with it: it claims anyway, and need not know where the log ends.
        """

    def notify(self) -> None:
        """Wake the threads that wait, in this process and in others: a hint after a commit."""

    def close(self) -> None:
        """Close files and connections."""
