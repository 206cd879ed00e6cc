"""Run until idle: whether a worker has nothing left to claim, for `detent worker --once`."""

from detent.engine import due_timers
from detent.engine.claims import ClaimRequest, waiting
from detent.store.port import WriteTransaction
from detent.store.types import Query
from detent.worker.claimer import MAX_DUE
from detent.worker.worker import Worker

MAX_JOBS = 100


def drained(worker: Worker) -> bool:
    """Whether the worker holds no job and no due job is left for it, read in one transaction.

    Jobs that a pause or a limit blocks, and jobs that are due later, do not count.
    """
    ask = ClaimRequest(worker.name, "", MAX_JOBS, list(worker.app.intents))

    def look(tx: WriteTransaction) -> tuple[bool, int]:
        moved = due_timers.run(tx, MAX_DUE, worker.core.engine.lifetimes)
        held = tx.page(Query("queue", {"worker": worker.name}, limit=1))
        return bool(held) or waiting(tx, ask), moved

    left, moved = worker.core.engine.transaction(look)
    return not left and not moved and not len(worker.held_jobs)
