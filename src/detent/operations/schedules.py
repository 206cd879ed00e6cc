"""Schedules: operators create and edit them at any time; the keeper fires them."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any, cast

from detent import views
from detent.engine import Idempotency
from detent.engine.project_usage import SCHEDULE
from detent.errors import NotFound
from detent.ids import new_id
from detent.kernel.commands import Actor
from detent.kernel.task_lifecycle import EntryPoint
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.intake import submitted
from detent.operations.registry import OWNER, Caller, Scope, operation
from detent.schedule_times import Schedule, schedule_from, times
from detent.store.port import WriteTransaction
from detent.submission.command import Submission, submit_task
from detent.submission.request import null_payload

ACTOR = Actor("schedule")
MAX_TIMES = 100
NO_PAYLOAD: Mapping[str, Any] = {}
#: The fields that are kept when a schedule is replaced.
KEPT = ("paused", "last_at", "last_task")
#: The source of the tasks of schedules. Callers may not use it.
SOURCE = SCHEDULE


@operation(Scope.READ, "GET", "/api/schedules")
def list_schedules(core: Core, caller: Caller) -> schemas.Schedules:
    """List the schedules that the caller may see."""
    with core.store.read() as view:
        rows = view.rows("schedules")
    seen = [name for name in sorted(rows) if caller.may_see(rows[name].get("project"))]
    return {"items": [_to_schema(schedule_from(name, rows[name])) for name in seen]}


@operation(Scope.OPERATE, "PUT", "/api/schedules/{name}")
def put_schedule(
    core: Core,
    caller: Caller,
    *,
    name: str,
    intent: str,
    cron: str | None = None,
    timezone: str = "UTC",
    every_s: int | None = None,
    overlap: str = "skip",
    missed: str = "once",
    lifecycle: str | None = None,
    project: str | None = None,
    priority: str = "P2",
    payload: Any = NO_PAYLOAD,
    options: Mapping[str, Any] | None = None,
    not_before: str | None = None,
) -> schemas.Schedule:
    """Create a schedule, or replace one; its pause and its last firing are kept."""
    if payload is None:
        raise null_payload()
    fields = {
        "intent": intent,
        "cron": cron,
        "timezone": timezone,
        "every_s": every_s,
        "overlap": overlap,
        "missed": missed,
        "lifecycle": lifecycle or _default_lifecycle(core, caller),
        "priority": priority,
        "payload": payload,
        "options": options,
        "not_before": not_before,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    schedule = schedule_from(name, {**given, "project": project or caller.project})
    _submission(core, caller, schedule)  # an invalid submission is refused now, not when it fires

    def write(tx: WriteTransaction) -> Schedule:
        old = tx.rows_for_update("schedules").get(name)
        if old is not None and not caller.may_see(old.get("project")):
            raise _unknown(name)
        kept = {field: value for field, value in (old or {}).items() if field in KEPT}
        now = tx.now()
        anchor = _kept_anchor(schedule, old or {}, now)
        new = schedule_from(name, {**_row(schedule), **kept, "anchor_at": anchor})
        new = schedule_from(name, {**_row(new), "next_at": next(times(new, now))})
        tx.put_rows("schedules", {name: _row(new)})
        return new

    return _to_schema(core.engine.transaction(write))


@operation(Scope.OPERATE, "DELETE", "/api/schedules/{name}")
def delete_schedule(core: Core, caller: Caller, *, name: str) -> schemas.Removed:
    """Delete a schedule; the tasks that it submitted are kept."""

    def write(tx: WriteTransaction) -> None:
        _one(tx.rows_for_update("schedules"), caller, name)
        tx.put_rows("schedules", {name: None})

    core.engine.transaction(write, notify=True)
    return {"name": name, "removed": True}


@operation(Scope.OPERATE, "POST", "/api/schedules/{name}/pause")
def pause_schedule(core: Core, caller: Caller, *, name: str) -> schemas.Schedule:
    """Pause a schedule: it does not fire until it is resumed."""
    return _change(core, caller, name, paused=True)


@operation(Scope.OPERATE, "POST", "/api/schedules/{name}/resume")
def resume_schedule(core: Core, caller: Caller, *, name: str) -> schemas.Schedule:
    """Resume a schedule from its next time; the times during the pause are skipped."""
    return _change(core, caller, name, paused=False)


@operation(Scope.OPERATE, "POST", "/api/schedules/{name}/trigger", status=201)
def trigger_schedule(core: Core, caller: Caller, *, name: str) -> schemas.Triggered:
    """Submit the task of a schedule now, in addition to its regular times."""
    with core.store.read() as view:
        schedule = _one(view.rows("schedules"), caller, name)
    return {"name": name, "task_id": submit(core, schedule, f"trigger:{name}:{new_id()}")}


@operation(Scope.READ, "GET", "/api/schedules/{name}/next")
def next_times(core: Core, caller: Caller, *, name: str, count: int = 5) -> schemas.Times:
    """List the next times of a schedule, paused or not."""
    with core.store.read() as view:
        schedule, now = _one(view.rows("schedules"), caller, name), view.now()
    found = islice(times(schedule, now), max(1, min(count, MAX_TIMES)))
    return {"name": name, "times": [views.utc(at) for at in found]}


# ---- for the keeper --------------------------------------------------------------------------


def submit(core: Core, schedule: Schedule, key: str) -> str:
    """Submit the task for one time. The idempotency key makes it one task for all keepers."""
    made = _submission(core, OWNER, schedule)
    once = Idempotency(made.command.project, key, key)
    return submitted(core.engine.execute([made.request()._replace(actor=ACTOR, key=once)]))["id"]


def record_firing(core: Core, seen: Schedule, **changes: Any) -> None:
    """Update the current row after firing; the row may have been edited in the meantime.

    The next time of an edited schedule is kept.
    """

    def write(tx: WriteTransaction) -> None:
        row = tx.rows_for_update("schedules").get(seen.name)
        if row is None:
            return
        edited = row.get("next_at") != seen.next_at
        kept = {"next_at": row.get("next_at")} if edited else {}
        tx.put_rows("schedules", {seen.name: {**row, **changes, **kept}})

    core.engine.transaction(write)


# ---- parts -----------------------------------------------------------------------------------


def _default_lifecycle(core: Core, caller: Caller) -> str:
    return core.submission_context(caller).lifecycles.defaults[EntryPoint.SCHEDULE].name


def _submission(core: Core, caller: Caller, schedule: Schedule) -> Submission:
    body = {
        "intent": schedule.intent,
        "lifecycle": schedule.lifecycle or _default_lifecycle(core, caller),
        "project": schedule.project,
        "priority": schedule.priority,
        "payload": schedule.payload,
        "options": schedule.options,
        "not_before": schedule.not_before,
        "title": schedule.name,
        "run": True,
    }
    given = {name: value for name, value in body.items() if value is not None}
    return submit_task(core.submission_context(caller), given, source=SOURCE)


def _kept_anchor(new: Schedule, old: Mapping[str, Any], now: int) -> int | None:
    """The time from which intervals are counted: an unchanged interval keeps its times."""
    if new.every_s is None:
        return None
    same = old.get("every_s") == new.every_s
    anchors = (old.get(name) for name in ("anchor_at", "next_at", "last_at")) if same else ()
    return next((each for each in anchors if each is not None), now)


def _change(core: Core, caller: Caller, name: str, *, paused: bool) -> schemas.Schedule:
    def write(tx: WriteTransaction) -> Schedule:
        old = _one(tx.rows_for_update("schedules"), caller, name)
        next_at = None if paused else next(times(old, tx.now()))
        row = {**_row(old), "paused": paused, "next_at": next_at}
        tx.put_rows("schedules", {name: row})
        return schedule_from(name, row)

    return _to_schema(core.engine.transaction(write))


def _one(rows: Mapping[str, Any], caller: Caller, name: str) -> Schedule:
    row = rows.get(name)
    if row is None or not caller.may_see(row.get("project")):
        raise _unknown(name)
    return schedule_from(name, row)


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no schedule {name!r}.", hint="See `detent schedules`.")


def _row(schedule: Schedule) -> dict[str, Any]:
    row = asdict(schedule)
    del row["name"]
    return row


def _to_schema(schedule: Schedule) -> schemas.Schedule:
    return cast(schemas.Schedule, views.shown(asdict(schedule)))
