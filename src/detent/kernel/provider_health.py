"""Health of providers: rate limits, the circuit breaker of their service, and usage by day.

A provider is a resource with a service, for example one API key. A rate limit concerns one
provider. Failures concern its service: the providers of a service share a circuit breaker, which
opens after three failures in a row, for 30 minutes. After that it is half-open: one step at a time
may use the service, until a run shows that it works. Pure; all times are the store's.
"""

from enum import StrEnum
from typing import NamedTuple

from detent.kernel import events as e
from detent.kernel.entities import Health, Resource, Run
from detent.kernel.retry import FailureClass, stated_reset

#: The breaker opens after this many failures in a row, for this long.
MAX_FAILURES = 3
OPEN_US = 30 * 60 * 1_000_000
#: How long a rate limit without a stated reset holds.
UNSTATED_US = 60 * 1_000_000
DAY_US = 24 * 3_600 * 1_000_000
#: How much of an error is kept.
LONGEST_ERROR = 300

#: Failures of the service. The work itself may also run out of time: that is no failure of it.
FAILURES = frozenset({FailureClass.NETWORK, FailureClass.TIMEOUT})
#: Failures whose errors are shown with the provider. A person or the operator must act on some.
SHOWN = frozenset({*FAILURES, FailureClass.RESOURCE, FailureClass.NEEDS_USER})


class State(StrEnum):
    """The state of a resource, as people see it."""

    AVAILABLE = "available"
    UNHEALTHY = "unhealthy"
    LIMITED = "limited"
    OPEN = "open"
    HALF_OPEN = "half_open"


class RunEnd(NamedTuple):
    """What the end of a run shows about its provider."""

    #: The service answered, or failed to; neither if the end shows nothing about it.
    answered: bool = False
    failed: bool = False
    #: Until when the provider is limited.
    limited_until: int | None = None
    stated: bool = False
    error: str | None = None


def state_of(resource: Resource, now: int) -> State:
    """Return the state of a resource. One that is no provider is available or unhealthy."""
    health = resource.health
    if not resource.healthy:
        return State.UNHEALTHY
    if health.open_until > now:
        return State.OPEN
    if health.limited_until > now:
        return State.LIMITED
    return State.HALF_OPEN if health.open_until else State.AVAILABLE


def is_usable(resource: Resource, now: int, users_of_service: int) -> bool:
    """Whether a step may get the resource, if it has capacity. Half-open: one step at a time."""
    state = state_of(resource, now)
    return state is State.AVAILABLE or (state is State.HALF_OPEN and users_of_service == 0)


def usable_from(resource: Resource, now: int) -> int | None:
    """Return when its rate limit and its open breaker end; None if only a person can tell."""
    if not resource.healthy:
        return None
    return max(now, resource.health.limited_until, resource.health.open_until)


# ---- ended runs ------------------------------------------------------------------------------


def end_of(event: e.Event, now: int) -> RunEnd:
    """Return what the end of a run shows. A suspended or cancelled run shows nothing."""
    if isinstance(event, e.RunSucceeded):
        return RunEnd(answered=event.outcome == "done")
    if isinstance(event, e.RunTimedOut):
        idle = event.limit == "idle"
        return RunEnd(failed=idle, error=event.error if idle else None)
    if not isinstance(event, e.RunFailed):
        return RunEnd()
    kind = FailureClass(event.error_class)
    if kind is not FailureClass.RATE_LIMIT:
        error = event.error if kind in SHOWN else None
        # A run that has spent its budget has had answers.
        return RunEnd(kind is FailureClass.BUDGET, kind in FAILURES, error=error)
    # A service that refuses requests and states no time in the future is overloaded, or its clock
    # is wrong: that is a failure too.
    reset_at = stated_reset(event.reset_at, now)
    stated = reset_at is not None and reset_at > now
    until = reset_at if reset_at is not None and stated else now + UNSTATED_US
    return RunEnd(stated, not stated, until, stated, event.error)


def of_provider(health: Health, run: Run, end: RunEnd, now: int) -> Health:
    """Return the health of the provider that the run had: its rate limit and its usage."""
    if end.limited_until is not None and end.limited_until > health.limited_until:
        health = health._replace(limited_until=end.limited_until, stated=end.stated)
    today = now // DAY_US
    if health.day != today:
        health = health._replace(day=today, runs=0, limits=0, tokens_in=0, tokens_out=0, cost=0)
    return health._replace(
        runs=health.runs + 1,
        limits=health.limits + (end.limited_until is not None),
        tokens_in=health.tokens_in + run.tokens_in,
        tokens_out=health.tokens_out + run.tokens_out,
        cost=health.cost + run.cost,
    )


def of_service(health: Health, end: RunEnd, now: int) -> Health:
    """Return the health of each provider of the service: the circuit breaker."""
    if end.answered:
        return closed(health)
    if not end.failed:
        return health
    failures = health.failures + 1
    open_until = now + OPEN_US if failures >= MAX_FAILURES else health.open_until
    return health._replace(failures=failures, open_until=open_until)


def with_error(health: Health, end: RunEnd, now: int) -> Health:
    """Return the health with the error of the run, if it is about the provider."""
    if end.error is None:
        return health
    return health._replace(error=end.error[:LONGEST_ERROR], failed_at=now)


def closed(health: Health) -> Health:
    """Return the health with a closed breaker."""
    return health._replace(failures=0, open_until=0)


def reset(health: Health) -> Health:
    """Return the health after a person has ended the rate limit and closed the breaker."""
    return closed(health)._replace(limited_until=0, stated=False, error=None, failed_at=0)
