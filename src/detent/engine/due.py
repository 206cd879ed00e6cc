"""What time has brought, in one bounded pass that is safe to repeat.

Lost leases, ended waits, passed limits. Workers run it before they claim, the keeper besides.
Retries that are due need no pass: a claim takes them itself.
"""

from collections.abc import Iterable

from detent.engine.batch import Limits
from detent.engine.ledger import Ledger
from detent.engine.loading import Wanted, load
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.world import World
from detent.store.port import Due, Writing

ACTOR = c.Actor("clock")


def run(tx: Writing, limit: int, limits: Limits) -> int:
    """How many jobs were moved. What somebody else has dealt with meanwhile is passed over."""
    now = tx.now()
    due = tx.due(limit, now)
    if not any(due):
        return 0
    wanted = Wanted(_commands(due))
    tx.lock(wanted.tasks, wanted.jobs)
    ledger = Ledger(load(tx, wanted), limits.lease_us, now)
    done = sum(_decide(ledger, command) for command in _commands(due, ledger.world))
    if ledger.entries:
        tx.save(ledger.changes())
    return done


def _commands(due: Due, world: World | None = None) -> Iterable[c.JobCommand]:
    """One command for each; which limit has passed is known once the job was loaded."""
    yield from (c.ReclaimJob(job_id, fence) for job_id, fence in due.leases)
    yield from (c.WakeJob(job_id, wait) for job_id, wait in due.waits)
    yield from (c.ExpireJob(job_id, _limit(job_id, world)) for job_id in due.deadlines)


def _limit(job_id: str, world: World | None) -> str:
    job = None if world is None else world.jobs.get(job_id)
    in_queue = job is not None and job.state in ("queued", "retrying")
    return "queue" if in_queue and job is not None and job.queue_deadline is not None else "job"


def _decide(ledger: Ledger, command: c.Command) -> bool:
    try:
        draft = decide(ledger.world, command, ledger.now, ACTOR)
    except DetentError:
        return False
    ledger.take(draft)
    return bool(draft.records)
