"""Claiming: due timers first, then up to n jobs by rank, within every limit, in one transaction."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from detent.engine.asking import Claimed
from detent.engine.batch import Limits
from detent.engine.ledger import Ledger
from detent.engine.loading import Wanted, load, task_of
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
    room = _Room(tx)
    chosen: dict[str, Candidate] = {}
    while not room.paused:
        abilities = Abilities(ask.intents, ask.projects, *room.closed())
        found = tx.claimable(abilities, ask.limit, now)
        new = [each for each in found if each.job_id not in chosen]
        admitted = room.admit(new[: ask.limit - len(chosen)])
        chosen.update({each.job_id: each for each in admitted})
        if len(admitted) == len(new) or len(chosen) == ask.limit:
            break
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


class _Room:
    """How much more may run under each limited key; without any this costs one small read.

    A limit is a row of the table `limits`: `intent:NAME`, `project:NAME` or `key:NAME` to
    `{"running": most}`; `{"paused": true}` closes it altogether. `all` pauses everything. A
    job's own concurrency key without a row admits one at a time.
    """

    def __init__(self, tx: Writing) -> None:
        self.tx = tx
        self.rows: Mapping[str, Any] = tx.rows("limits")
        self.paused = bool(self.rows.get("all", {}).get("paused"))
        self.most = {name: row["running"] for name, row in self.rows.items() if "running" in row}
        self.running = Counter(tx.running_by(list(self.most))) if self.most else Counter()

    def closed(self) -> tuple[list[str], list[str], list[str]]:
        """Intents, projects and concurrency keys under which nothing more may start now."""
        shut = [name for name, row in self.rows.items() if row.get("paused")]
        shut += [name for name, most in self.most.items() if self.running[name] >= most]
        return _named(shut, "intent:"), _named(shut, "project:"), _named(shut, "key:")

    def admit(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that fit, counting each one that was let in."""
        self._count_keys(candidates)
        return [candidate for candidate in candidates if self._fits(candidate)]

    def _count_keys(self, candidates: Iterable[Candidate]) -> None:
        own = {f"key:{each.concurrency_key}" for each in candidates if each.concurrency_key}
        new = [key for key in own if key not in self.most]
        self.most.update(dict.fromkeys(new, 1))
        self.running.update(self.tx.running_by(new) if new else {})

    def _fits(self, candidate: Candidate) -> bool:
        keys = [f"intent:{candidate.intent}", f"project:{candidate.project}"]
        if candidate.concurrency_key:
            keys.append(f"key:{candidate.concurrency_key}")
        limited = [key for key in keys if key in self.most]
        if any(self.running[key] >= self.most[key] for key in limited):
            return False
        self.running.update(limited)
        return True


def _named(names: Iterable[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
