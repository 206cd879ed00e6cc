"""A worker that does what is there and then is done: when nothing is left that it could claim."""

from detent.engine import due_timers
from detent.engine.claims import ClaimAsk, waiting
from detent.store.port import WriteTransaction
from detent.store.types import Query
from detent.worker.claimer import MAX_DUE
from detent.worker.worker import Worker

ENOUGH = 100


def drained(worker: Worker) -> bool:
    """Whether it holds nothing and nothing due is left for it, seen in one transaction.

    What a pause or a limit holds back, or what is due only later, is not waited for.
    """
    ask = ClaimAsk(worker.name, "", ENOUGH, list(worker.app.intents))

    def look(tx: WriteTransaction) -> tuple[bool, int]:
        moved = due_timers.run(tx, MAX_DUE, worker.core.engine.lifetimes)
        held = tx.page(Query("queue", {"worker": worker.name}, limit=1))
        return bool(held) or waiting(tx, ask), moved

    left, moved = worker.core.engine.within(look)
    return not left and not moved and not len(worker.holds)
