"""The scheduler: submits the tasks of due schedules, exactly once for each time."""

import logging

from detent import failpoints
from detent.errors import DetentError, Unavailable
from detent.operations.context import Core
from detent.operations.schedules import record_firing, submit
from detent.operations.task_states import state_of
from detent.schedule_times import Schedule, due_times, schedule_from, times

log = logging.getLogger("detent.keeper")


def run(core: Core) -> int:
    """Fire the due schedules; returns the number of submitted tasks."""
    with core.store.read() as view:
        now = view.now()
        rows = dict(view.rows("schedules"))
    fired = 0
    for name, row in rows.items():
        try:
            fired += fire(core, schedule_from(name, row), now)
        except Unavailable:
            raise
        except DetentError as error:  # for example a time zone that this machine does not have
            log.warning("schedule %s could not be read: %s", name, error)
    return fired


def fire(core: Core, schedule: Schedule, now: int) -> int:
    """Fire every due time of one schedule, and store its next time."""
    if schedule.next_at is None and not schedule.paused:
        record_firing(core, schedule, next_at=next(times(schedule, now)))
        return 0
    if schedule.paused or schedule.next_at is None or schedule.next_at > now:
        return 0
    fired = 0
    last_at, last_task = schedule.last_at, schedule.last_task
    due = due_times(schedule, now)
    for at in due:
        if schedule.overlap == "skip" and _is_unfinished(core, last_task):
            continue
        made = _submit(core, schedule, at)
        if made is None:
            continue
        last_at, last_task = at, made
        fired += 1
        failpoints.hit("schedule.submitted")
    record_firing(
        core,
        schedule,
        last_at=last_at,
        last_task=last_task,
        # Of many missed times a pass submits a limited number; the next pass continues after them.
        next_at=next(times(schedule, due[-1] if schedule.missed == "all" and due else now)),
    )
    return fired


def _submit(core: Core, schedule: Schedule, at: int) -> str | None:
    """Submit the task for one time; None if it was refused, so that other schedules continue."""
    try:
        return submit(core, schedule, f"schedule:{schedule.name}:{at}")
    except Unavailable:
        raise
    except DetentError as error:
        log.warning("schedule %s could not be fired: %s", schedule.name, error)
        return None


def _is_unfinished(core: Core, task_id: str | None) -> bool:
    """Whether the task of the previous time still works, so that the next would overlap it."""
    if task_id is None:
        return False
    with core.store.read() as view:
        states = [state_of(view, task) for task, _ in view.tasks([task_id])]
    return any(state.ending is None and not state.under_review for state in states)
