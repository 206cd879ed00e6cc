"""Executes one batch: load, decide each command in order, save. Each is refused alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from detent import failpoints
from detent.engine import project_usage
from detent.engine.changeset import ChangeSet
from detent.engine.loader import LoadRequest, hold_lifecycles, load, load_lifecycles, load_limits
from detent.engine.plain_jobs import PlainClaims, SetPlan
from detent.engine.provider_rows import save_health
from detent.engine.types import CommandRequest, CommandResult
from detent.errors import DetentError, Refused
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.decide.guards import held
from detent.kernel.draft import Draft
from detent.kernel.world import World
from detent.store.port import WriteTransaction
from detent.store.types import IdempotencyKey

Result = CommandResult | DetentError


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """How long leases and idempotency keys are valid."""

    lease_us: int = 30_000_000
    key_lifetime_us: int = 7 * 86_400_000_000


def run(
    tx: WriteTransaction,
    requests: Sequence[CommandRequest],
    lifetimes: Lifetimes,
    known: PlainClaims | None = None,
) -> list[Result]:
    """Decide the commands in order; each sees the changes of the commands before it."""
    plan = SetPlan(tx.sets, requests, known or PlainClaims()) if tx.sets is not None else None
    if plan is not None and plan.unknown:
        _lock_all(tx, requests)
        plan.read()
    if plan is None or not plan.places:
        return _Each(tx, requests).run(lifetimes)
    others = [each for place, each in enumerate(requests) if place not in plan.places]
    if not others:
        return list(dict(sorted(plan.execute().items())).values())
    _lock_all(tx, requests)
    rest = _Each(tx, others)
    if plan.concerns(rest.tasks, rest.jobs):
        return _Each(tx, requests).run(lifetimes)
    own = iter(rest.run(lifetimes))
    done = plan.execute()
    return [done[place] if place in done else next(own) for place in range(len(requests))]


def _lock_all(tx: WriteTransaction, requests: Sequence[CommandRequest]) -> None:
    """Lock what commands name together, before some of them are decided as a set."""
    if tx.sets is not None and tx.sets.remote:
        wanted = _wanted(requests)
        wanted.leave_out(_fresh_ids(requests))
        _locked(tx, wanted)


def _wanted(requests: Sequence[CommandRequest]) -> LoadRequest:
    wanted = LoadRequest([request.command for request in requests])
    wanted.jobs.update(request.grant.job_id for request in requests if request.grant is not None)
    return wanted


def _locked(tx: WriteTransaction, wanted: LoadRequest) -> World:
    """Lock what is wanted in the order that all writers have: limits, lifecycles, then roots."""
    world = World(lifecycles=tx.lifecycles())
    if wanted.limits:
        load_limits(tx, world)
    if wanted.charges:
        tx.rows_for_update(project_usage.TABLE, project_usage.COST)
    if wanted.lifecycles:
        load_lifecycles(tx, world)
    elif wanted.uses_installed:
        hold_lifecycles(tx, world)
    tx.lock(wanted.tasks, wanted.jobs)
    return world


class _Each:
    """Commands that are decided one by one, with what they may read or change."""

    def __init__(self, tx: WriteTransaction, requests: Sequence[CommandRequest]) -> None:
        self.tx = tx
        self.requests = requests
        wanted = _wanted(requests)
        #: The tasks and jobs that are named or loaded.
        self.tasks, self.jobs = set(wanted.tasks), set(wanted.jobs)
        wanted.leave_out(_fresh_ids(requests))
        world = _locked(tx, wanted)
        self.world = load(tx, wanted, world) if requests else world
        self.tasks.update(self.world.tasks)
        self.jobs.update(self.world.jobs)

    def run(self, lifetimes: Lifetimes) -> list[Result]:
        tx, requests = self.tx, self.requests
        now = tx.now()
        known = _known_keys(tx, requests, now)
        changes = ChangeSet(self.world, lifetimes.lease_us, now)
        costs = project_usage.costs(self.world, [request.command for request in requests])
        results: list[Result] = []
        for request in requests:
            try:
                results.append(_execute(request, changes, known, lifetimes))
            except DetentError as error:
                results.append(error)
        if changes.entries or changes.keys:
            failpoints.hit("save.before")
            save_health(tx, changes.health)
            project_usage.add_costs(tx, self.world, costs)
            tx.save(changes.rows())
        return results


def _execute(
    request: CommandRequest,
    changes: ChangeSet,
    known: dict[tuple[str, str], IdempotencyKey],
    lifetimes: Lifetimes,
) -> CommandResult:
    if request.key is not None:
        first = known.get((request.key.project, request.key.key))
        if first is not None:
            return _first_result(request, first)
    if request.grant is not None:
        held(Draft(changes.world, {}, changes.now, request.actor), request.grant)
    draft = decide(changes.world, request.command, changes.now, request.actor)
    changes.add(draft)
    if request.key is not None:
        changes.add_key(request, draft.answer, lifetimes.key_lifetime_us)
        known[request.key.project, request.key.key] = changes.keys[-1]
    return CommandResult(draft.answer)


def _first_result(request: CommandRequest, first: IdempotencyKey) -> CommandResult:
    if request.key is not None and first.digest != request.key.digest:
        raise Refused(
            f"The idempotency key {first.key!r} was used before with another request. Use a new "
            "key, or repeat the first request unchanged.",
            code="idempotency_conflict",
            details={"first": first.answer},
        )
    return CommandResult(first.answer, repeated=True)


def _known_keys(
    tx: WriteTransaction, requests: Sequence[CommandRequest], now: int
) -> dict[tuple[str, str], IdempotencyKey]:
    wanted = {
        (request.key.project, request.key.key) for request in requests if request.key is not None
    }
    return {(key.project, key.key): key for key in tx.keys(wanted, now)} if wanted else {}


def _fresh_ids(requests: Sequence[CommandRequest]) -> frozenset[str]:
    """Return the ids that were just generated: nothing is loaded for them."""
    ids = set()
    for request in requests:
        if request.fresh and isinstance(request.command, c.SubmitTask):
            ids.add(request.command.task_id)
        elif request.fresh and isinstance(request.command, c.SubmitJob):
            ids.add(request.command.job_id)
    return frozenset(ids)
