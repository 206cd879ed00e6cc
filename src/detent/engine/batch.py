"""One batch: load, decide each command in turn, save. A refused command refuses alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from detent import failpoints
from detent.engine.changeset import Ledger
from detent.engine.loader import Wanted, load, take_limits
from detent.engine.types import Answer, Ask
from detent.errors import DetentError, Refused
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.decide.guards import held
from detent.kernel.draft import Draft
from detent.kernel.world import World
from detent.store.port import WriteTransaction
from detent.store.types import IdempotencyKey

Result = Answer | DetentError


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """How long what the engine gives out is good: a lease, an idempotency key."""

    lease_us: int = 30_000_000
    key_lifetime_us: int = 7 * 86_400_000_000


def run(tx: WriteTransaction, asks: Sequence[Ask], lifetimes: Lifetimes) -> list[Result]:
    """Decide the commands in order; each sees what those before it did."""
    wanted = Wanted([ask.command for ask in asks], _fresh_ids(asks))
    wanted.jobs.update(ask.grant.job_id for ask in asks if ask.grant is not None)
    world = World()
    if wanted.limits:
        take_limits(tx, world)
    tx.lock(wanted.tasks, wanted.jobs)
    now = tx.now()
    known = _known_keys(tx, asks, now)
    ledger = Ledger(load(tx, wanted, world), lifetimes.lease_us, now)
    results: list[Result] = []
    for ask in asks:
        try:
            results.append(_one(ask, ledger, known, lifetimes))
        except DetentError as error:
            results.append(error)
    if ledger.entries or ledger.keys:
        failpoints.hit("save.before")
        tx.save(ledger.changes())
    return results


def _one(
    ask: Ask, ledger: Ledger, known: dict[tuple[str, str], IdempotencyKey], lifetimes: Lifetimes
) -> Answer:
    if ask.key is not None:
        first = known.get((ask.key.project, ask.key.key))
        if first is not None:
            return _first_answer(ask, first)
    if ask.grant is not None:
        held(Draft(ledger.world, {}, ledger.now, ask.actor), ask.grant)
    draft = decide(ledger.world, ask.command, ledger.now, ask.actor)
    ledger.take(draft)
    if ask.key is not None:
        ledger.remember(ask, draft.answer, lifetimes.key_lifetime_us)
        known[ask.key.project, ask.key.key] = ledger.keys[-1]
    return Answer(draft.answer)


def _first_answer(ask: Ask, first: IdempotencyKey) -> Answer:
    if ask.key is not None and first.digest != ask.key.digest:
        raise Refused(
            f"the idempotency key {first.key!r} was used before with another body",
            code="idempotency_conflict",
            details={"first": first.answer},
        )
    return Answer(first.answer, repeated=True)


def _known_keys(
    tx: WriteTransaction, asks: Sequence[Ask], now: int
) -> dict[tuple[str, str], IdempotencyKey]:
    wanted = {(ask.key.project, ask.key.key) for ask in asks if ask.key is not None}
    return {(key.project, key.key): key for key in tx.keys(wanted, now)} if wanted else {}


def _fresh_ids(asks: Sequence[Ask]) -> frozenset[str]:
    """Ids that were just made: there is nothing to load under them."""
    ids = set()
    for ask in asks:
        if ask.fresh and isinstance(ask.command, c.SubmitTask):
            ids.add(ask.command.task_id)
        elif ask.fresh and isinstance(ask.command, c.SubmitJob):
            ids.add(ask.command.job_id)
    return frozenset(ids)
