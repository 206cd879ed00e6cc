"""The values that go into a store and come out of it. All times are integer microseconds."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from detent.kernel.entities import Checkpoint, Job, Run, Signal, Step, Task, Wait
from detent.kernel.events import Record

# ---- written -------------------------------------------------------------------------------


class NewEvent(NamedTuple):
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


class IdempotencyKey(NamedTuple):
    """An idempotency key: within its project it stands for one body and one answer."""

    project: str
    key: str
    digest: str
    answer: Any
    expires_at: int


class Changes(NamedTuple):
    """Everything one batch writes. Versions stand beside the rows: `versions[stream]`."""

    entries: Sequence[NewEvent] = ()
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
    evidence: Sequence[NewEvent] = ()
    queue: Sequence[QueueRow] = ()
    leases: Sequence[LeaseRow] = ()
    unqueued: Sequence[str] = ()
    deadlines: Sequence[tuple[str, int | None]] = ()
    keys: Sequence[IdempotencyKey] = ()
    deleted_tasks: Sequence[str] = ()
    deleted_jobs: Sequence[str] = ()


# ---- read ----------------------------------------------------------------------------------


class LoggedEvent(NamedTuple):
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


class ChainBlock(NamedTuple):
    """A block of the hash chain: a range of the log, its number of events, the chain at its end."""

    from_position: int
    to_position: int
    events: int
    chain: bytes
    at: int


class ClaimFilter(NamedTuple):
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


class DueTimers(NamedTuple):
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


class Intake(NamedTuple):
    """Work that another program has left for detent: an operation's name and its input as JSON."""

    id: int
    operation: str
    body: str
    idempotency_key: str | None


class RefusedIntake(NamedTuple):
    """Work that another program has left and detent has refused: when, and the error as JSON."""

    id: int
    operation: str
    body: str
    idempotency_key: str | None
    at: int
    error: str
