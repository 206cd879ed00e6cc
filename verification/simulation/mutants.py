"""Deliberately broken variants of the engine, by name: the simulation must catch each of them.

SQLite has one writer at a time, so "without a lock" and "from a stale snapshot" are expressed by
their effect: what was read in one transaction is acted on in a later one.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from detent import feed
from detent.engine import Claimed, CommandRequest, Engine, Lifetimes, batch, claims, due_timers
from detent.engine.changeset import ChangeSet
from detent.engine.claims import ClaimRequest
from detent.engine.concurrency_limits import ConcurrencyLimits
from detent.engine.loader import LoadRequest, load
from detent.errors import Refused, Unavailable
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide import HANDLERS, guards
from detent.kernel.decide.timers import reclaim_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Run
from detent.kernel.evolve.table import CHANGES, next_state
from detent.kernel.fair_shares import EQUAL
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.predicates import WAITING_JOB
from detent.kernel.world import World
from detent.store.port import WriteTransaction
from detent.store.types import DueTimers
from verification.mutant import Patches
from verification.simulation.mutants_limits import LIMITS
from verification.simulation.mutants_plans import PLANS
from verification.simulation.mutants_time import TIME
from verification.simulation.mutants_unseen import UNSEEN
from verification.simulation.mutants_variants import VARIANTS

HELD, HELD_RUN = guards.held, guards.held_run


# ---- fences ----------------------------------------------------------------------------------


def _held_by_anybody(draft: Draft, grant: c.Grant) -> Job:
    job = draft.job(grant.job_id)
    return job if job.state == "running" else HELD(draft, grant)


def _run_of_anybody(draft: Draft, grant: c.Grant, run_id: str) -> tuple[Job, Run]:
    """The run that is named, if it lives, else the one that does."""
    job = _held_by_anybody(draft, grant)
    live = draft.live_runs(job.id)
    named = [run for run in live if run.id == run_id]
    return (job, (named or live)[0]) if live else HELD_RUN(draft, grant, run_id)


def no_fence() -> Patches:
    """Any worker may report about a running job."""
    yield from _everywhere(guards.held, _held_by_anybody)
    yield from _everywhere(guards.held_run, _run_of_anybody)


def fence_checked_in_another_transaction() -> Patches:
    """The grant is checked first, and the report is written a transaction later."""
    commit = Engine._commit_once

    def look_then_commit(self: Engine, asks: Sequence[CommandRequest]) -> list[batch.Result]:
        grants = [ask.command.grant for ask in asks if isinstance(ask.command, c.Report)]
        with self.store.read() as view:
            jobs = {job.id: job for job, _ in view.jobs([grant.job_id for grant in grants])}
        for grant in grants:
            if _stale(jobs[grant.job_id], grant):
                raise Refused("the grant no longer holds", code="stale_fence")
        return commit(self, asks)

    yield from no_fence()
    yield patch.object(Engine, "_commit_once", look_then_commit)


def _stale(job: Job, grant: c.Grant) -> bool:
    return (job.state, job.fence, job.nonce) != ("running", grant.fence, grant.nonce)


# ---- claims ----------------------------------------------------------------------------------


def claim_without_lock() -> Patches:
    """What is claimed was chosen, and judged free, a transaction earlier."""

    def claim(self: Engine, ask: ClaimRequest) -> list[Claimed]:
        with self.store.write() as tx:
            chosen = claims._choose(tx, ask, ConcurrencyLimits(tx, ask.worker), EQUAL)
            commands = [c.ClaimJob(each.job_id, ask.worker, ask.nonce) for each in chosen]
            world = load(tx, LoadRequest(commands))
        return self.transaction(lambda tx: _claim_seen(tx, ask, commands, world, self.lifetimes))

    yield patch.object(Engine, "claim", claim)


def _claim_seen(
    tx: WriteTransaction,
    ask: ClaimRequest,
    commands: list[c.ClaimJob],
    world: World,
    lifetimes: Lifetimes,
) -> list[Claimed]:
    """Only what would collide in the tables is taken afresh: versions, and the run's number."""
    for found in (tx.jobs(list(world.jobs)), tx.tasks(list(world.tasks))):
        world.versions.update({row.id: version for row, version in found})
    for job, _ in tx.jobs(list(world.jobs)):
        world.jobs[job.id] = world.jobs[job.id]._replace(runs=job.runs)
    change_set = ChangeSet(world, lifetimes.lease_us, tx.now())
    grants = list(claims._decide(change_set, commands, c.Actor(f"worker:{ask.worker}")))
    if change_set.entries:
        tx.save(change_set.rows())
    payloads = tx.payloads([grant.job_id for grant in grants])
    return [claims._claimed(change_set, grant, payloads) for grant in grants]


def attempts_not_counted() -> Patches:
    """A claim leaves the number of attempts as it was."""
    change = CHANGES[e.JobRunning]

    def uncounted(job: Job, event: Any, at: int, state: str) -> Any:
        return change(job, event, at, state)._replace(attempt=job.attempt)

    yield patch.dict(CHANGES, {e.JobRunning: uncounted})


# ---- reclaims --------------------------------------------------------------------------------


def reclaim_from_a_stale_snapshot() -> Patches:
    """Leases that are nearly over are noted, and taken away at their time without another look."""
    run, soon_us = due_timers.run, 4_000_000
    noted: WeakKeyDictionary[Lifetimes, tuple[int, DueTimers]] = WeakKeyDictionary()

    def run_late(tx: WriteTransaction, limit: int, lifetimes: Lifetimes) -> int:
        now = tx.now()
        at, before = noted.get(lifetimes, (now, DueTimers((), (), ())))
        found = tx.due(limit, now)
        if at <= now:
            found = found._replace(leases=tuple(dict.fromkeys((*before.leases, *found.leases))))
            noted[lifetimes] = now + soon_us, tx.due(limit, now + soon_us)
        with patch.object(type(tx), "due", lambda *_: found):
            return run(tx, limit, lifetimes)

    yield patch.object(due_timers, "run", run_late)


def reclaim_of_waiting_work() -> Patches:
    """A job that waits keeps its lease, and is taken for lost when that runs out."""
    queue = ChangeSet._queue

    def queue_but_rest(self: ChangeSet) -> Any:
        rows, leases, unqueued = queue(self)
        jobs = self.world.jobs
        return rows, leases, [each for each in unqueued if jobs[each].state not in WAITING_JOB]

    def allowed(lifecycle: Lifecycle, state: str, event: e.Event) -> str:
        lost = isinstance(event, e.JobRequeued) and event.reason == "lost"
        return "queued" if lost else next_state(lifecycle, state, event)

    def reclaim(draft: Draft, command: c.ReclaimJob) -> str:
        job = draft.job(command.job_id)
        if job.fence == command.fence and job.state in WAITING_JOB:
            draft.emit(job.id, e.JobRequeued("lost"))
            return "queued"
        return reclaim_job(draft, command)

    yield patch.object(ChangeSet, "_queue", queue_but_rest)
    yield from _everywhere(next_state, allowed)
    yield patch.dict(_handlers(), {c.ReclaimJob: reclaim})


def handed_back_job_stays_leased() -> Patches:
    """A job that is handed back is queued by its state, and its row keeps the lease."""
    queue = ChangeSet._queue

    def queue_without_returned(self: ChangeSet) -> Any:
        rows, leases, unqueued = queue(self)
        returned = {
            entry.stream
            for entry in self.entries
            if isinstance(entry.record.event, e.JobRequeued)
            and entry.record.event.reason == "handed_back"
        }
        return [row for row in rows if row.job_id not in returned], leases, unqueued

    yield patch.object(ChangeSet, "_queue", queue_without_returned)


# ---- the log ---------------------------------------------------------------------------------


def tail_by_max_position() -> Patches:
    """A reader goes on from the head of the log, which it looks up after it has read."""

    def step(self: feed.Tail) -> int:
        events = feed.read(self.store, self.cursor)
        if events:
            self.deliver(events)
            self.cursor = feed.head(self.store)
        return len(events)

    yield patch.object(feed.Tail, "step", step)


def acknowledge_before_commit() -> Patches:
    """Callers are answered as soon as everything is decided and written, and then it commits."""

    def run(self: Engine, orders: Any) -> None:
        with suppress(Unavailable), self.store.write() as tx:
            asks = [ask for order in orders for ask in order.requests]
            results = iter(batch.run(tx, asks, self.lifetimes))
            for order in orders:
                order.future.set_result([next(results) for _ in order.requests])
        self.store.notify()

    yield patch.object(Engine, "_run", run)


def fold_skips_an_event() -> Patches:
    """The fold of the log ignores a requested cancel; the decision does not."""
    apply = World.apply

    def apply_most(self: World, record: e.Record) -> None:
        if isinstance(self, Draft) or not isinstance(record.event, e.JobCancelRequested):
            apply(self, record)

    yield patch.object(World, "apply", apply_most)


# ---- by name ---------------------------------------------------------------------------------

MUTANTS: dict[str, Callable[[], Patches]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(no_fence, fence_checked_in_another_transaction, claim_without_lock),
        *(reclaim_from_a_stale_snapshot, reclaim_of_waiting_work, tail_by_max_position),
        *(acknowledge_before_commit, fold_skips_an_event, attempts_not_counted),
        handed_back_job_stays_leased,
        *UNSEEN,
        *PLANS,
        *TIME,
        *LIMITS,
        *VARIANTS,
    )
}


#: The mutants that only a run with variants can catch.
NEED_VARIANTS = frozenset(each.__name__.replace("_", "-") for each in VARIANTS)


def _everywhere(function: Any, instead: Any) -> Patches:
    """Under every name by which a module of detent has imported it."""
    for module in [each for name, each in sys.modules.items() if name.startswith("detent.")]:
        if module.__name__ != __name__:
            for name in [name for name, value in vars(module).items() if value is function]:
                yield patch.object(module, name, instead)


def _handlers() -> dict[Any, Any]:
    assert isinstance(HANDLERS, dict)
    return HANDLERS
