"""Unblocks tasks whose reason for being blocked has ended."""

from detent.engine import CommandRequest, CommandResult
from detent.kernel.commands import Actor, CheckTask
from detent.kernel.task_lifecycle import Phase, state_names
from detent.operations.context import Core
from detent.store.types import Query

MAX_ROWS = 500
ACTOR = Actor("keeper")
#: Reasons that can end without a person.
PASSING = ["dependency", "retry", "rate_limit"]


def run(core: Core) -> int:
    with core.store.read() as view:
        blocked = state_names(view.lifecycles(), lambda each: each.phase is Phase.BLOCKED)
        where = {"state": blocked, "blocked_by": PASSING}
        rows = view.page(Query("tasks", where, "state_at", limit=MAX_ROWS))
    asks = [CommandRequest(CheckTask(row["id"]), ACTOR) for row in rows]
    results = core.engine.execute(asks, bulk=True) if asks else []
    return sum(1 for each in results if isinstance(each, CommandResult) and each.value)
