"""How events change a step of a plan."""

from detent.errors import Broken
from detent.kernel import events as e
from detent.kernel.entities import Step
from detent.kernel.evolve.table import CHANGES, STEP, next_state, on

#: Failures that are not the step's fault: they use up none of its retries.
UNCOUNTED = frozenset({"lost", "rate_limit"})


def evolve_step(step: Step | None, record: e.Record) -> Step:
    event = record.event
    if step is None:
        return step_pending(record)
    state = next_state(STEP, step.state, event)
    if state != step.state:
        step = step._replace(state=state, state_at=record.at)
    changed: Step = CHANGES[type(event)](step, event, record.at, state)
    return changed


def step_pending(record: e.Record) -> Step:
    event = record.event
    if not isinstance(event, e.StepPending) or record.subject is None:
        raise Broken(f"the step {record.subject} begins with {event.name}, not with step_pending")
    return Step(record.stream, event.plan_version, record.subject, "pending", record.at)


def _let_go(step: Step) -> Step:
    """Remove the run and the resource of a step whose run has ended."""
    return step._replace(run_id=None, resource=None, held_until=None)


@on(e.StepPending)
def _step_pending(step: Step, event: e.StepPending, at: int, state: str) -> Step:
    return _let_go(step)._replace(reason=event.reason)


@on(e.StepWaitingDeps)
def _step_waiting(step: Step, event: e.StepWaitingDeps, at: int, state: str) -> Step:
    return step


@on(e.StepLeased)
def _step_leased(step: Step, event: e.StepLeased, at: int, state: str) -> Step:
    return step._replace(
        resource=event.resource, last_resource=event.resource, held_until=None, reason=None
    )


@on(e.StepRunning)
def _step_running(step: Step, event: e.StepRunning, at: int, state: str) -> Step:
    return step._replace(
        resource=event.resource,
        last_resource=event.resource,
        held_until=None,
        reason=None,
        not_before=0,
    )


@on(e.StepSucceeded)
def _step_succeeded(step: Step, event: e.StepSucceeded, at: int, state: str) -> Step:
    return _let_go(step)._replace(result=event.result, error=None, error_class=None)


@on(e.StepFailedRetryable)
def _step_failed_retryable(step: Step, event: e.StepFailedRetryable, at: int, state: str) -> Step:
    return _let_go(step)._replace(
        retries=step.retries + (event.error_class not in UNCOUNTED),
        lost=step.lost + (event.error_class == "lost"),
        error_class=event.error_class,
        error=event.error,
    )


@on(e.StepRetrying)
def _step_retrying(step: Step, event: e.StepRetrying, at: int, state: str) -> Step:
    return step._replace(not_before=event.not_before)


@on(e.StepFailedResource)
def _step_failed_resource(step: Step, event: e.StepFailedResource, at: int, state: str) -> Step:
    return _let_go(step)._replace(error_class="resource", error=event.error)


@on(e.StepSwitchingResource)
def _step_switching(step: Step, event: e.StepSwitchingResource, at: int, state: str) -> Step:
    return step._replace(avoid=tuple(event.avoid))


@on(e.StepFailedFatal)
def _step_failed_fatal(step: Step, event: e.StepFailedFatal, at: int, state: str) -> Step:
    return _let_go(step)._replace(error_class=event.error_class, error=event.error)


@on(e.StepFailed)
def _step_failed(step: Step, event: e.StepFailed, at: int, state: str) -> Step:
    return step._replace(reason=event.reason)


@on(e.StepNeedsUser)
def _step_needs_user(step: Step, event: e.StepNeedsUser, at: int, state: str) -> Step:
    return _let_go(step)._replace(wait=event.wait)


@on(e.StepLeaseTimeout)
def _step_lease_timeout(step: Step, event: e.StepLeaseTimeout, at: int, state: str) -> Step:
    return _let_go(step)._replace(reason=event.reason)


@on(e.StepHoldEnded)
def _step_hold_ended(step: Step, event: e.StepHoldEnded, at: int, state: str) -> Step:
    return step._replace(resource=None, held_until=None)
