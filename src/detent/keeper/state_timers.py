"""Sends the events of the timers of lifecycles to tasks that have been in a state long enough."""

from detent.engine import CommandRequest, CommandResult
from detent.kernel.commands import Actor, FireTimer
from detent.kernel.task_lifecycle import Timer
from detent.operations.context import Core
from detent.store.port import ReadTransaction
from detent.store.types import Query

MAX_ROWS = 500
ACTOR = Actor("keeper")


class StateTimers:
    """Sends at most `MAX_ROWS` events of each timer in a pass, the oldest tasks first.

    A full pass is continued by the next one. So tasks that stay in their state, such as those whose
    worker has not stopped yet after a cancel, do not keep the others from being reached.
    """

    def __init__(self) -> None:
        #: By lifecycle and timer, the last task of a full pass: its time in the state, and its id.
        self._after: dict[tuple[str, Timer], tuple[int, str]] = {}

    def run(self, core: Core) -> int:
        """Run one pass; return how many events were sent."""
        asks = []
        with core.store.read() as view:
            for lifecycle in view.lifecycles().values():
                for timer in lifecycle.timers:
                    due = self._due(view, lifecycle.id, timer)
                    asks += [CommandRequest(FireTimer(each, timer.state), ACTOR) for each in due]
        results = core.engine.execute(asks, bulk=True) if asks else []
        return sum(1 for each in results if isinstance(each, CommandResult) and each.value)

    def _due(self, view: ReadTransaction, lifecycle: str, timer: Timer) -> list[str]:
        """The next tasks to which the timer is to be sent."""
        due = ("<=", view.now() - timer.after_us)
        where = {"lifecycle": lifecycle, "state": timer.state, "state_at": due}
        after = self._after.pop((lifecycle, timer), None)
        rows = view.page(Query("tasks", where, "state_at", after=after, limit=MAX_ROWS))
        if len(rows) == MAX_ROWS:
            self._after[lifecycle, timer] = rows[-1]["state_at"], rows[-1]["id"]
        return [row["id"] for row in rows]
