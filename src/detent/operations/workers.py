"""Workers: who they are, what they hold, and keeping one from claiming.

A drain is a row of the table `limits`, `worker:NAME`, which every claim looks at. It ends with an
undrain, or when the worker is started again.
"""

from collections.abc import Mapping
from typing import Any

from detent import views
from detent.errors import NotFound
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.resources import everywhere
from detent.store.port import Query, Writing

MAX_HELD = 1_000


@operation(Scope.READ, "GET", "/api/workers")
def list_workers(core: Core, caller: Caller) -> schemas.Workers:
    """Every worker that is registered, and what it runs now."""
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
    lately = now - core.settings.worker_lease_ms * 1_000
    return {
        "items": [
            _shown(name, rows[name], held.get(name, []), limits, lately) for name in sorted(rows)
        ]
    }


@operation(Scope.OPERATE, "POST", "/api/workers/{name}/drain")
def drain_worker(core: Core, caller: Caller, *, name: str) -> schemas.Drained:
    """Let a worker claim nothing more; what it holds goes on to its end."""
    return _drain(core, caller, name, draining=True)


@operation(Scope.OPERATE, "POST", "/api/workers/{name}/undrain")
def undrain_worker(core: Core, caller: Caller, *, name: str) -> schemas.Drained:
    """Let a drained worker claim again."""
    return _drain(core, caller, name, draining=False)


def _drain(core: Core, caller: Caller, name: str, *, draining: bool) -> schemas.Drained:
    everywhere(caller, "workers")

    def write(tx: Writing) -> None:
        known = tx.rows("workers")
        if name not in known:
            raise NotFound(
                f"There is no worker {name!r}.", known=sorted(known), hint="See `detent workers`."
            )
        tx.put_rows("limits", {f"worker:{name}": {"paused": True} if draining else None})

    core.engine.transaction(write, notify=True)
    return {"name": name, "draining": draining}


def _held(job: Mapping[str, Any]) -> schemas.Held:
    return {
        "job_id": job["id"],
        "task_id": job["task_id"],
        "intent": job["intent"],
        "since": views.utc(job["state_at"]),
    }


def _shown(
    name: str,
    row: Mapping[str, Any],
    running: list[schemas.Held],
    limits: Mapping[str, Any],
    lately: int,
) -> schemas.Worker:
    seen_at = row.get("seen_at")
    return {
        "name": name,
        "host": row.get("host"),
        "pid": row.get("pid"),
        "seen_at": None if seen_at is None else views.utc(seen_at),
        "alive": seen_at is not None and seen_at > lately,
        "draining": bool(limits.get(f"worker:{name}", {}).get("paused")),
        "concurrency": row.get("concurrency"),
        "intents": list(row.get("intents", ())),
        "running": running,
    }
