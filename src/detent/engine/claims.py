"""Claiming: due timers first, then up to n jobs by rank, within every limit, in one transaction."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine.batch import Lifetimes
from detent.engine.changeset import Ledger
from detent.engine.concurrency_limits import Room
from detent.engine.loader import Wanted, load
from detent.engine.types import Claimed
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.store.port import WriteTransaction
from detent.store.types import Candidate, ClaimFilter


class Sessions(NamedTuple):
    """Agent sessions: work that one of them is for is left to its holder for a while."""

    intents: Collection[str]
    #: Whether the session (task, session id) lives where the claimer is.
    held: Callable[[str, str], bool]
    grace_us: int


class ClaimAsk(NamedTuple):
    """A worker asks for up to `limit` jobs that it can do."""

    worker: str
    nonce: str
    limit: int
    intents: Collection[str] | None = None
    projects: Collection[str] | None = None
    sessions: Sessions | None = None


def run(tx: WriteTransaction, ask: ClaimAsk, lifetimes: Lifetimes) -> list[Claimed] | None:
    """What was claimed; jobs that others hold or that a limit holds back stay where they are.

    None if a pause is over: its end must be in the log before anything starts after it.
    """
    room = Room(tx, ask.worker)
    if room.over:
        return None
    chosen = _choose(tx, ask, room)
    if not chosen:
        return []
    commands = [c.ClaimJob(candidate.job_id, ask.worker, ask.nonce) for candidate in chosen]
    ledger = Ledger(load(tx, Wanted(commands)), lifetimes.lease_us, tx.now())
    grants = list(_decide(ledger, commands, c.Actor(f"worker:{ask.worker}")))
    failpoints.hit("claim.chosen")
    tx.save(ledger.changes())
    payloads = tx.payloads([grant.job_id for grant in grants])
    return [_claimed(ledger, grant, payloads) for grant in grants]


def _choose(tx: WriteTransaction, ask: ClaimAsk, room: Room) -> list[Candidate]:
    """By rank, within every limit. What a full limit holds back gives way to what is behind it."""
    now = tx.now()
    chosen: dict[str, Candidate] = {}
    others: set[str] = set()
    while not room.paused:
        claim_filter = ClaimFilter(ask.intents, ask.projects, *room.closed())
        found = tx.claimable(claim_filter, ask.limit + len(others), now)
        new = [each for each in found if each.job_id not in chosen and each.job_id not in others]
        if ask.sessions is not None and (held := _held_elsewhere(tx, ask.sessions, new, now)):
            others |= held  # look at what stands behind them
            continue
        admitted = room.admit(new[: ask.limit - len(chosen)])
        chosen.update({each.job_id: each for each in admitted})
        if len(admitted) == len(new) or len(chosen) == ask.limit:
            break
    room.note()
    return list(chosen.values())


def _held_elsewhere(
    tx: WriteTransaction, sessions: Sessions, candidates: Iterable[Candidate], now: int
) -> set[str]:
    """Jobs whose agent session lives elsewhere, while its holder may still come for them."""
    ids = [each.job_id for each in candidates if each.intent in sessions.intents]
    jobs = {job.task_id: job for job, _ in tx.jobs(ids) if job.task_id} if ids else {}
    fresh = {
        task_id: job
        for task_id, job in jobs.items()
        if now - max(job.queued_at, job.not_before) < sessions.grace_us
    }
    return {
        fresh[task.id].id
        for task, _ in (tx.tasks(list(fresh)) if fresh else ())
        if task.session_id is not None and not sessions.held(task.id, task.session_id)
    }


def waiting(tx: WriteTransaction, ask: ClaimAsk) -> bool:
    """Whether anything could be claimed now, within every limit; nothing is taken."""
    room = Room(tx, ask.worker)
    if room.over:
        return True
    if room.paused:
        return False
    claim_filter = ClaimFilter(ask.intents, ask.projects, *room.closed())
    found = tx.claimable(claim_filter, ask.limit, tx.now())
    return bool(room.admit(found))


def _decide(ledger: Ledger, commands: Iterable[c.ClaimJob], actor: c.Actor) -> Iterable[c.Grant]:
    for command in commands:
        try:
            draft = decide(ledger.world, command, ledger.now, actor)
        except DetentError:
            continue  # somebody else was first, or it is held back: it is simply not ours
        ledger.take(draft)
        if draft.answer is not None:  # else it lacks money, and waits for that
            yield draft.answer


def _claimed(ledger: Ledger, grant: c.Grant, payloads: Mapping[str, Any]) -> Claimed:
    job = ledger.world.jobs[grant.job_id]
    task = None if job.task_id is None else ledger.world.tasks.get(job.task_id)
    return Claimed(grant, job, task, payloads.get(job.id), ledger.lease_until)
