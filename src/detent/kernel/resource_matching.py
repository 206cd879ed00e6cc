"""Matches plan steps with resources: by capabilities, labels, health, capacity and avoid lists.

A step that names providers gets the first of them that can be used; any other step gets the least
used resource that fits. Pure lookups over resources.
"""

from collections.abc import Callable, Iterable, Sequence

from detent.kernel.entities import Resource
from detent.kernel.plan import PlanStep

#: The built-in resource of steps that require none: the machine that they run on.
LOCAL = Resource("local", (), capacity=1_000_000)


def requires_no_resource(step: PlanStep) -> bool:
    return not (step.capabilities_required or step.label_selector or step.providers)


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
    """Return every resource that fits; for a step that requires none, the built-in one.

    Providers are in the order of the step's preference.
    """
    if step.providers:
        offered: Iterable[Resource] = _named(step.providers, resources)
    else:
        offered = (LOCAL,) if requires_no_resource(step) else resources
    avoided = {*avoid, *step.avoid}
    return tuple(each for each in offered if fits(each, step, avoided))


def _named(names: Sequence[str], resources: Iterable[Resource]) -> list[Resource]:
    """Return the providers with these names, in this order, and at most one personal account.

    Personal accounts are not rotated: a step never gets a second one in place of the first.
    """
    known = {each.id: each for each in resources if each.service is not None}
    found = [known[name] for name in names if name in known]
    personal = [each.id for each in found if each.personal]
    return [each for each in found if each.id not in personal[1:]]


def choose(
    fitting: Iterable[Resource], in_use: Callable[[str], int], preferred: str | None = None
) -> Resource | None:
    """Return a resource with free capacity: the preferred one, else the least used."""
    free = [each for each in fitting if in_use(each.id) < each.capacity]
    return min(
        free, key=lambda each: (each.id != preferred, in_use(each.id), each.id), default=None
    )
