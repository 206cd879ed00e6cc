"""Couplings: the end of a run changes the health of its provider and of the service."""

from detent.kernel import events as e
from detent.kernel import provider_health as health
from detent.kernel.draft import Draft
from detent.kernel.entities import Resource, Run, Step
from detent.kernel.world import RUNS, STEPS


def has_provider(draft: Draft, record: e.Record) -> bool:
    return _provider_of(draft, record) is not None


def record_end(draft: Draft, record: e.Record) -> None:
    """Record what the end of a run shows about its provider."""
    provider = _provider_of(draft, record)
    run: Run = draft.part(RUNS, record.stream, record.subject or "")
    if provider is None:
        return
    end = health.end_of(record.event, draft.now)
    for each in draft.known_resources():
        if each.service == provider.service:
            changed = health.of_service(each.health, end, draft.now)
            if each.id == provider.id:
                changed = health.of_provider(changed, run, end, draft.now)
                changed = health.with_error(changed, end, draft.now)
            if changed != each.health:
                draft.health[each.id] = changed


def _provider_of(draft: Draft, record: e.Record) -> Resource | None:
    """Return the provider that the step of the run held when the command began.

    The end of a run may already have freed it.
    """
    run: Run = draft.part(RUNS, record.stream, record.subject or "")
    if run.step is None or draft.base is None:
        return None
    step: Step | None = draft.base.part(STEPS, record.stream, run.step)
    resource = None if step is None else draft.resources.get(step.resource or "")
    return None if resource is None or resource.service is None else resource
