"""The rows and values that a store writes and reads. All times are integer microseconds."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detent.kernel.entities import Checkpoint, Job, Run, Signal, Step, Task, Wait
from detent.kernel.events import Record
from detent.kernel.fair_shares import EQUAL, Shares

# ---- written -------------------------------------------------------------------------------


class NewEvent(NamedTuple):
    """An event to append to the log. `version` counts the events of its stream from 1."""

    stream: str
    version: int
    project: str
    record: Record


class NewTask(NamedTuple):
    """The first row of a task, with the fields that the kernel does not use."""

    task: Task
    title: str
    payload: Any
    tags: tuple[str, ...]


class NewJob(NamedTuple):
    """The first row of a job, with its payload."""

    job: Job
    payload: Any


class QueueRow(NamedTuple):
    """A job that can be claimed from `due_at` on, lowest rank first.

    `lane` determines which workers can claim it; see `kernel.lane`.
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
    """The lease of a job: its row in the queue is not claimable until the lease ends."""

    job_id: str
    worker: str
    fence: int
    until: int


class IdempotencyKey(NamedTuple):
    """An idempotency key of a project, with the digest of its body and the first result."""

    project: str
    key: str
    digest: str
    answer: Any
    expires_at: int


class Changes(NamedTuple):
    """Everything one batch writes. `versions` has the new version of each stream."""

    entries: Sequence[NewEvent] = ()
    versions: Mapping[str, int] = {}
    new_tasks: Sequence[NewTask] = ()
    tasks: Sequence[Task] = ()
    edits: Mapping[str, Mapping[str, Any]] = {}
    new_jobs: Sequence[NewJob] = ()
    jobs: Sequence[Job] = ()
    #: Ids among these jobs of which only the version of the stream changes.
    unchanged: Collection[str] = ()
    new_runs: Sequence[Run] = ()
    runs: Sequence[Run] = ()
    steps: Sequence[Step] = ()
    plans: Mapping[str, tuple[int, Mapping[str, Any]]] = {}
    waits: Sequence[Wait] = ()
    ended_waits: Sequence[tuple[str, str]] = ()
    signals: Sequence[Signal] = ()
    #: Ended jobs whose waits and signals are deleted.
    unwaited: Sequence[str] = ()
    #: Ids among these tasks and jobs that are in a terminal state.
    ended: Collection[str] = ()
    checkpoints: Sequence[Checkpoint] = ()
    evidence: Sequence[NewEvent] = ()
    queue: Sequence[QueueRow] = ()
    leases: Sequence[LeaseRow] = ()
    unqueued: Sequence[str] = ()
    deadlines: Sequence[tuple[str, int | None]] = ()
    keys: Sequence[IdempotencyKey] = ()
    limits: Mapping[str, Any] = {}
    #: Rows of lifecycles by id.
    lifecycles: Mapping[str, Any] = {}
    deleted_tasks: Sequence[str] = ()
    deleted_jobs: Sequence[str] = ()

    def named_rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The tables of named values that change, with their rows."""
        for table, rows in (("limits", self.limits), ("lifecycles", self.lifecycles)):
            if rows:
                yield table, rows


# ---- read ----------------------------------------------------------------------------------


class LoggedEvent(NamedTuple):
    """An event read from the log. `data` is its JSON text, empty after it was blanked."""

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
    """A message to an external target: the event that it is about, and when it is due.

    The store assigns the id; it is 0 before.
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
    """Which jobs a worker can claim: its intents and projects, minus paused and full ones.

    `shares` is the order between projects; within a project the order is that of rank.
    """

    intents: Collection[str] | None = None
    projects: Collection[str] | None = None
    paused_intents: Collection[str] = ()
    paused_projects: Collection[str] = ()
    full_keys: Collection[str] = ()
    shares: Shares = EQUAL


class Candidate(NamedTuple):
    """A job that can be claimed now."""

    job_id: str
    intent: str
    project: str
    concurrency_key: str | None
    #: If the job is plain (see `job_sets`), what decisions about it depend on as JSON text: its
    #: options, or a list of the lifecycle of its task, the task's options and its own.
    plain: str | None = None


class DueTimers(NamedTuple):
    """Due timers: expired leases (job, fence), expired waits (job, wait), jobs over a deadline."""

    leases: Sequence[tuple[str, int]]
    waits: Sequence[tuple[str, str]]
    deadlines: Sequence[str]


class Query(NamedTuple):
    """A page of rows of one of the tables of `LISTED`.

    `where` maps a column to a value, to None (is null), to a list (any of them), or to a pair
    (operator, value) with one of < <= > >=; `tags` matches a task that has the given tag.
    `search` is a text that one of the table's columns in `SEARCHED` contains, in any letter case.
    In jobs and runs, the title of the task may contain it too.
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
    """A submission of another program: the name of an operation and its input as JSON."""

    id: int
    operation: str
    body: str
    idempotency_key: str | None


class RefusedIntake(NamedTuple):
    """A refused submission of another program, with the time and the error as JSON."""

    id: int
    operation: str
    body: str
    idempotency_key: str | None
    at: int
    error: str
