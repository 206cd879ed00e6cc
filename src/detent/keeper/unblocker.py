"""Unblocks tasks whose reason for being blocked has ended.

The end of a dependency unblocks a task in the same transaction, and so does a claim whose retry is
due. This finds the others: tasks whose retry is due while no worker claims it, and missed ones.
"""

from detent.engine import CommandRequest, CommandResult
from detent.kernel.commands import Actor, CheckTask
from detent.kernel.task_lifecycle import Phase, state_names
from detent.operations.context import Core
from detent.store.types import Query

MAX_ROWS = 500
ACTOR = Actor("keeper")
#: Reasons that can end without a person.
PASSING = ["dependency", "retry", "rate_limit"]


class Unblocker:
    """Checks at most `MAX_ROWS` tasks in a pass, those that are blocked longest first.

    A full pass is continued by the next one, so that tasks that stay blocked do not keep the others
    from being checked.
    """

    def __init__(self) -> None:
        #: The last task of a full pass: since when it is blocked, and its id.
        self._after: tuple[int, str] | None = None

    def run(self, core: Core) -> int:
        """Run one pass; return how many tasks were unblocked."""
        with core.store.read() as view:
            blocked = state_names(view.lifecycles(), lambda each: each.phase is Phase.BLOCKED)
            where = {"state": blocked, "blocked_by": PASSING}
            query = Query("tasks", where, "state_at", after=self._after, limit=MAX_ROWS)
            rows = view.page(query)
        full = len(rows) == MAX_ROWS
        self._after = (rows[-1]["state_at"], rows[-1]["id"]) if full else None
        asks = [CommandRequest(CheckTask(row["id"]), ACTOR) for row in rows]
        results = core.engine.execute(asks, bulk=True) if asks else []
        return sum(1 for each in results if isinstance(each, CommandResult) and each.value)
