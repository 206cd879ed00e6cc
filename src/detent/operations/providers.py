"""Providers: resources with a service, such as API keys. What is shown of them, and why one waits.

Workers register the providers of their configuration file. The end of a run that used a provider
changes its health, under the fence of the run.
"""

from collections.abc import Collection, Mapping
from typing import Any

from detent.engine import CommandRequest
from detent.kernel.commands import Actor, UnblockTask, WakeJob
from detent.kernel.entities import Resource
from detent.kernel.plan import ENDED
from detent.kernel.provider_health import DAY_US, State, state_of
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.provider_config import Provider
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query
from detent.views import utc

#: How many tasks and waits a reset releases; others are checked when they are due.
MAX_RELEASED = 1_000


def resource_rows(tx: WriteTransaction) -> Mapping[str, Any]:
    """The rows of all resources; no other transaction changes them until this one has ended.

    Operators change their fields, and reports of workers change the health of providers.
    """
    tx.rows_for_update("resources")
    list(tx.resources())
    return tx.rows("resources")


def register_providers(tx: WriteTransaction, providers: Mapping[str, Provider]) -> None:
    """Create or update the resources of configured providers; their health and drains are kept."""
    if not providers:
        return
    known, rows = resource_rows(tx), {}
    for name, provider in providers.items():
        old = known.get(name, {"capabilities": []})
        if (new := {**old, **provider.row()}) != old:
            rows[name] = new
    if rows:
        tx.put_rows("resources", rows)


def provider_schema(resource: Resource, now: int, caller: Caller) -> schemas.Provider:
    """What is shown of a provider at this time.

    The error may be that of a run of any project: a token of one project does not get it.
    """
    health, today = resource.health, resource.health.day == now // DAY_US
    limited = health.limited_until > now
    return {
        "service": resource.service or "",
        "personal": resource.personal,
        "state": state_of(resource, now).value,
        "limited_until": utc(health.limited_until) if limited else None,
        "reset_stated": limited and health.stated,
        "breaker": _breaker(resource, now),
        "error": health.error if caller.project is None else None,
        "failed_at": utc(health.failed_at) if health.failed_at else None,
        "today": {
            "runs": health.runs if today else 0,
            "rate_limits": health.limits if today else 0,
            "tokens_in": health.tokens_in if today else 0,
            "tokens_out": health.tokens_out if today else 0,
            "cost_usd": health.cost / 1_000_000 if today else 0.0,
        },
    }


def _breaker(resource: Resource, now: int) -> schemas.Breaker:
    health = resource.health
    is_open = health.open_until > now
    state = "open" if is_open else "half_open" if health.open_until else "closed"
    until = utc(health.open_until) if is_open else None
    return {"state": state, "failures": health.failures, "open_until": until}


def release_waiting(core: Core, actor: Actor, name: str) -> None:
    """Continue the work that waits for a provider whose service can be used again."""
    with core.store.read() as view:
        limited = {"blocked_by": "rate_limit"}
        rows = view.page(Query("tasks", limited, "state_at", limit=MAX_RELEASED))
        waits = view.page(Query("waits", {"kind": "resource"}, "begun_at", limit=MAX_RELEASED))
        service = next((each.service for each in view.resources() if each.id == name), None)
        names = {each.id for each in view.resources() if each.service == service}
        waiting = [row["id"] for row in rows if row["job_id"] and _uses(view, row["job_id"], names)]
    commands = [
        *(UnblockTask(task_id) for task_id in waiting),
        *(WakeJob(row["job_id"], row["name"]) for row in waits),
    ]
    if commands:
        # Work that continues already, or still lacks a resource, refuses.
        core.engine.execute([CommandRequest(each, actor) for each in commands], bulk=True)


def _uses(view: ReadTransaction, job_id: str, names: Collection[str]) -> bool:
    found = providers_of(view, job_id).get("providers", ())
    return any(each["name"] in names for each in found)


def providers_of(view: ReadTransaction, job_id: str) -> dict[str, Any]:
    """The providers that the steps of a job may use, each with why it cannot be used now.

    Returns what a reason shows about them; nothing if no step names a provider.
    """
    ended = {step.name for step in view.steps([job_id]) if step.state in ENDED}
    plans = view.plans([job_id]).values()
    steps = [step for plan in plans for step in plan.steps if step.name not in ended]
    names = dict.fromkeys(name for step in steps for name in step.providers)
    if not names:
        return {}
    known, now = {each.id: each for each in view.resources()}, view.now()
    found = [
        _reason(known[name], now) if name in known else {"name": name, "state": "unknown"}
        for name in names
    ]
    return {"providers": found}


def _reason(resource: Resource, now: int) -> dict[str, Any]:
    state, health = state_of(resource, now), resource.health
    found: dict[str, Any] = {"name": resource.id, "state": state.value}
    if state is State.LIMITED:
        found |= {"until": utc(health.limited_until), "reset_stated": health.stated}
    elif state is State.OPEN:
        found |= {"until": utc(health.open_until), "failures": health.failures}
    elif state is not State.UNHEALTHY:
        found |= {"in_use": resource.in_use, "capacity": resource.capacity}
    return found
