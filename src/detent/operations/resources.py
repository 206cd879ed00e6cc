"""Resources: devices and accounts that plan steps hold while they run. Not part of the log.

Operators create them. `local` is built in: the machine that a step runs on, for steps that require
nothing. A drained resource is given to no further step; steps that hold it continue. A resource
with a service is a provider: it has rate limits, a circuit breaker and usage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from detent import views
from detent.engine.provider_rows import save_health
from detent.errors import Forbidden, Invalid, NotFound, Refused
from detent.kernel.entities import Resource
from detent.kernel.plan import LONGEST_NAME
from detent.kernel.provider_health import closed, reset
from detent.kernel.resource_matching import LOCAL
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.providers import provider_schema, release_waiting, resource_rows
from detent.operations.registry import Caller, Scope, operation
from detent.quantity import quantity
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

MAX_HOLDERS = 1_000
MAX_CAPACITY = 1_000_000
MAX_NAMES = 100


@operation(Scope.READ, "GET", "/api/resources")
def list_resources(core: Core, caller: Caller) -> schemas.Resources:
    """List all resources, the built-in one first, with the steps that hold each."""
    with core.store.read() as view:
        holders = _holders(view, caller)
        rows = view.rows("resources")
        known = sorted(view.resources(), key=lambda each: each.id)
        now = view.now()
        on_local = view.count_by(Query("steps", {"resource": LOCAL.id}), "state")
    local = LOCAL._replace(in_use=sum(on_local.values()))
    return {"items": [_to_schema(each, rows, holders, now, caller) for each in (local, *known)]}


@operation(Scope.OPERATE, "PUT", "/api/resources/{name}")
def put_resource(
    core: Core,
    caller: Caller,
    *,
    name: str,
    capabilities: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    capacity: int | None = None,
    healthy: bool | None = None,
    service: str | None = None,
    personal: bool | None = None,
) -> schemas.Resource:
    """Create a resource, or change the given fields of one; other fields keep their values.

    A `service` makes it a provider; `personal` marks the account of a person.
    """
    require_all_projects(caller, "resources")
    _own(name)
    given = _checked(capabilities, labels, capacity, healthy)
    given |= _as_provider(service, personal)

    def write(tx: WriteTransaction) -> None:
        row = {**resource_rows(tx).get(name, {"capabilities": []}), **given}
        if row.get("drained"):
            row["healthy"] = False
        tx.put_rows("resources", {name: row})

    core.engine.transaction(write, notify=True)
    return _one(core, caller, name)


@operation(Scope.OPERATE, "POST", "/api/resources/{name}/drain")
def drain_resource(core: Core, caller: Caller, *, name: str) -> schemas.Resource:
    """Drain a resource: no further step gets it; steps that hold it continue."""
    return _drain(core, caller, name, drained=True)


@operation(Scope.OPERATE, "POST", "/api/resources/{name}/undrain")
def undrain_resource(core: Core, caller: Caller, *, name: str) -> schemas.Resource:
    """End the drain of a resource: steps may get it again."""
    return _drain(core, caller, name, drained=False)


@operation(Scope.OPERATE, "POST", "/api/resources/{name}/reset")
def reset_resource(core: Core, caller: Caller, *, name: str) -> schemas.Resource:
    """End the rate limit of a provider, and close the circuit breaker of its service."""
    require_all_projects(caller, "resources")
    _own(name)

    def write(tx: WriteTransaction) -> None:
        rows = resource_rows(tx)
        service = _row(rows, name).get("service")
        if service is None:
            raise Refused(
                f"Resource {name!r} is no provider: it has no service, and nothing to reset.",
                hint="Use put with --healthy to let steps have it again.",
            )
        same = [each for each in tx.resources() if each.service == service]
        changes = {each.id: closed(each.health) for each in same}
        save_health(tx, {**changes, name: reset(changes[name])})

    core.engine.transaction(write, notify=True)
    release_waiting(core, caller.actor, name)
    return _one(core, caller, name)


@operation(Scope.OPERATE, "DELETE", "/api/resources/{name}")
def delete_resource(core: Core, caller: Caller, *, name: str) -> schemas.Removed:
    """Delete a resource; refused while a step holds it."""
    require_all_projects(caller, "resources")
    _own(name)

    def write(tx: WriteTransaction) -> None:
        _row(resource_rows(tx), name)
        held = next((each.in_use for each in tx.resources() if each.id == name), 0)
        if held:
            raise Refused(
                f"Resource {name!r} is in use by {quantity(held, 'step')}.",
                code="still_needed",
                hint="Drain it, wait until no step holds it, then delete it.",
            )
        tx.put_rows("resources", {name: None})

    core.engine.transaction(write, notify=True)
    return {"name": name, "removed": True}


def require_all_projects(caller: Caller, what: str) -> None:
    """Refuse a token of one project: `what` belongs to the whole installation."""
    if caller.project is not None:
        raise Forbidden(
            f"The token {caller.name} is limited to project {caller.project!r} and may not use "
            f"{what}."
        )


def _drain(core: Core, caller: Caller, name: str, *, drained: bool) -> schemas.Resource:
    require_all_projects(caller, "resources")
    _own(name)

    def write(tx: WriteTransaction) -> None:
        row = _row(resource_rows(tx), name)
        tx.put_rows("resources", {name: {**row, "drained": drained, "healthy": not drained}})

    core.engine.transaction(write, notify=True)
    return _one(core, caller, name)


def _own(name: str) -> None:
    """Refuse the built-in resource and names of a wrong length."""
    if name == LOCAL.id:
        raise Refused(f"The resource {name!r} is built in and cannot be changed.")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise Invalid(
            f"name must have 1 to {LONGEST_NAME} characters, not {len(name)}.",
            field="name",
            given=name,
        )


def _row(rows: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name not in rows:
        raise NotFound(f"There is no resource {name!r}.", known=sorted(rows))
    return dict(rows[name])


def _checked(
    capabilities: Sequence[str] | None,
    labels: Mapping[str, str] | None,
    capacity: int | None,
    healthy: bool | None,
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if capabilities is not None:
        given["capabilities"] = _names(capabilities, "capabilities")
    if labels is not None:
        _names(list(labels), "labels")
        _names(list(labels.values()), "labels")
        given["labels"] = dict(labels)
    if capacity is not None:
        if not 1 <= capacity <= MAX_CAPACITY:
            raise Invalid(
                f"capacity must be from 1 to {MAX_CAPACITY}, not {capacity}.",
                field="capacity",
                given=capacity,
            )
        given["capacity"] = capacity
    return given if healthy is None else {**given, "healthy": healthy}


def _as_provider(service: str | None, personal: bool | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if service is not None:
        given["service"] = _names([service], "service")[0]
    return given if personal is None else {**given, "personal": personal}


def _names(given: Sequence[str], field: str) -> list[str]:
    """The names, if plans may use them."""
    if len(given) > MAX_NAMES or not all(
        isinstance(each, str) and 1 <= len(each) <= LONGEST_NAME for each in given
    ):
        wanted = f"at most {MAX_NAMES} strings of 1 to {LONGEST_NAME} characters"
        raise Invalid(f"{field} must be {wanted}, not {given!r:.80}.", field=field, given=given)
    return list(dict.fromkeys(given))


def _one(core: Core, caller: Caller, name: str) -> schemas.Resource:
    found = list_resources(core, caller)["items"]
    return next(each for each in found if each["id"] == name)


def _holders(view: ReadTransaction, caller: Caller) -> dict[str, list[schemas.Holder]]:
    """By resource, the steps that hold it, if the caller may see their project."""
    query = Query("steps", {"resource": (">", "")}, "state_at", limit=MAX_HOLDERS)
    steps = view.page(query)
    jobs = view.jobs({step["job_id"] for step in steps}) if caller.project else ()
    own = {job.id for job, _ in jobs if job.project == caller.project}
    found: dict[str, list[schemas.Holder]] = {}
    for step in steps:
        if caller.project is None or step["job_id"] in own:
            since = views.utc(step["state_at"])
            holder: schemas.Holder = {
                "job_id": step["job_id"],
                "step": step["name"],
                "since": since,
            }
            found.setdefault(step["resource"], []).append(holder)
    return found


def _to_schema(
    each: Resource,
    rows: Mapping[str, Any],
    holders: Mapping[str, list[schemas.Holder]],
    now: int,
    caller: Caller,
) -> schemas.Resource:
    return {
        "id": each.id,
        "capabilities": list(each.capabilities),
        "labels": dict(each.labels),
        "capacity": each.capacity,
        "healthy": each.healthy,
        "drained": bool(rows.get(each.id, {}).get("drained")),
        "built_in": each.id == LOCAL.id,
        "in_use": each.in_use,
        "holders": holders.get(each.id, []),
        "provider": None if each.service is None else provider_schema(each, now, caller),
    }
