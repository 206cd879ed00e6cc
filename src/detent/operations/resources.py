"""Resources: what steps hold while they run. Kept by operators, outside the log.

`local` is built in: the machine that a step runs on, for steps that ask for nothing. Whoever
drains a resource keeps it from being given out; what holds it goes on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from detent import views
from detent.errors import Forbidden, Invalid, NotFound, Refused
from detent.kernel.entities import Resource
from detent.kernel.plan import LONGEST_NAME
from detent.kernel.resource_matching import LOCAL
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import Query, Reading, Writing

MAX_HOLDERS = 1_000
MAX_CAPACITY = 1_000_000
MAX_NAMES = 100


@operation(Scope.READ, "GET", "/api/resources")
def list_resources(core: Core, caller: Caller) -> schemas.Resources:
    """Every resource, the built-in one first, and which steps hold it."""
    with core.store.read() as view:
        holders = _holders(view, caller)
        rows = view.rows("resources")
        known = sorted(view.resources(), key=lambda each: each.id)
        at_home = view.count_by(Query("steps", {"resource": LOCAL.id}), "state")
    local = LOCAL._replace(in_use=sum(at_home.values()))
    return {"items": [_shown(each, rows, holders) for each in (local, *known)]}


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
) -> schemas.Resource:
    """Make a resource, or change what is named of one; what is not named stays."""
    everywhere(caller, "resources")
    _own(name)
    given = _checked(capabilities, labels, capacity, healthy)

    def write(tx: Writing) -> None:
        row = {**tx.changing("resources").get(name, {"capabilities": []}), **given}
        if row.get("drained"):
            row["healthy"] = False
        tx.put_rows("resources", {name: row})

    core.engine.transaction(write, notify=True)
    return _one(core, caller, name)


@operation(Scope.OPERATE, "POST", "/api/resources/{name}/drain")
def drain_resource(core: Core, caller: Caller, *, name: str) -> schemas.Resource:
    """Give it to nobody any more; whoever holds it goes on with it."""
    return _drain(core, caller, name, drained=True)


@operation(Scope.OPERATE, "POST", "/api/resources/{name}/undrain")
def undrain_resource(core: Core, caller: Caller, *, name: str) -> schemas.Resource:
    """Give a drained resource out again."""
    return _drain(core, caller, name, drained=False)


@operation(Scope.OPERATE, "DELETE", "/api/resources/{name}")
def delete_resource(core: Core, caller: Caller, *, name: str) -> schemas.Removed:
    """Forget a resource; refused while a step holds it."""
    everywhere(caller, "resources")
    _own(name)

    def write(tx: Writing) -> None:
        _row(tx.changing("resources"), name)
        held = next((each.in_use for each in tx.resources() if each.id == name), 0)
        if held:
            raise Refused(
                f"{held} step(s) hold the resource {name!r}.",
                code="still_needed",
                hint="Drain it, wait until nobody holds it, then delete it.",
            )
        tx.put_rows("resources", {name: None})

    core.engine.transaction(write, notify=True)
    return {"name": name, "removed": True}


def everywhere(caller: Caller, what: str) -> None:
    """What belongs to no project is not for a token of one project."""
    if caller.project is not None:
        raise Forbidden(f"{caller.name} is for project {caller.project!r}, not for {what}")


def _drain(core: Core, caller: Caller, name: str, *, drained: bool) -> schemas.Resource:
    everywhere(caller, "resources")
    _own(name)

    def write(tx: Writing) -> None:
        row = _row(tx.changing("resources"), name)
        tx.put_rows("resources", {name: {**row, "drained": drained, "healthy": not drained}})

    core.engine.transaction(write, notify=True)
    return _one(core, caller, name)


def _own(name: str) -> None:
    """The built-in one is always there, as it is."""
    if name == LOCAL.id:
        raise Refused(f"The resource {name!r} is built in and cannot be changed.")
    if not 1 <= len(name) <= LONGEST_NAME:
        raise Invalid(f"name must have 1 to {LONGEST_NAME} characters.", field="name", given=name)


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
                f"capacity must be from 1 to {MAX_CAPACITY}.", field="capacity", given=capacity
            )
        given["capacity"] = capacity
    return given if healthy is None else {**given, "healthy": healthy}


def _names(given: Sequence[str], field: str) -> list[str]:
    """Texts as plans may name them."""
    if len(given) > MAX_NAMES or not all(
        isinstance(each, str) and 1 <= len(each) <= LONGEST_NAME for each in given
    ):
        wanted = f"at most {MAX_NAMES} texts of 1 to {LONGEST_NAME} characters"
        raise Invalid(f"{field} must be {wanted}.", field=field, given=given)
    return list(dict.fromkeys(given))


def _one(core: Core, caller: Caller, name: str) -> schemas.Resource:
    found = list_resources(core, caller)["items"]
    return next(each for each in found if each["id"] == name)


def _holders(view: Reading, caller: Caller) -> dict[str, list[schemas.Holder]]:
    """By resource, the steps that hold it; of another project none is shown."""
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


def _shown(
    each: Resource, rows: Mapping[str, Any], holders: Mapping[str, list[schemas.Holder]]
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
    }
