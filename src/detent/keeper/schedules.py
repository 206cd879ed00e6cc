"""Firing schedules: what is due is submitted, once for each time, however many keepers look."""

from dataclasses import asdict
from typing import Any

from detent.engine import Ask, Idempotency
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel.commands import Actor, SubmitTask
from detent.operations.core import Core
from detent.operations.registry import OWNER
from detent.operations.requests import command_from
from detent.schedules import Schedule, due_times, schedule_from, times
from detent.store.port import Query

ACTOR = Actor("schedule")
#: States in which a task is over, so that the next time does not overlap it.
OVER = ("done", "completed", "failed", "timed_out", "cancelled", "budget_exceeded", "ready")


def run(core: Core) -> int:
    """One pass; the answer is how many tasks were submitted."""
    with core.store.read() as view:
        now = view.now()
        rows = dict(view.rows("schedules"))
    return sum(fire(core, schedule_from(name, row), now) for name, row in rows.items())


def fire(core: Core, schedule: Schedule, now: int) -> int:
    """Act on every time of one schedule that is due, and note which comes next."""
    if schedule.next_at is None and not schedule.paused:
        _note(core, schedule, next_at=next(times(schedule, now)))
        return 0
    if schedule.paused or schedule.next_at is None or schedule.next_at > now:
        return 0
    fired = 0
    last_task = schedule.last_task
    for at in due_times(schedule, now):
        if schedule.overlap == "skip" and _still_at_work(core, last_task):
            continue
        last_task = submit(core, schedule, f"schedule:{schedule.name}:{at}")
        fired += 1
    _note(
        core,
        schedule,
        last_at=schedule.next_at,
        last_task=last_task,
        next_at=next(times(schedule, now)),
    )
    return fired


def submit(core: Core, schedule: Schedule, key: str) -> str:
    """The task for one time. The key makes it one task, whoever fires."""
    body = {
        "intent": schedule.intent,
        "lifecycle": schedule.lifecycle,
        "source": "heartbeat",
        "project": schedule.project,
        "priority": schedule.priority,
        "payload": schedule.payload,
        "options": schedule.options,
        "title": schedule.name,
        "run": True,
    }
    given = {name: value for name, value in body.items() if value is not None}
    command: SubmitTask = command_from(core, OWNER, new_id(), given, core.known_intents())
    result = core.engine.ask(
        [Ask(command, ACTOR, Idempotency(command.project, key, key), fresh=True)]
    )[0]
    if isinstance(result, DetentError):
        raise result
    return str(result.value)


def _still_at_work(core: Core, task_id: str | None) -> bool:
    if task_id is None:
        return False
    with core.store.read() as view:
        rows = view.page(Query("tasks", {"id": task_id}))
    return bool(rows) and rows[0]["state"] not in OVER


def _note(core: Core, schedule: Schedule, **changes: Any) -> None:
    row = {**asdict(schedule), **changes}
    del row["name"]
    core.engine.within(lambda tx: tx.put_rows("schedules", {schedule.name: row}))
