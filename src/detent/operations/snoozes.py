"""Snoozes: a person hides a task from their inbox until a time. Snoozes are not in the log."""

from detent import views
from detent.errors import Invalid
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import ReadTransaction, WriteTransaction
from detent.submission.not_before import UNITS_US, delay_from

TABLE = "snoozes"
MAX_SNOOZE_D = 366


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/snooze")
def snooze_task(
    core: Core, caller: Caller, *, task_id: str, until: str | None = None
) -> schemas.Snoozed:
    """Hide a task from the caller's inbox until a time; without a time, show it again."""
    core.task(caller, task_id)
    end = None if until is None else delay_from(until, "until")

    def write(tx: WriteTransaction) -> int | None:
        now = tx.now()
        at = None if end is None else end.not_before or now + end.delay
        if at is not None:
            _check_time(at, now, until)
        over = {name: None for name, ends_at in tx.rows_for_update(TABLE).items() if ends_at <= now}
        tx.put_rows(TABLE, {**over, _name(task_id, caller.name): at})
        return at

    at = core.engine.transaction(write)
    return {"id": task_id, "snoozed_until": None if at is None else views.utc(at)}


def snoozes_of(view: ReadTransaction, person: str) -> dict[str, int]:
    """By task id, when the snoozes of a person end; those that have ended are left out."""
    now = view.now()
    found = ((name.rpartition("/"), at) for name, at in view.rows(TABLE).items())
    return {task_id: at for (task_id, _, author), at in found if author == person and at > now}


def _name(task_id: str, person: str) -> str:
    return f"{task_id}/{person}"


def _check_time(at: int, now: int, given: str | None) -> None:
    if not now < at <= now + MAX_SNOOZE_D * UNITS_US["d"]:
        raise Invalid(
            f"until must be in the future and at most {MAX_SNOOZE_D} days from now, not {given!r}.",
            field="until",
            given=given,
            hint="Give a time such as 2030-01-01T09:00:00Z, or a delay such as 2h.",
        )
