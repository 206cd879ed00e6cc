"""Events of a job, its plan, and its checkpoints, signals and waits."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from detent.kernel.events.record import Event, event


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
    """Only in foreign streams: detent queues a job when it is created."""


@event("job")
class JobRequeued(Event):
    """The job is queued again. `reason`: `due` after its delay, `released` before its delay was
    over, `handed_back`, `lost`, `retried` by a person with new counts, or the class of a failure
    that is retried immediately.
    """

    reason: str


@event("job")
class JobLeased(Event):
    """Only in foreign streams: claims in detent write `job_running`."""


@event("job")
class JobRunning(Event):
    """A claim, with a new fence. It has a run unless the job has a plan, whose steps have runs."""

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
    """A waiting or parked job is queued again because its wait ended.

    `outcome`: signalled, answered, expired, default, due, raised, available or unblocked.
    """

    wait: str
    outcome: str
    value: Any = None
    #: The step that waited, which from now on wants its resource again.
    step: str | None = None


@event("job")
class JobRetrying(Event):
    error_class: str
    not_before: int
    #: The next claim is a new attempt; otherwise it goes on with the same one.
    counted: bool = True


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
class JobReprioritised(Event):
    """The priority of its task was changed, which changes its rank in the queue."""

    priority: str
    #: The start of a delayed job, from which its rank is counted. 0 in events of versions that
    #: counted it from the creation of the job.
    not_before: int = 0


@event("job")
class JobForked(Event):
    """The job was created as a copy of another job up to a named checkpoint."""

    source: str
    until: str


@event("job")
class JobDeleted(Event):
    """The tombstone of a deleted job without a task."""

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


@event("wait")
class WaitEnded(Event):
    """The wait of a plan step or of a live run ended while its job was queued or running."""

    outcome: str
    value: Any = None
    step: str | None = None


@event("wait")
class WaitPostponed(Event):
    """What the wait is for is still missing: when it is checked again, if ever."""

    due_at: int | None
