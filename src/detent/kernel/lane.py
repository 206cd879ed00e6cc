"""The lane of a queued job: which workers may claim it, as one text that the queue stores.

A job without a plan is in the lane of its intent. A job with a plan is in a lane that also names
the intents that its next steps need: a worker claims it if it has one of them. Pure.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache

from detent.kernel.entities import Job
from detent.kernel.plan import frontier
from detent.kernel.plan_steps import CONTINUING, planner_is_due, states_of, steps_of
from detent.kernel.world import WAITS, World

#: Intents are printable, so a line break separates them; it also sorts before every intent.
MARK = "\n"
#: A lane is a part of an index key, and PostgreSQL limits the size of those.
MAX_LANE_BYTES = 1_000


def lane_of(world: World, job: Job) -> str:
    """Return the lane of a job that is queued or waits for its retry."""
    if job.plan_version == 0 or planner_is_due(world, job):
        return job.intent
    return lane_for(job.intent, needed_intents(world, job))


def lane_for(intent: str, needs: Iterable[str]) -> str:
    """Return the lane of a plan: its job's intent and the needed intents, as many as fit."""
    lane, size = MARK + intent, 0
    for need in sorted(set(needs)):
        size += len(need.encode()) + 1
        if size > MAX_LANE_BYTES and lane.count(MARK) > 1:
            break
        lane += MARK + need
    return lane


def needed_intents(world: World, job: Job) -> set[str]:
    """Return the intents of the steps that can start, except those that a wait is about.

    If there are none, every worker with an intent of the plan may claim it and let it wait.
    """
    plan, steps = world.plan(job.id), steps_of(world, job.id)
    waits = world.parts_of(WAITS, job.id).values()
    ready = {
        name for name, step in steps.items() if step.state in CONTINUING and step.run_id is None
    }
    ready.difference_update(wait.step for wait in waits if wait.step is not None)
    if not job.plan_wanted:
        ready.update(frontier(plan, states_of(world, job.id)))
    waiting_steps = {
        name for wait in waits if wait.step is None for name in wait.detail.get("steps", ())
    }
    needed = {step.intent for step in plan.steps if step.name in ready - waiting_steps}
    return needed or {job.intent, *(step.intent for step in plan.steps)}


def is_planned(lane: str) -> bool:
    """Whether it is the lane of a plan; these sort before all others."""
    return lane.startswith(MARK)


@lru_cache(maxsize=10_000)
def intent_of(lane: str) -> str:
    """Return the intent of the jobs in the lane, to which pauses and limits apply."""
    return lane.split(MARK)[1] if is_planned(lane) else lane


@lru_cache(maxsize=10_000)
def needs_of(lane: str) -> frozenset[str]:
    """Return the intents of which a worker must have one."""
    return frozenset(lane.split(MARK)[2:]) if is_planned(lane) else frozenset((lane,))


def suits(lane: str, intents: Collection[str] | None) -> bool:
    """Whether a worker with these intents may claim from the lane; None means all intents."""
    return intents is None or not needs_of(lane).isdisjoint(intents)
