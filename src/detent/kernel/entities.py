"""The entities: task, job, run, step, wait, signal, checkpoint, comment, resource. Immutable.

A database row is an entity, column by column, and so is the fold of a stream of events. They are
named tuples because the kernel replaces fields more often than anything else, which is four times
as fast as with a frozen dataclass.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = {}
#: In the options of a task or job: the time before which it is not started, in microseconds.
NOT_BEFORE = "not_before"
#: In the options of a task: the person who is to deal with it. Callers cannot set it as an option.
ASSIGNED_TO = "assigned_to"


class Task(NamedTuple):
    """Requested work, with one task lifecycle that is fixed at creation."""

    id: str
    project: str
    lifecycle: str
    state: str
    state_at: int
    intent: str
    source: str
    priority: str
    root_id: str
    parent_id: str | None = None
    depth: int = 0
    #: How many jobs it has had, and the latest of them.
    jobs: int = 0
    job_id: str | None = None
    #: Dependencies that are not done yet, and the one that failed last, if one did.
    depends_on: tuple[str, ...] = ()
    open_dependencies: int = 0
    failed_dependency: str | None = None
    #: Descendants that are not settled yet, all that were ever made, and the last that failed.
    open_subtasks: int = 0
    subtasks: int = 0
    failed_subtask: str | None = None
    #: Descendants that were settled without being completed: handled or dismissed.
    settled: tuple[str, ...] = ()
    #: Why it is blocked, and what is shown about it. `retries_left` counts the pending retry too,
    #: so 0 means that only a person can unblock it.
    blocked_by: str | None = None
    blocked_detail: Mapping[str, Any] = NOTHING
    retries_left: int | None = None
    #: The last answer, to recognise a repeated one.
    answered: Mapping[str, Any] | None = None
    rounds: int = 0
    comment: str | None = None
    session_id: str | None = None
    budget: int | None = None
    spent: int = 0
    cancel_reason: str | None = None
    options: Mapping[str, Any] = NOTHING
    created_by: str = ""
    created_at: int = 0

    @property
    def state_text(self) -> str:
        """The state for a message: `running`, `blocked (question)`."""
        return f"{self.state} ({self.blocked_by})" if self.blocked_by else self.state


class Job(NamedTuple):
    """One durable execution, of a task or without one."""

    id: str
    project: str
    state: str
    state_at: int
    intent: str
    priority: str
    rank: int
    root_id: str
    task_id: str | None = None
    parent_job_id: str | None = None
    queued_at: int = 0
    not_before: int = 0
    attempt: int = 0
    #: The next claim continues the same attempt (after a wait, a hand-back, a rate limit).
    resuming: bool = False
    #: Failed attempts by class since the last retry by a person.
    failures: Mapping[str, int] = NOTHING
    #: Workers lost since the last progress.
    lost: int = 0
    #: The grant: only a worker with this fence and nonce may report. The fence only increases.
    fence: int = 0
    nonce: str | None = None
    worker: str | None = None
    runs: int = 0
    run_id: str | None = None
    cancel_reason: str | None = None
    plan_version: int = 0
    replans: int = 0
    #: A new plan version is wanted before any other step starts.
    plan_wanted: bool = False
    #: It has had a wait or a signal: these are loaded with the job.
    waited: bool = False
    concurrency_key: str | None = None
    queue_deadline: int | None = None
    job_deadline: int | None = None
    options: Mapping[str, Any] = NOTHING
    result: Any = None
    error_class: str | None = None
    error: str | None = None
    created_at: int = 0
    ended_at: int | None = None


class Run(NamedTuple):
    """One execution under one lease, ended once; an attempt that waits has several."""

    id: str
    job_id: str
    state: str
    attempt: int
    fence: int
    worker: str
    queued_at: int
    step: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    exit_code: int | None = None
    error_class: str | None = None
    error: str | None = None
    session_id: str | None = None
    cost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    progress: float | None = None
    note: str | None = None
    #: What it may cost in total, reserved in the budgets above it.
    reserved: int | None = None
    #: What a suspended run waits for.
    reason: str | None = None


class Step(NamedTuple):
    """One node of a job's plan, keyed by job, plan version and name."""

    job_id: str
    plan_version: int
    name: str
    state: str
    state_at: int
    retries: int = 0
    lost: int = 0
    not_before: int = 0
    run_id: str | None = None
    resource: str | None = None
    #: The resource that it held last: preferred when it continues.
    last_resource: str | None = None
    #: Until when a suspended step keeps its resource.
    held_until: int | None = None
    avoid: tuple[str, ...] = ()
    #: The confirmation that it waits or waited for.
    wait: str | None = None
    reason: str | None = None
    result: Any = None
    error_class: str | None = None
    error: str | None = None


class Wait(NamedTuple):
    """What a suspended job, or a suspended step of its plan, waits for."""

    job_id: str
    name: str
    kind: str
    begun_at: int
    step: str | None = None
    #: The names of the signals that end it, and how many of them are missing.
    needs: tuple[str, ...] = ()
    missing: int = 0
    due_at: int | None = None
    detail: Mapping[str, Any] = NOTHING


class Signal(NamedTuple):
    """A named value sent to a job, kept until a wait takes it. A name is delivered once."""

    job_id: str
    name: str
    at: int
    value: Any = None
    taken: bool = False


class Checkpoint(NamedTuple):
    """A recorded result inside a job: of a durable step (`run.step`), an effect, or a wait."""

    job_id: str
    name: str
    kind: str
    done: bool
    value: Any = None
    step: str | None = None


class Comment(NamedTuple):
    """What decisions need of a comment on a diff. Its text is only in the log.

    No table has it: it is read from the stream of its task for the commands that need it.
    """

    id: str
    author: str
    open: bool = True
    #: By the id of each reply, who wrote it.
    replies: Mapping[str, str] = NOTHING


class Health(NamedTuple):
    """What ended runs have shown about a provider, and its usage today. Times in microseconds."""

    #: Until when its rate limit holds, and whether the provider stated this time.
    limited_until: int = 0
    stated: bool = False
    #: Failures of its service in a row, and until when the circuit breaker is open (0: closed).
    failures: int = 0
    open_until: int = 0
    #: The error of the last rate limit or failure, and its time.
    error: str | None = None
    failed_at: int = 0
    #: The day of the usage, in days since 1970; ended runs, rate limits, tokens and cost.
    day: int = 0
    runs: int = 0
    limits: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0


class Resource(NamedTuple):
    """Something a plan step must hold while it runs: a device, an account, a licence."""

    id: str
    capabilities: tuple[str, ...]
    labels: Mapping[str, str] = NOTHING
    capacity: int = 1
    healthy: bool = True
    in_use: int = 0
    #: The service of a provider, such as `anthropic`. Other resources have none, and no health.
    service: str | None = None
    #: Whether the provider is the account of a person: such accounts are not rotated.
    personal: bool = False
    health: Health = Health()


def _replace(entity: Any, /, **changes: Any) -> Any:
    """Replace fields as `_replace` of a named tuple does, but four times as fast."""
    kind = type(entity)
    places = PLACES[kind]
    values = list(entity)
    for name, value in changes.items():
        values[places[name]] = value
    return tuple.__new__(kind, values)


ENTITIES = (Task, Job, Run, Step, Wait, Signal, Checkpoint, Comment, Resource)
PLACES = {kind: {name: at for at, name in enumerate(kind._fields)} for kind in ENTITIES}
for _kind in ENTITIES:
    setattr(_kind, "_replace", _replace)  # noqa: B010 - type checkers must still see the original
