"""The contract of a store: set-based reads and one write, all inside transactions.

A store decides nothing. Three implementations keep the contract: memory (the reference), SQLite
and PostgreSQL; `detent.testing.conformance` holds them to it. All times are integer microseconds
of the store's own clock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan
from detent.store.blobs import Blobs, Outputs
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
    """What it takes to follow a log: a store's view has it, and a history that came as a file."""

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> Sequence[LoggedEvent]:
        """The log in commit order after a position; nothing that could still change is shown."""

    def rows(self, table: str) -> Mapping[str, Any]:
        """A small table of named JSON values: see `TABLES`."""


class ReadTransaction(LogReader, Protocol):
    """A consistent view. Missing ids are simply absent from the answer."""

    def now(self) -> int:
        """The store's clock, the same for the whole transaction; it goes back by a reset only."""

    def ahead(self) -> int:
        """How far that is ahead of the wall clock that it is taken from, in microseconds."""

    def tasks(self, ids: Collection[str]) -> Iterable[tuple[Task, int]]:
        """Tasks by id, each with the version of its stream."""

    def jobs(self, ids: Collection[str]) -> Iterable[tuple[Job, int]]:
        """Jobs by id, each with the version of its stream."""

    def payloads(self, job_ids: Collection[str]) -> Mapping[str, Any]:
        """What the work is about: the task's payload, or a lone job's own."""

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """(task, dependent) for every task that depends on one of these."""

    def children(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """(parent, child) for every descendant of these tasks, however deep."""

    def child_jobs(self, job_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        """(parent, child) for every job below these jobs, however deep."""

    def live_runs(self, job_ids: Collection[str]) -> Iterable[Run]:
        """Runs of these jobs that are queued or running."""

    def steps(self, job_ids: Collection[str]) -> Iterable[Step]:
        """The steps of each job's current plan version."""

    def plans(self, job_ids: Collection[str]) -> Mapping[str, Plan]:
        """Each job's current plan."""

    def waits(self, job_ids: Collection[str]) -> Iterable[Wait]:
        """Open waits."""

    def signals(self, job_ids: Collection[str]) -> Iterable[Signal]:
        """Signals that were received, taken or not."""

    def checkpoints(self, keys: Collection[tuple[str, str]]) -> Iterable[Checkpoint]:
        """Checkpoints by (job, name)."""

    def job_checkpoints(self, job_id: str) -> Iterable[Checkpoint]:
        """All checkpoints of one job: what its code finds when it goes on."""

    def resources(self) -> Iterable[Resource]:
        """Every resource, with how many steps hold it."""

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> Iterable[IdempotencyKey]:
        """Idempotency keys by (project, key) that have not expired."""

    def page(self, query: Query) -> Sequence[Mapping[str, Any]]:
        """Rows of a listed table that match, column to value, JSON decoded, in order."""

    def count_by(self, query: Query, column: str) -> Mapping[Any, int]:
        """How many matching rows have each value of a column, whatever order and limit say."""

    def head(self) -> int:
        """The position of the last event that the log shows; 0 for an empty log."""

    def chain_blocks(self, after: int, limit: int) -> Sequence[ChainBlock]:
        """Chain blocks that end after a position, in the order of the log."""

    def outbox(self, target: str, limit: int) -> Sequence[Delivery]:
        """What is kept for a target, in the order in which it was put there.

        In a write transaction no other one sees or changes it until the end.
        """

    def last_chain_block(self) -> ChainBlock | None:
        """The chain block that ends last; None if there is none."""

    def intake(self, limit: int) -> Sequence[Intake]:
        """Work that other programs have left, oldest first, without what was refused before.

        In a write transaction it stays ours until the end.
        """

    def refused_intake(self, limit: int) -> Sequence[RefusedIntake]:
        """Work that other programs have left and that was refused, oldest first."""

    def runs(self, ids: Collection[str]) -> Iterable[Run]:
        """Runs by id, live or ended."""

    def used_blobs(self, digests: Collection[str]) -> set[str]:
        """Those of these digests that some evidence names."""


class WriteTransaction(ReadTransaction, Protocol):
    """The write transaction: all of it lands, or nothing."""

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """Nobody else changes these, their trees, or the trees that wait for them until the end."""

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        """Due work by rank that no other transaction is taking; it stays ours until the end."""

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        """How many leases stand under each limited key; the count stays true until the end.

        Keys are `intent:NAME`, `project:NAME` and `key:NAME`.
        """

    def due(self, limit: int, now: int) -> DueTimers:
        """What time has brought, oldest first."""

    def reset_clock(self) -> int:
        """Set time and leases back to the wall clock; the answer is by how many microseconds."""

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        """Prolong leases in one statement; the answer is those that are still held."""

    def rows_for_update(self, table: str) -> Mapping[str, Any]:
        """As `rows`, for whoever changes some of them: others who do wait for the end of this."""

    def put_rows(self, table: str, rows: Mapping[str, Any]) -> None:
        """Write named JSON values; None removes a name."""

    def save(self, changes: Changes) -> None:
        """Append the events and write the rows.

        A stream that has moved on since it was loaded is refused with `version_conflict`.
        """

    def put_intake(self, operation: str, body: str, idempotency_key: str | None = None) -> None:
        """Leave work to be taken in, as other programs do with an INSERT of their own."""

    def end_intake(self, taken: Collection[int], refused: Mapping[int, str]) -> None:
        """Remove what was taken in; what was refused stays, with the reason."""

    def delete_expired_keys(self, now: int, limit: int) -> int:
        """Remove idempotency keys that have expired, at most so many; how many went."""

    def put_outbox(self, rows: Sequence[Delivery]) -> None:
        """Keep new deliveries, in this order."""

    def update_outbox(self, rows: Sequence[Delivery]) -> None:
        """Note when each is due next, how often it was tried, and how that went."""

    def delete_outbox(self, ids: Collection[int]) -> None:
        """Remove deliveries that are done or not wanted any more."""

    def put_chain_block(self, block: ChainBlock) -> None:
        """Write a chain block; `version_conflict` if it begins before the end of the last one."""

    def clear_rows(self) -> None:
        """Empty the tables of `REBUILT`; whoever asks for it writes them anew before the end."""

    def trim(self, upto: int) -> int:
        """Remove events up to a position, which is before the last one; how many went."""


class Store(Protocol):
    """One database. `write` is used by one thread at a time; `read` by any."""

    url: str

    @property
    def blobs(self) -> Blobs:
        """Bytes by their digest: evidence, and whatever is too large for a row."""

    @property
    def outputs(self) -> Outputs | None:
        """Where runs write what other machines read; None: into files, on the disk they share."""

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """A consistent view that blocks nobody."""

    def write(self) -> AbstractContextManager[WriteTransaction]:
        """The write transaction: durable when the block is left, undone if it raises."""

    def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until the log may have grown past a position; a hint, may be late or early."""

    def notify(self) -> None:
        """Wake the threads that wait, in this process and in others: a hint after a commit."""

    def close(self) -> None:
        """Let go of files and connections."""
