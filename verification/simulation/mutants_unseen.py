"""Mutants that the ordinary tests do not detect: only faults or concurrent actors reveal them.

Each omits one thing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from detent.engine import Engine
from detent.kernel import commands as c
from detent.kernel.decide import HANDLERS
from detent.kernel.draft import Draft
from detent.store.sqlite.writer import SqliteWriter
from verification.mutant import Patches

# ---- one report without a fence --------------------------------------------------------------


def unfenced(*kinds: type[c.Report]) -> Patches:
    """These reports are taken as if they came from the holder of the job."""
    assert isinstance(HANDLERS, dict)
    yield patch.dict(HANDLERS, {kind: _from_anybody(HANDLERS[kind]) for kind in kinds})


def _from_anybody(handler: Callable[[Draft, Any], Any]) -> Callable[[Draft, Any], Any]:
    def taken(draft: Draft, command: Any) -> Any:
        job = draft.find_job(command.grant.job_id)
        if job is None or job.state != "running" or job.nonce is None:
            return handler(draft, command)
        current: dict[str, Any] = {"grant": c.Grant(job.id, job.fence, job.nonce)}
        if hasattr(command, "run_id") and job.run_id is not None:
            current["run_id"] = job.run_id
        return handler(draft, replace(command, **current))

    return taken


def checkpoint_is_not_fenced() -> Patches:
    """A step's result is taken from anybody."""
    yield from unfenced(c.RecordCheckpoint)


def evidence_is_not_fenced() -> Patches:
    """Evidence is taken from anybody."""
    yield from unfenced(c.AddEvidence)


def wait_is_not_fenced() -> Patches:
    """A former holder of a job may suspend it."""
    yield from unfenced(c.SuspendRun)


def end_is_not_fenced() -> Patches:
    """A former holder of a job may report that its run failed or timed out."""
    yield from unfenced(c.FailRun, c.TimeOutRun)


def cost_is_not_fenced() -> Patches:
    """What a run has cost is taken from anybody."""
    yield from unfenced(c.ChargeRun)


# ---- leases ----------------------------------------------------------------------------------


def heartbeat_is_not_fenced() -> Patches:
    """A heartbeat prolongs the lease of the present holder of the job."""

    def renew(self: Engine, worker: str, grants: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
        del worker
        until = self.lifetimes.lease_us
        kept = set()
        with self.store.write() as tx:
            jobs = {job.id: job for job, _ in tx.jobs([job_id for job_id, _ in grants])}
            for job_id, fence in grants:
                job = jobs[job_id]
                if tx.renew(job.worker or "", [(job_id, job.fence)], tx.now() + until):
                    kept.add((job_id, fence))
        return kept

    yield patch.object(Engine, "renew", renew)


def heartbeat_gives_less_than_it_says() -> Patches:
    """A renewed lease is half as long as its holder thinks."""

    def renew(self: Engine, worker: str, grants: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
        with self.store.write() as tx:
            return tx.renew(worker, grants, tx.now() + self.lifetimes.lease_us // 2)

    yield patch.object(Engine, "renew", renew)


# ---- transactions ----------------------------------------------------------------------------


def log_follows_in_another_transaction() -> Patches:
    """Rows are committed first, and the events that say why come after."""
    append = SqliteWriter._append

    def commit_and_append(self: SqliteWriter, *events: Any) -> None:
        self._connection.all("COMMIT")
        self._connection.all("BEGIN IMMEDIATE")
        append(self, *events)

    yield patch.object(SqliteWriter, "_append", commit_and_append)


def answers_are_mixed_up() -> Patches:
    """Of several who ask at the same moment, each gets another's answer."""
    run = Engine._run

    def run_and_turn(self: Engine, orders: Any) -> None:
        futures = [order.future for order in orders]
        turned = [*futures[1:], *futures[:1]]
        run(self, [order._replace(future=each) for order, each in zip(orders, turned, strict=True)])

    yield patch.object(Engine, "_run", run_and_turn)


UNSEEN = (
    *(checkpoint_is_not_fenced, evidence_is_not_fenced, wait_is_not_fenced, end_is_not_fenced),
    *(cost_is_not_fenced, heartbeat_is_not_fenced, heartbeat_gives_less_than_it_says),
    *(log_follows_in_another_transaction, answers_are_mixed_up),
)
