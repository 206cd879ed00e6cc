"""Matches plan steps with resources: by capabilities, labels, health, capacity and avoid lists.

Pure lookups over resources.
"""

from collections.abc import Callable, Iterable

from detent.kernel.entities import Resource
from detent.kernel.plan import PlanStep

#: The built-in resource of steps that require none: the machine that they run on.
LOCAL = Resource("local", (), capacity=1_000_000)


def requires_no_resource(step: PlanStep) -> bool:
    return not step.capabilities_required and not step.label_selector


def fits(resource: Resource, step: PlanStep, avoid: Iterable[str]) -> bool:
    """Whether the step can use the resource when it is free and healthy."""
    offered = set(resource.capabilities)
    labelled = all(
        resource.labels.get(name) == value for name, value in step.label_selector.items()
    )
    return labelled and offered.issuperset(step.capabilities_required) and resource.id not in avoid


def candidates(
    step: PlanStep, avoid: Iterable[str], resources: Iterable[Resource]
) -> tuple[Resource, ...]:
    """Return every resource that fits; for a step that requires none, the built-in one."""
    offered = (LOCAL,) if requires_no_resource(step) else resources
    avoided = {*avoid, *step.avoid}
    return tuple(each for each in offered if fits(each, step, avoided))


def choose(
    fitting: Iterable[Resource], in_use: Callable[[str], int], preferred: str | None = None
) -> Resource | None:
    """Return a healthy resource with free capacity: the preferred one, else the least used."""
    free = [each for each in fitting if each.healthy and in_use(each.id) < each.capacity]
    return min(
        free, key=lambda each: (each.id != preferred, in_use(each.id), each.id), default=None
    )
