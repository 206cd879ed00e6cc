"""Sends the events of the timers of lifecycles to tasks that have been in a state long enough."""

from detent.engine import CommandRequest, CommandResult
from detent.kernel.commands import Actor, FireTimer
from detent.operations.context import Core
from detent.store.types import Query

MAX_ROWS = 500
ACTOR = Actor("keeper")


def run(core: Core) -> int:
    """Send at most `MAX_ROWS` events of each timer; returns how many were sent."""
    asks = []
    with core.store.read() as view:
        now = view.now()
        for lifecycle in view.lifecycles().values():
            for timer in lifecycle.timers:
                due = ("<=", now - timer.after_us)
                where = {"lifecycle": lifecycle.id, "state": timer.state, "state_at": due}
                rows = view.page(Query("tasks", where, "state_at", limit=MAX_ROWS))
                asks += [CommandRequest(FireTimer(row["id"], timer.state), ACTOR) for row in rows]
    results = core.engine.execute(asks, bulk=True) if asks else []
    return sum(1 for each in results if isinstance(each, CommandResult) and each.value)
