"""What happened: every event of the log as a frozen, versioned type, past tense.

An event carries only what happened; where (stream, subject), when and by whom stand in its envelope, `Record`.
A job's stream holds the events of its runs, steps, waits and checkpoints; a task has a stream of its own.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, dataclass_transform


class Event:
    """One thing that happened. `level` says which entity it moves."""

    __slots__ = ()
    name: ClassVar[str]
    level: ClassVar[str]
    version: ClassVar[int]


class Record(NamedTuple):
    """An event with its envelope, as decided and not yet in the log."""

    stream: str
    subject: str | None
    event: Event
    at: int
    actor: str


E = TypeVar("E", bound=type[Event])
EVENTS: dict[str, type[Event]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event(level: str, version: int = 1) -> Callable[[E], E]:
    """Declare an event type: its name is the class's name in snake case."""

    def declare(cls: E) -> E:
        made = cast(E, dataclass(frozen=True, slots=True)(cls))
        made.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        made.level = level
        made.version = version
        EVENTS[made.name] = made
        return made

    return declare


# ---- tasks -----------------------------------------------------------------------------------


@event("task")
class TaskCreated(Event):
    project: str
    lifecycle: str
    intent: str
    source: str
    priority: str
    root_id: str
    parent_id: str | None = None
    depth: int = 0
    title: str = ""
    payload: Any = None
    tags: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    open_dependencies: int = 0
    budget: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@event("task")
class TaskQueued(Event):
    #: The new job that this calls for.
    job_id: str


@event("task")
class TaskStarted(Event):
    run_id: str


@event("task")
class TaskBlocked(Event):
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    retries_left: int | None = None


@event("task")
class TaskUnblocked(Event):
    """`reason` is the one that is gone. Names the wait that ends, or the new job that this calls for."""

    reason: str | None = None
    wait: str | None = None
    outcome: str = "unblocked"
    value: Any = None
    job_id: str | None = None


@event("task")
class TaskReady(Event):
    pass


@event("task")
class TaskCompleted(Event):
    pass


@event("task")
class TaskFailed(Event):
    error_class: str | None = None
    error: str | None = None


@event("task")
class TaskTimedOut(Event):
    error: str | None = None


@event("task")
class TaskBudgetExceeded(Event):
    spent: int
    budget: int | None = None


@event("task")
class TaskCancelled(Event):
    reason: str


@event("task")
class TaskAccepted(Event):
    comment: str | None = None


@event("task")
class TaskRejected(Event):
    round: int
    comment: str | None = None


@event("task")
class TaskRetried(Event):
    job_id: str | None = None


@event("task")
class TaskResumed(Event):
    job_id: str | None = None


@event("task")
class TaskAnswered(Event):
    """`question` names the wait that the answer ends."""

    answer: Any
    question: str
    outcome: str = "answered"


@event("task")
class TaskEdited(Event):
    """New values of what a person may change: title, payload, tags, priority, budget, options."""

    changes: Mapping[str, Any]


@event("task")
class TaskCancelRequested(Event):
    reason: str


@event("task")
class TaskCharged(Event):
    amount: int
    run_id: str


@event("task")
class BudgetWarned(Event):
    """Eighty percent of the budget is spent."""

    spent: int
    budget: int


@event("task")
class BudgetRaised(Event):
    budget: int


@event("task")
class SessionOpened(Event):
    """The agent's session id, chosen before its process starts so that a crash cannot lose it."""

    session_id: str


@event("task")
class DependencyDone(Event):
    task_id: str


@event("task")
class DependencyFailed(Event):
    task_id: str
    state: str


@event("task")
class SubtaskAdded(Event):
    task_id: str


@event("task")
class SubtaskDone(Event):
    task_id: str


@event("task")
class SubtaskFailed(Event):
    task_id: str
    state: str


@event("task")
class TaskDeleted(Event):
    """A tombstone: what was removed, counted, so that an audit still closes."""

    reason: str
    events: int = 0
    jobs: int = 0
    runs: int = 0


# ---- jobs ------------------------------------------------------------------------------------


@event("job")
class JobCreated(Event):
    project: str
    intent: str
    priority: str
    root_id: str
    task_id: str | None = None
    parent_job_id: str | None = None
    payload: Any = None
    concurrency_key: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@event("job")
class JobQueued(Event):
    """Known from foreign streams only: our own jobs are queued by their creation."""


@event("job")
class JobRequeued(Event):
    """`due` after a delay, `handed_back`, `lost`, `retried` by a person, or the class of a failure to retry at once."""

    reason: str


@event("job")
class JobLeased(Event):
    """Known from foreign streams only: our claims write `job_running`."""


@event("job")
class JobRunning(Event):
    """A claim: a new fence, and a new run unless the job has a plan, whose steps have the runs."""

    worker: str
    nonce: str
    fence: int
    attempt: int
    run_id: str | None = None


@event("job")
class JobWaiting(Event):
    reason: str


@event("job")
class JobParked(Event):
    reason: str


@event("job")
class WaitCompleted(Event):
    """`outcome`: signalled, answered, expired, default, due, raised, available or unblocked."""

    wait: str
    outcome: str
    value: Any = None


@event("job")
class JobRetrying(Event):
    error_class: str
    not_before: int


@event("job")
class JobCompleted(Event):
    result: Any = None


@event("job")
class JobFailed(Event):
    error_class: str
    error: str
    quarantined: bool = False


@event("job")
class JobCancelled(Event):
    reason: str


@event("job")
class JobCancelRequested(Event):
    reason: str


@event("job")
class JobForked(Event):
    """This job began as a copy of another one, up to a named step."""

    source: str
    until: str


@event("job")
class JobDeleted(Event):
    """A tombstone for a job that had no task."""

    reason: str
    events: int = 0
    runs: int = 0


@event("job")
class PlanGenerated(Event):
    plan_version: int
    plan: Mapping[str, Any]
    #: Steps of the former version that are kept, with their results.
    carried: Mapping[str, Any] = field(default_factory=dict)


@event("job")
class ReplanRequested(Event):
    step: str
    reason: str


@event("checkpoint")
class CheckpointRecorded(Event):
    kind: str
    value: Any = None
    step: str | None = None


@event("checkpoint")
class EffectBegun(Event):
    policy: str
    step: str | None = None


@event("signal")
class SignalReceived(Event):
    value: Any = None


@event("wait")
class WaitBegun(Event):
    kind: str
    step: str | None = None
    needs: tuple[str, ...] = ()
    due_at: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


# ---- steps -----------------------------------------------------------------------------------


@event("step")
class StepPending(Event):
    plan_version: int
    reason: str | None = None


@event("step")
class StepWaitingDeps(Event):
    on: tuple[str, ...] = ()


@event("step")
class StepLeased(Event):
    resource: str


@event("step")
class StepRunning(Event):
    resource: str


@event("step")
class StepSucceeded(Event):
    result: Any = None


@event("step")
class StepFailedRetryable(Event):
    error_class: str
    error: str


@event("step")
class StepRetrying(Event):
    not_before: int


@event("step")
class StepFailedResource(Event):
    resource: str
    error: str


@event("step")
class StepSwitchingResource(Event):
    avoid: tuple[str, ...]


@event("step")
class StepFailedFatal(Event):
    error_class: str
    error: str


@event("step")
class StepFailed(Event):
    reason: str


@event("step")
class StepNeedsUser(Event):
    wait: str


@event("step")
class StepLeaseTimeout(Event):
    reason: str


# ---- runs ------------------------------------------------------------------------------------


@event("run")
class RunQueued(Event):
    worker: str
    fence: int
    attempt: int
    step: str | None = None
    resource: str | None = None


@event("run")
class RunStarted(Event):
    pass


@event("run")
class RunSucceeded(Event):
    """`outcome` is done or suspended; a suspended run says for which wait."""

    outcome: str = "done"
    exit_code: int | None = None
    wait: str | None = None
    #: Until when a suspended step keeps its resource.
    held_until: int | None = None


@event("run")
class RunFailed(Event):
    error_class: str
    error: str
    exit_code: int | None = None
    #: When a stated rate limit is over.
    reset_at: int | None = None


@event("run")
class RunTimedOut(Event):
    """`limit`: run (the whole attempt) or idle (no output for too long)."""

    limit: str
    error: str


@event("run")
class RunCancelled(Event):
    """`reason`: cancelled, worker_lost, handed_back."""

    reason: str


@event("run")
class RunCharged(Event):
    cost: int
    tokens_in: int = 0
    tokens_out: int = 0


@event("run")
class RunProgressed(Event):
    progress: float | None = None
    note: str | None = None


@event("run")
class EvidenceAdded(Event):
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"
