"""What happens to a job, to its plan, and to its checkpoints, signals and waits."""

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
    """Known from foreign streams only: our own jobs are queued by their creation."""


@event("job")
class JobRequeued(Event):
    """Back in the queue, why: `due` after its delay, `released` from it early, `handed_back`,
    `lost`, `retried` by a person with new counts, or the class of a failure to retry at once.
    """

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
    """A job at rest wakes. `outcome`: signalled, answered, expired, default, due, raised, available
    or unblocked.
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
    """Its task was given another priority: it has another place in the queue."""

    priority: str


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


@event("wait")
class WaitEnded(Event):
    """A wait of one step is over while the job is not at rest: it goes on in place."""

    outcome: str
    value: Any = None
    step: str | None = None


@event("wait")
class WaitPostponed(Event):
    """Its time has come and there is still nothing to go on with: when to look again, if ever."""

    due_at: int | None
