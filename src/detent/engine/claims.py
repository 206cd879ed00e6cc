"""Claiming: due timers first, then up to n jobs by rank, within every limit, in one transaction."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from detent.engine.asking import Claimed
from detent.engine.batch import Limits
from detent.engine.ledger import Ledger
from detent.engine.loading import Wanted, load, task_of
from detent.engine.room import Room
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.store.port import Abilities, Candidate, Writing


class ClaimAsk(NamedTuple):
    """A worker asks for up to `limit` jobs that it can do."""

    worker: str
    nonce: str
    limit: int
    intents: Collection[str] | None = None
    projects: Collection[str] | None = None


def run(tx: Writing, ask: ClaimAsk, limits: Limits) -> list[Claimed]:
    """What was claimed; jobs that others hold or that a limit holds back stay where they are."""
    now = tx.now()
    chosen = _choose(tx, ask, now)
    if not chosen:
        return []
    commands = [c.ClaimJob(candidate.job_id, ask.worker, ask.nonce) for candidate in chosen]
    ledger = Ledger(load(tx, Wanted(commands)), limits.lease_us, now)
    grants = list(_decide(ledger, commands, c.Actor(f"worker:{ask.worker}")))
    tx.save(ledger.changes())
    payloads = tx.payloads([grant.job_id for grant in grants])
    return [_claimed(ledger, grant, payloads) for grant in grants]


def _choose(tx: Writing, ask: ClaimAsk, now: int) -> list[Candidate]:
    """By rank, within every limit. What a full limit holds back gives way to what is behind it."""
    room = Room(tx, now)
    chosen: dict[str, Candidate] = {}
    while not room.paused:
        abilities = Abilities(ask.intents, ask.projects, *room.closed())
        found = tx.claimable(abilities, ask.limit, now)
        new = [each for each in found if each.job_id not in chosen]
        admitted = room.admit(new[: ask.limit - len(chosen)])
        chosen.update({each.job_id: each for each in admitted})
        if len(admitted) == len(new) or len(chosen) == ask.limit:
            break
    room.note()
    return list(chosen.values())


def _decide(ledger: Ledger, commands: Iterable[c.ClaimJob], actor: c.Actor) -> Iterable[c.Grant]:
    for command in commands:
        try:
            draft = decide(ledger.world, command, ledger.now, actor)
        except DetentError:
            continue  # somebody else was first, or it is held back: it is simply not ours
        ledger.take(draft)
        yield draft.answer


def _claimed(ledger: Ledger, grant: c.Grant, payloads: Mapping[str, Any]) -> Claimed:
    job = ledger.world.jobs[grant.job_id]
    return Claimed(grant, job, task_of(ledger.world, job), payloads.get(job.id), ledger.lease_until)
