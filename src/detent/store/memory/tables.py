"""The tables of the memory store: one dict for each table, keyed like the database table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

import msgspec

from detent.kernel.entities import Checkpoint, Job, Run, Signal, Step, Task, Wait
from detent.store.codec import from_json, to_json
from detent.store.table_names import TABLES
from detent.store.types import ChainBlock, Delivery, IdempotencyKey, Intake, LoggedEvent

Row = TypeVar("Row", bound=tuple[Any, ...])


class TaskRow(NamedTuple):
    task: Task
    version: int
    title: str
    payload: Any
    tags: tuple[str, ...]


class JobRow(NamedTuple):
    job: Job
    version: int
    payload: Any


class Queued(NamedTuple):
    """A job in the queue: claimable if `worker` is None, leased otherwise."""

    job_id: str
    root_id: str
    project: str
    intent: str
    rank: int
    due_at: int
    concurrency_key: str | None
    lane: str
    worker: str | None = None
    fence: int = 0
    lease_until: int | None = None


class Evidence(NamedTuple):
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str
    at: int


@dataclass(slots=True)
class Tables:
    """All tables of a database. The keys of a job's parts begin with the job."""

    now: int = 0
    #: How often the store's time was reset.
    resets: int = 0
    log: list[LoggedEvent] = field(default_factory=list)
    #: The number of events of each stream; kept after its rows are deleted.
    versions: dict[str, int] = field(default_factory=dict)
    chain_blocks: list[ChainBlock] = field(default_factory=list)
    tasks: dict[str, TaskRow] = field(default_factory=dict)
    jobs: dict[str, JobRow] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    evidence: dict[tuple[str, str], Evidence] = field(default_factory=dict)
    steps: dict[tuple[str, int, str], Step] = field(default_factory=dict)
    plans: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    waits: dict[tuple[str, str], Wait] = field(default_factory=dict)
    signals: dict[tuple[str, str], Signal] = field(default_factory=dict)
    checkpoints: dict[tuple[str, str], Checkpoint] = field(default_factory=dict)
    queue: dict[str, Queued] = field(default_factory=dict)
    deadlines: dict[str, int] = field(default_factory=dict)
    keys: dict[tuple[str, str], IdempotencyKey] = field(default_factory=dict)
    #: With the time and the error of each that was refused.
    intake: dict[int, tuple[Intake, tuple[int, str] | None]] = field(default_factory=dict)
    outbox: dict[int, Delivery] = field(default_factory=dict)
    #: The small tables of named values.
    named: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in TABLES})

    @property
    def head(self) -> int:
        """The position of the last event; positions only grow, also when early events are gone."""
        return self.log[-1].position if self.log else 0

    def copy(self) -> "Tables":
        """Copy the containers; the rows in them are immutable and shared."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        clock = (held.pop("now"), held.pop("resets"))
        return Tables(*clock, **{name: table.copy() for name, table in held.items()})


def stored(row: Row) -> Row:
    """A copy of a row with values as a database returns them: decoded from JSON."""
    made: Row = msgspec.convert(stored_value(row), type(row))
    return made


def stored_value(value: Any) -> Any:
    return from_json(to_json(value))
