"""Workers: a list of them with the jobs that they hold, and draining one.

A drain is a pause of the name `worker:NAME`, which every claim reads. It ends with an undrain, or
when the worker is started again.
"""

from collections.abc import Mapping
from typing import Any

from detent import views
from detent.errors import NotFound
from detent.kernel.commands.limit_commands import EndPause, SetPause
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.resources import require_all_projects
from detent.store.types import Query

MAX_HELD = 1_000


@operation(Scope.READ, "GET", "/api/workers")
def list_workers(core: Core, caller: Caller) -> schemas.Workers:
    """List the registered workers with the jobs that they run now."""
    with core.store.read() as view:
        now = view.now()
        rows, limits = view.rows("workers"), view.rows("limits")
        where = {"state": "running"}
        if caller.project is not None:
            where["project"] = caller.project
        jobs = view.page(Query("jobs", where, "state_at", limit=MAX_HELD))
    held: dict[str, list[schemas.Held]] = {}
    for job in jobs:
        held.setdefault(job["worker"], []).append(_held(job))
    alive_since = now - core.settings.worker_lease_ms * 1_000
    return {
        "items": [
            _to_schema(name, rows[name], held.get(name, []), limits, alive_since)
            for name in sorted(rows)
        ]
    }


@operation(Scope.OPERATE, "POST", "/api/workers/{name}/drain")
def drain_worker(core: Core, caller: Caller, *, name: str) -> schemas.Drained:
    """Drain a worker: it claims no more jobs and finishes those that it holds."""
    return _drain(core, caller, name, draining=True)


@operation(Scope.OPERATE, "POST", "/api/workers/{name}/undrain")
def undrain_worker(core: Core, caller: Caller, *, name: str) -> schemas.Drained:
    """End the drain of a worker: it may claim jobs again."""
    return _drain(core, caller, name, draining=False)


def _drain(core: Core, caller: Caller, name: str, *, draining: bool) -> schemas.Drained:
    require_all_projects(caller, "workers")

    with core.store.read() as view:
        known = view.rows("workers")
    if name not in known:
        raise NotFound(
            f"There is no worker {name!r}.", known=sorted(known), hint="See `detent workers`."
        )
    limit = f"worker:{name}"
    core.engine.do(SetPause(limit) if draining else EndPause(limit), caller.actor)
    return {"name": name, "draining": draining}


def _held(job: Mapping[str, Any]) -> schemas.Held:
    return {
        "job_id": job["id"],
        "task_id": job["task_id"],
        "intent": job["intent"],
        "since": views.utc(job["state_at"]),
    }


def _to_schema(
    name: str,
    row: Mapping[str, Any],
    running: list[schemas.Held],
    limits: Mapping[str, Any],
    alive_since: int,
) -> schemas.Worker:
    seen_at = row.get("seen_at")
    return {
        "name": name,
        "host": row.get("host"),
        "pid": row.get("pid"),
        "seen_at": None if seen_at is None else views.utc(seen_at),
        "alive": seen_at is not None and seen_at > alive_since,
        "draining": bool(limits.get(f"worker:{name}", {}).get("paused")),
        "concurrency": row.get("concurrency"),
        "slots": row.get("slots", row.get("concurrency")),
        "intents": list(row.get("intents", ())),
        "running": running,
    }
