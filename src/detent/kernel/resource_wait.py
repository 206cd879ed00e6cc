"""How long a plan step may wait for its resource: the limit, the deadline, and overdue steps.

A step needs its resource from the time at which it could have started, been retried, or continued
after its own wait. This time follows from the states and times of the steps. Pure lookups.
"""

from collections.abc import Iterable

from detent.kernel.entities import Job
from detent.kernel.plan import PlanStep
from detent.kernel.plan_steps import steps_of
from detent.kernel.projections import CONTINUES_IN_PLACE, woken
from detent.kernel.world import World


def limit_us(job: Job, planned: PlanStep) -> int | None:
    """Return the step's own limit, else that of its job; None: unlimited."""
    limit_ms = planned.acquire_timeout_ms or job.options.get("acquire_timeout_ms")
    return None if limit_ms is None else limit_ms * 1_000


def deadline(world: World, job: Job, name: str) -> int | None:
    """Return until when the step may wait, counted from when it could first start."""
    planned, steps = world.plan(job.id).step(name), steps_of(world, job.id)
    limit, step = limit_us(job, planned), steps[name]
    if limit is None or (step.state in CONTINUES_IN_PLACE and not woken(step)):
        return None
    ended = (steps[need].state_at for need in planned.needs)
    return max(step.state_at, step.not_before, *ended) + limit


def first_deadline(world: World, job: Job, names: Iterable[str]) -> int | None:
    """Return the earliest deadline of these steps."""
    known = (deadline(world, job, name) for name in names)
    return min((at for at in known if at is not None), default=None)


def overdue(world: World, job: Job, names: Iterable[str], now: int) -> str | None:
    """Return a step that has waited too long, None if there is none."""
    for name in names:
        at = deadline(world, job, name)
        if at is not None and at <= now:
            return name
    return None
