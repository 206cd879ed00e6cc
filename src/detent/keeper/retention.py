"""Forgetting: what has ended is deleted when its time is over, counted from entering the state."""

from collections.abc import Iterator, Mapping

from detent.engine import Answer, Ask
from detent.kernel.commands import Actor, Command, DeleteJob, DeleteTask
from detent.kernel.retention import DAY_US, ENDINGS, Ending, Retention
from detent.operations.core import Core
from detent.store.port import Query, Reading

MOST = 200
ACTOR = Actor("keeper")


def run(core: Core, retention: Retention | None = None) -> int:
    """One bounded pass; what something still needs is refused by the kernel and stays."""
    with core.store.read() as view:
        asks = [Ask(each, ACTOR) for each in _expired(view, retention or Retention())]
    results = core.engine.ask(asks[:MOST], bulk=True) if asks else []
    return sum(1 for each in results if isinstance(each, Answer))


def _expired(view: Reading, retention: Retention) -> Iterator[Command]:
    now = view.now()
    for (lifecycle, state), ending in ENDINGS.items():
        before = ("<", now - retention.days(ending) * DAY_US)
        if lifecycle == "job":
            where = {"state": state, "task_id": None, "parent_job_id": None, "state_at": before}
            for row in view.page(Query("jobs", where, "state_at", limit=MOST)):
                yield DeleteJob(row["id"], "retention")
            continue
        roots = {"lifecycle": lifecycle, "state": state, "parent_id": None, "state_at": before}
        yield from _tasks(view, roots)
    stuck = ("<", now - retention.days(Ending.FAILED) * DAY_US)
    failed = {"lifecycle": "board", "state": "blocked", "retries_left": 0, "state_at": stuck}
    yield from _tasks(view, failed)


def _tasks(view: Reading, where: Mapping[str, object]) -> Iterator[Command]:
    for row in view.page(Query("tasks", where, "state_at", limit=MOST)):
        yield DeleteTask(row["id"], "retention")
