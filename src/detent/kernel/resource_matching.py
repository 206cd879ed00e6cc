"""Which resource a step may hold: by capabilities, labels, health, free places, and avoid lists.

Pure lookups over resources.
"""

from collections.abc import Callable, Iterable

from detent.kernel.entities import Resource
from detent.kernel.plan import PlanStep

#: What a step is leased when it asks for nothing: the machine that it runs on, with room for all.
LOCAL = Resource("local", (), capacity=1_000_000)


def asks_for_nothing(step: PlanStep) -> bool:
    return not step.capabilities_required and not step.label_selector


def fits(resource: Resource, step: PlanStep, avoid: Iterable[str]) -> bool:
    """Whether the step could ever run with it, once it is free and healthy."""
    offered = set(resource.capabilities)
    labelled = all(
        resource.labels.get(name) == value for name, value in step.label_selector.items()
    )
    return labelled and offered.issuperset(step.capabilities_required) and resource.id not in avoid


def candidates(
    step: PlanStep, avoid: Iterable[str], resources: Iterable[Resource]
) -> tuple[Resource, ...]:
    """Every resource that fits; for a step that asks for nothing, the built-in one."""
    offered = (LOCAL,) if asks_for_nothing(step) else resources
    shunned = {*avoid, *step.avoid}
    return tuple(each for each in offered if fits(each, step, shunned))


def choose(
    fitting: Iterable[Resource], in_use: Callable[[str], int], preferred: str | None = None
) -> Resource | None:
    """A healthy one with a free place: the preferred one if it is there, else the least used."""
    free = [each for each in fitting if each.healthy and in_use(each.id) < each.capacity]
    return min(
        free, key=lambda each: (each.id != preferred, in_use(each.id), each.id), default=None
    )
