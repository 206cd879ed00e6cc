"""Events of a plan step: its state changes, named after the new state, and its resource."""

from typing import Any

from detent.kernel.events.record import Event, event


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


@event("step")
class StepHoldEnded(Event):
    """The resource of a suspended step is freed because its hold time is over."""
