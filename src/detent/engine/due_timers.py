"""What time has brought, in one bounded pass that is safe to repeat.

Lost leases, ended waits, passed limits, resources kept too long. Workers run it before they claim,
the keeper besides. Retries that are due need no pass: a claim takes them itself.
"""

from collections.abc import Iterable

from detent import failpoints
from detent.engine.batch import Lifetimes
from detent.engine.changeset import Ledger
from detent.engine.loader import Wanted, load
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.world import World
from detent.store.port import WriteTransaction
from detent.store.types import DueTimers, Query

ACTOR = c.Actor("clock")


def run(tx: WriteTransaction, limit: int, lifetimes: Lifetimes) -> int:
    """How many jobs were moved. What somebody else has dealt with meanwhile is passed over."""
    now = tx.now()
    due, holds = tx.due(limit, now), _held_too_long(tx, limit, now)
    if not any(due) and not holds:
        return 0
    failpoints.hit("due.found")
    commands = [*_commands(due), *holds]
    wanted = Wanted(commands)
    tx.lock(wanted.tasks, wanted.jobs)
    ledger = Ledger(load(tx, wanted), lifetimes.lease_us, now)
    done = sum(_decide(ledger, _limited(command, ledger.world, now)) for command in commands)
    if ledger.entries:
        tx.save(ledger.changes())
    return done


def _commands(due: DueTimers) -> Iterable[c.JobCommand]:
    yield from (c.ReclaimJob(job_id, fence) for job_id, fence in due.leases)
    yield from (c.WakeJob(job_id, wait) for job_id, wait in due.waits)
    yield from (c.ExpireJob(job_id, "job") for job_id in due.deadlines)


def _held_too_long(tx: WriteTransaction, limit: int, now: int) -> list[c.JobCommand]:
    """Suspended steps that have kept their resource as long as they may."""
    rows = tx.page(Query("steps", {"held_until": ("<=", now)}, "held_until", limit=limit))
    return [c.EndHold(row["job_id"], row["name"]) for row in rows]


def _limited(command: c.JobCommand, world: World, now: int) -> c.JobCommand:
    """Which limit has passed is known once the job was loaded."""
    job = world.jobs.get(command.job_id)
    if job is None or not isinstance(command, c.ExpireJob):
        return command
    in_queue = job.queue_deadline is not None and job.queue_deadline <= now
    return c.ExpireJob(command.job_id, "queue" if in_queue else "job")


def _decide(ledger: Ledger, command: c.Command) -> bool:
    try:
        draft = decide(ledger.world, command, ledger.now, ACTOR)
    except DetentError:
        return False
    ledger.take(draft)
    return bool(draft.records)
