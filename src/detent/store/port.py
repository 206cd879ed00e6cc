"""The contract of a store: set-based reads and one write, all inside transactions.

A store decides nothing. Three implementations keep the contract: memory (the reference), SQLite
and PostgreSQL; `detent.testing.conformance` holds them to it. All times are integer microseconds
of the store's own clock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.events import JobDeleted, Record, TaskDeleted
from detent.kernel.plan import Plan
from detent.store.blobs import Blobs, Outputs
from detent.store.intake import Intake as Intake
from detent.store.intake import RefusedIntake as RefusedIntake

#: Small tables of named JSON values, outside the log; only `limits` follows from it.
TABLES = (
    "projects",
    "intents",
    "workers",
    "schedules",
    "resources",
    "limits",
    "tokens",
    "system_state",
    "webhooks",
    "notion_pages",
)

#: Tables whose rows follow from the log alone. Everything else is kept when they are made anew.
REBUILT = (
    "tasks",
    "dependencies",
    "jobs",
    "runs",
    "evidence",
    "plans",
    "steps",
    "waits",
    "signals",
    "checkpoints",
    "queue",
    "deadlines",
)

#: Events that keep what they say when the work that they are about is deleted.
TOMBSTONES = (TaskDeleted.name, JobDeleted.name)

#: The row of `system_state` that says up to which position the log was trimmed.
TRIMMED = "trimmed"
#: The row that says up to which position the log was sealed.
SEALED = "sealed"
#: The row with the seals that came late and were accepted: the chain's value by its position.
LATE = "late_seals"

# ---- what goes in --------------------------------------------------------------------------


class Entry(NamedTuple):
    """One event as the log keeps it. `version` counts the events of its stream from 1."""

    stream: str
    version: int
    project: str
    record: Record


class NewTask(NamedTuple):
    """A task's first row, with what the kernel does not look at."""

    task: Task
    title: str
    payload: Any
    tags: tuple[str, ...]


class NewJob(NamedTuple):
    job: Job
    payload: Any


class QueueRow(NamedTuple):
    """Work that may be claimed once `due_at` has come, lowest rank first; only that has one.

    `lane` says which workers may claim it, see `kernel.lane`.
    """

    job_id: str
    root_id: str
    project: str
    intent: str
    rank: int
    due_at: int
    concurrency_key: str | None
    lane: str


class LeaseRow(NamedTuple):
    """Work that a worker holds: the queue's row, taken out of the queue until the lease ends."""

    job_id: str
    worker: str
    fence: int
    until: int


class Key(NamedTuple):
    """An idempotency key: within its project it stands for one body and one answer."""

    project: str
    key: str
    digest: str
    answer: Any
    expires_at: int


class Changes(NamedTuple):
    """Everything one batch writes. Versions stand beside the rows: `versions[stream]`."""

    entries: Sequence[Entry] = ()
    versions: Mapping[str, int] = {}
    new_tasks: Sequence[NewTask] = ()
    tasks: Sequence[Task] = ()
    edits: Mapping[str, Mapping[str, Any]] = {}
    new_jobs: Sequence[NewJob] = ()
    jobs: Sequence[Job] = ()
    new_runs: Sequence[Run] = ()
    runs: Sequence[Run] = ()
    steps: Sequence[Step] = ()
    plans: Mapping[str, tuple[int, Mapping[str, Any]]] = {}
    waits: Sequence[Wait] = ()
    ended_waits: Sequence[tuple[str, str]] = ()
    signals: Sequence[Signal] = ()
    ended_jobs: Sequence[str] = ()
    checkpoints: Sequence[Checkpoint] = ()
    evidence: Sequence[Entry] = ()
    queue: Sequence[QueueRow] = ()
    leases: Sequence[LeaseRow] = ()
    unqueued: Sequence[str] = ()
    deadlines: Sequence[tuple[str, int | None]] = ()
    keys: Sequence[Key] = ()
    limits: Mapping[str, Any] = {}
    deleted_tasks: Sequence[str] = ()
    deleted_jobs: Sequence[str] = ()


# ---- what comes out ------------------------------------------------------------------------


class Logged(NamedTuple):
    """An event read back from the log. `data` is its JSON text, empty once it was blanked."""

    position: int
    stream: str
    version: int
    project: str
    name: str
    schema: int
    subject: str | None
    at: int
    actor: str
    data: str
    digest: bytes | None


class Delivery(NamedTuple):
    """Something to be sent to a target outside: from which stream and position, and when.

    The id is the store's; 0 for one that is not stored yet.
    """

    id: int
    target: str
    stream: str
    position: int
    body: str
    due_at: int
    attempts: int = 0
    error: str | None = None


class Seal(NamedTuple):
    """A closed range of the log: how many events it has, and the chain of digests up to its end."""

    from_position: int
    to_position: int
    events: int
    chain: bytes
    at: int


class Abilities(NamedTuple):
    """What a claimer can do (`intents`: of those a lane needs one), and what it must leave now."""

    intents: Collection[str] | None = None
    projects: Collection[str] | None = None
    paused_intents: Collection[str] = ()
    paused_projects: Collection[str] = ()
    full_keys: Collection[str] = ()


class Candidate(NamedTuple):
    job_id: str
    intent: str
    project: str
    concurrency_key: str | None


class Due(NamedTuple):
    """What time has brought: lost leases (job, fence), ended waits (job, wait), passed limits."""

    leases: Sequence[tuple[str, int]]
    waits: Sequence[tuple[str, str]]
    deadlines: Sequence[str]


class Query(NamedTuple):
    """A page of rows for people, of one of the tables of `LISTED`; columns are checked too.

    `where` maps a column to a value, to None (is null), to a list (any of them), or to a pair
    (operator, value) with one of < <= > >=; `tags` matches a task that has the given tag.
    `search` is a text that one of the table's columns in `SEARCHED` contains, in any letter case.
    The order is by one column and then by the table's key; `after` is that pair of the last row.
    """

    table: str
    where: Mapping[str, Any] = {}
    order: str = ""
    descending: bool = False
    after: tuple[Any, str] | None = None
    limit: int = 100
    search: str = ""


#: Where a search looks: the words that people remember of a row.
SEARCHED: Mapping[str, tuple[str, ...]] = {
    "tasks": ("id", "title", "intent"),
    "jobs": ("id", "intent", "error"),
    "runs": ("id", "worker", "error"),
}
#: Tables that people list, with the column that identifies a row in each.
LISTED: Mapping[str, str] = {
    "tasks": "id",
    "jobs": "id",
    "runs": "id",
    "steps": "name",
    "waits": "name",
    "queue": "job_id",
    "checkpoints": "name",
    "evidence": "file",
    "questions": "job_id",
}

# ---- transactions --------------------------------------------------------------------------


class LogReading(Protocol):
    """What it takes to follow a log: a store's view has it, and a history that came as a file."""

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> Sequence[Logged]:
        """The log in commit order after a position; nothing that could still change is shown."""

    def rows(self, table: str) -> Mapping[str, Any]:
        """A small table of named JSON values: see `TABLES`."""


class Reading(LogReading, Protocol):
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

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> Iterable[Key]:
        """Idempotency keys by (project, key) that have not expired."""

    def page(self, query: Query) -> Sequence[Mapping[str, Any]]:
        """Rows of a listed table that match, column to value, JSON decoded, in order."""

    def count_by(self, query: Query, column: str) -> Mapping[Any, int]:
        """How many matching rows have each value of a column, whatever order and limit say."""

    def head(self) -> int:
        """The position of the last event that the log shows; 0 for an empty log."""

    def version_of(self, stream: str) -> int:
        """The version of a stream's last event; 0 if the log has none of it."""

    def seals(self, after: int, limit: int) -> Sequence[Seal]:
        """Seals that end after a position, in the order of the log."""

    def outbox(self, target: str, limit: int) -> Sequence[Delivery]:
        """What is kept for a target, in the order in which it was put there.

        In a write transaction no other one sees or changes it until the end.
        """

    def last_seal(self) -> Seal | None:
        """The seal that ends last."""

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


class Writing(Reading, Protocol):
    """The write transaction: all of it lands, or nothing."""

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """Nobody else changes these, their trees, or the trees that wait for them until the end."""

    def claimable(self, abilities: Abilities, limit: int, now: int) -> Sequence[Candidate]:
        """Due work by rank that no other transaction is taking; it stays ours until the end."""

    def running_by(self, keys: Collection[str]) -> Mapping[str, int]:
        """How many leases stand under each limited key; the count stays true until the end.

        Keys are `intent:NAME`, `project:NAME` and `key:NAME`.
        """

    def due(self, limit: int, now: int) -> Due:
        """What time has brought, oldest first."""

    def reset_clock(self) -> int:
        """Set time and leases back to the wall clock; the answer is by how many microseconds."""

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        """Prolong leases in one statement; the answer is those that are still held."""

    def changing(self, table: str) -> Mapping[str, Any]:
        """As `rows`, to change some of them: others who do wait for the end of this."""

    def holding(self, table: str) -> Mapping[str, Any]:
        """As `rows`; whoever changes some of them waits for the end of this."""

    def put_rows(self, table: str, rows: Mapping[str, Any]) -> None:
        """Write named JSON values; None removes a name."""

    def save(self, changes: Changes) -> None:
        """Append events, write rows; a stream that has moved on is a `version_conflict`."""

    def put_intake(self, operation: str, body: str, idempotency_key: str | None = None) -> None:
        """Leave work to be taken in, as other programs do with an INSERT of their own."""

    def end_intake(self, taken: Collection[int], refused: Mapping[int, str]) -> None:
        """Remove what was taken in; what was refused stays, with the reason."""

    def forget_keys(self, now: int, limit: int) -> int:
        """Remove idempotency keys that have expired, at most so many; how many went."""

    def put_outbox(self, rows: Sequence[Delivery]) -> None:
        """Keep new deliveries, in this order."""

    def update_outbox(self, rows: Sequence[Delivery]) -> None:
        """Note when each is due next, how often it was tried, and how that went."""

    def delete_outbox(self, ids: Collection[int]) -> None:
        """Remove deliveries that are done or not wanted any more."""

    def put_seal(self, seal: Seal) -> None:
        """Close a range. One that begins before the last one's end is a `version_conflict`."""

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

    def read(self) -> AbstractContextManager[Reading]:
        """A consistent view that blocks nobody."""

    def write(self) -> AbstractContextManager[Writing]:
        """The write transaction: durable when the block is left, undone if it raises."""

    def wait(self, after: int, timeout_s: float) -> bool:
        """Wait until the log may have grown past a position; a hint, may be late or early."""

    def ring(self) -> None:
        """Wake whoever waits in this process or elsewhere: a hint after a commit."""

    def close(self) -> None:
        """Let go of files and connections."""
