"""Writes of a run beside the log: refused if its worker has lost the lease."""

from collections.abc import Callable
from typing import TypeVar

from detent.app.async_run_context import AsyncRun
from detent.app.run_context import Run
from detent.engine import Engine
from detent.store.port import WriteTransaction

T = TypeVar("T")


def fenced_write(
    engine: Engine, run: Run | AsyncRun | None, work: Callable[[WriteTransaction], T]
) -> T:
    """Do the work in a transaction that checks the lease of the run; without a run, just do it."""
    if run is None:
        return engine.transaction(work)
    journal = run._journal
    journal.check()

    def fenced(tx: WriteTransaction) -> T:
        tx.lock((), (run.job_id,))
        job = next((job for job, _ in tx.jobs([run.job_id])), None)
        if job is None or job.state != "running" or job.fence != run.fence:
            raise journal.lost()
        return work(tx)

    return engine.transaction(fenced)
