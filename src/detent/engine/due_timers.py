"""Executes due timers in one bounded pass: expired leases, waits, time limits, resource holds.

Workers run it before they claim, and so does the keeper (the scheduler and maintenance process). A
pass is safe to repeat. Due retries need no pass: a claim takes them from the queue.
"""

from collections.abc import Iterable

from detent import failpoints
from detent.engine.batch import Lifetimes
from detent.engine.changeset import ChangeSet
from detent.engine.loader import LoadRequest, load
from detent.engine.provider_rows import save_health
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.world import World
from detent.store.port import WriteTransaction
from detent.store.types import DueTimers, Query

ACTOR = c.Actor("clock")


def run(tx: WriteTransaction, limit: int, lifetimes: Lifetimes) -> int:
    """Execute up to `limit` timers of each kind; return how many changed something.

    Timers that another process has executed meanwhile are skipped.
    """
    now = tx.now()
    due, holds = tx.due(limit, now), _ended_holds(tx, limit, now)
    if not any(due) and not holds:
        return 0
    failpoints.hit("due.found")
    commands = [*_commands(due), *holds]
    wanted = LoadRequest(commands)
    tx.lock(wanted.tasks, wanted.jobs)
    changes = ChangeSet(load(tx, wanted), lifetimes.lease_us, now)
    done = sum(
        _decide(changes, _with_passed_limit(command, changes.world, now)) for command in commands
    )
    if changes.entries:
        save_health(tx, changes.health)
        tx.save(changes.rows())
    return done


def _commands(due: DueTimers) -> Iterable[c.JobCommand]:
    yield from (c.ReclaimJob(job_id, fence) for job_id, fence in due.leases)
    yield from (c.WakeJob(job_id, wait) for job_id, wait in due.waits)
    yield from (c.ExpireJob(job_id, "job") for job_id in due.deadlines)


def _ended_holds(tx: WriteTransaction, limit: int, now: int) -> list[c.JobCommand]:
    """Return commands for suspended plan steps whose hold on a resource is over."""
    rows = tx.page(Query("steps", {"held_until": ("<=", now)}, "held_until", limit=limit))
    return [c.EndHold(row["job_id"], row["name"]) for row in rows]


def _with_passed_limit(command: c.JobCommand, world: World, now: int) -> c.JobCommand:
    """Name the time limit that has passed, which is known only after the job is loaded."""
    job = world.jobs.get(command.job_id)
    if job is None or not isinstance(command, c.ExpireJob):
        return command
    in_queue = job.queue_deadline is not None and job.queue_deadline <= now
    return c.ExpireJob(command.job_id, "queue" if in_queue else "job")


def _decide(changes: ChangeSet, command: c.Command) -> bool:
    try:
        draft = decide(changes.world, command, changes.now, ACTOR)
    except DetentError:
        return False
    changes.add(draft)
    return bool(draft.records)
