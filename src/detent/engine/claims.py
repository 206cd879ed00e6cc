"""Claims: a worker gets up to n due jobs, within every concurrency limit.

Projects share the claims by weight; within a project, jobs are claimed by rank.
"""

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine import plain_jobs
from detent.engine.batch import Lifetimes
from detent.engine.changeset import ChangeSet
from detent.engine.concurrency_limits import ConcurrencyLimits
from detent.engine.known_limits import ClaimShares
from detent.engine.loader import LoadRequest, load
from detent.engine.plain_jobs import PlainClaims
from detent.engine.types import Claimed
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.fair_shares import Shares
from detent.kernel.variants import has_variants, workspace_owner
from detent.store.job_sets import Shape
from detent.store.port import WriteTransaction
from detent.store.types import Candidate, ClaimFilter


class Sessions(NamedTuple):
    """Agent sessions of the claiming worker.

    A job whose session is on another worker is left to that worker for the grace period.
    """

    intents: Collection[str]
    #: Whether the session (task id, session id) is on the claiming worker.
    held: Callable[[str, str], bool]
    grace_us: int


class Ahead(NamedTuple):
    """What a worker may claim before it has slots for it, because the runs are short.

    Work under a concurrency limit, a rate limit or a concurrency key is never claimed ahead: it
    would count as running while it waits in the worker.
    """

    #: By intent: the estimated seconds of the worker's time for each job.
    cost_s: Mapping[str, float]
    #: How many seconds of work are claimed ahead, and how many jobs at most.
    seconds: float
    jobs: int
    #: How many workers take these jobs. If the queue has less than was asked for, this one takes
    #: its share of what it has no slots for.
    workers: int = 1


class ClaimRequest(NamedTuple):
    """A worker's request for up to `limit` jobs that it can run, and more if they are short."""

    worker: str
    nonce: str
    limit: int
    intents: Collection[str] | None = None
    projects: Collection[str] | None = None
    sessions: Sessions | None = None
    ahead: Ahead | None = None

    @property
    def most(self) -> int:
        """How many jobs are claimed at most."""
        return self.limit + (0 if self.ahead is None else self.ahead.jobs)

    def parts(self) -> Iterator["ClaimRequest"]:
        """Requests without `ahead` that need no jobs to be read first: for slots, then for more."""
        ahead, intents = self.ahead, self.intents
        if ahead is None:
            yield self
            return
        slots = self._replace(ahead=None)
        longest_s = max(ahead.cost_s.values())
        more = min(ahead.jobs, int(ahead.seconds / longest_s)) // ahead.workers
        if intents is not None and set(intents) <= ahead.cost_s.keys():
            yield slots._replace(limit=self.limit + more)
            return
        if self.limit:
            yield slots
        if more:
            yield slots._replace(limit=more, intents=list(ahead.cost_s))


def run(
    tx: WriteTransaction,
    request: ClaimRequest,
    lifetimes: Lifetimes,
    known: PlainClaims,
    claim_shares: ClaimShares,
) -> list[Claimed] | None:
    """Claim jobs; those that another worker has claimed or a limit excludes stay in the queue.

    None if a pause has expired: its end must be in the log before a job starts after it.
    """
    limits = ConcurrencyLimits(tx, request.worker)
    if limits.over:
        return None
    shares = claim_shares.weighted(limits.rows)
    chosen = _choose(tx, request, limits, shares)
    if not chosen:
        return []
    by = (request.worker, request.nonce)
    claimed = dict(plain_jobs.claim(tx, *by, chosen, lifetimes.lease_us, known))
    if tx.sets is not None and tx.sets.remote:
        known.expect(_asked(request), chosen)
    rest = [each.job_id for each in chosen if each.job_id not in claimed]
    if rest:
        claimed.update(_claim_each(tx, request, lifetimes, rest))
    claim_shares.add(shares, [each.project for each in chosen if each.job_id in claimed])
    return [claimed[each.job_id] for each in chosen if each.job_id in claimed]


def expected(request: ClaimRequest, known: PlainClaims) -> Sequence[Shape]:
    """The shapes that the jobs of the next claim probably have; none if it must read them."""
    if request.sessions is not None and _concern(request.sessions, request.intents):
        return ()
    return known.expected(_asked(request))


def _asked(request: ClaimRequest) -> Hashable:
    intents, projects = (
        None if each is None else frozenset(each) for each in (request.intents, request.projects)
    )
    return intents, projects


def _concern(sessions: Sessions, intents: Collection[str] | None) -> bool:
    return bool(sessions.intents) and (
        intents is None or not set(sessions.intents).isdisjoint(intents)
    )


def _claim_each(
    tx: WriteTransaction, request: ClaimRequest, lifetimes: Lifetimes, job_ids: Sequence[str]
) -> Iterable[tuple[str, Claimed]]:
    commands = [c.ClaimJob(job_id, request.worker, request.nonce) for job_id in job_ids]
    changes = ChangeSet(load(tx, LoadRequest(commands)), lifetimes.lease_us, tx.now())
    grants = list(_decide(changes, commands, c.Actor(f"worker:{request.worker}")))
    failpoints.hit("claim.chosen")
    tx.save(changes.rows())
    payloads = tx.payloads([grant.job_id for grant in grants])
    return [(grant.job_id, _claimed(changes, grant, payloads)) for grant in grants]


def _choose(
    tx: WriteTransaction, request: ClaimRequest, limits: ConcurrencyLimits, shares: Shares
) -> list[Candidate]:
    """Choose by shares and rank. Skip jobs over a limit and choose the next ones."""
    if limits.paused:
        return []
    ahead = request.ahead
    chosen, rest = (
        _choose_for_slots(tx, request, limits, shares) if request.limit > 0 else ({}, None)
    )
    limits.save_rates()
    if ahead is not None and may_go_ahead(request, [each.intent for each in chosen.values()]):
        if rest is None:
            wanted = len(chosen) + ahead.jobs
            closed = limits.closed()
            claim_filter = ClaimFilter(list(ahead.cost_s), request.projects, *closed, shares)
            found = tx.claimable(claim_filter, wanted, tx.now())
            rest = _Rest([each for each in found if each.job_id not in chosen], len(found) < wanted)
        return [*chosen.values(), *_affordable(rest, ahead, limits)]
    return list(chosen.values())


class _Rest(NamedTuple):
    """Candidates that there are no slots for, and whether the queue has no more."""

    candidates: Sequence[Candidate]
    all: bool


def _choose_for_slots(
    tx: WriteTransaction, request: ClaimRequest, limits: ConcurrencyLimits, shares: Shares
) -> tuple[dict[str, Candidate], _Rest | None]:
    """Choose up to `limit` jobs; also what follows them, if all that can follow is short."""
    now = tx.now()
    ahead = request.ahead
    only_short = ahead is not None and set(request.intents or ("",)) <= set(ahead.cost_s)
    wanted = request.most if only_short else request.limit
    chosen: dict[str, Candidate] = {}
    others: set[str] = set()
    while True:
        closed = limits.closed()
        claim_filter = ClaimFilter(request.intents, request.projects, *closed, shares)
        found = tx.claimable(claim_filter, wanted + len(others), now)
        new = [each for each in found if each.job_id not in chosen and each.job_id not in others]
        if request.sessions is not None and (
            held := _held_elsewhere(tx, request.sessions, new, now)
        ):
            others |= held  # skip them and read further
            continue
        first = new[: request.limit - len(chosen)]
        admitted = limits.admit(first)
        chosen.update({each.job_id: each for each in admitted})
        if len(admitted) == len(new) or len(chosen) == request.limit:
            break
    rest = _Rest(new[len(first) :], len(found) < wanted + len(others))
    return chosen, rest if only_short else None


def may_go_ahead(request: ClaimRequest, intents: Sequence[str]) -> bool:
    """Whether jobs of these intents fill the slots, and not all of their runs are long."""
    if request.ahead is None or not request.limit:
        return request.ahead is not None
    short = any(each in request.ahead.cost_s for each in intents)
    return short and len(intents) == request.limit


def _affordable(rest: _Rest, ahead: Ahead, limits: ConcurrencyLimits) -> Iterable[Candidate]:
    """The candidates that no limit concerns, up to the time that they take, or this share."""
    free = [each for each in rest.candidates if not limits.concern(each)]
    left_s = ahead.seconds
    for each in free[: -(-len(free) // ahead.workers) if rest.all else ahead.jobs]:
        left_s -= ahead.cost_s[each.intent]
        if left_s < 0:
            return
        yield each


def _held_elsewhere(
    tx: WriteTransaction, sessions: Sessions, candidates: Iterable[Candidate], now: int
) -> set[str]:
    """Return jobs whose agent session is on another worker, during the grace period.

    A job that only waits for variants has no session.
    """
    ids = [each.job_id for each in candidates if each.intent in sessions.intents]
    jobs = {job.task_id: job for job, _ in tx.jobs(ids) if job.task_id} if ids else {}
    fresh = {
        task_id: job
        for task_id, job in jobs.items()
        if now - max(job.queued_at, job.not_before) < sessions.grace_us and not has_variants(job)
    }
    return {
        fresh[task.id].id
        for task, _ in (tx.tasks(list(fresh)) if fresh else ())
        if task.session_id is not None
        and not sessions.held(workspace_owner(fresh[task.id]), task.session_id)
    }


def waiting(tx: WriteTransaction, request: ClaimRequest) -> bool:
    """Whether a job could be claimed now, within every limit. Claims nothing."""
    limits = ConcurrencyLimits(tx, request.worker)
    if limits.over:
        return True
    if limits.paused:
        return False
    claim_filter = ClaimFilter(request.intents, request.projects, *limits.closed())
    found = tx.claimable(claim_filter, request.limit, tx.now())
    return bool(limits.admit(found))


def _decide(
    changes: ChangeSet, commands: Iterable[c.ClaimJob], actor: c.Actor
) -> Iterable[c.Grant]:
    for command in commands:
        try:
            draft = decide(changes.world, command, changes.now, actor)
        except DetentError:
            continue  # another worker was first, or the job is not claimable any more
        changes.add(draft)
        if draft.answer is not None:  # None: the budget is spent, and the job waits for money
            yield draft.answer


def _claimed(changes: ChangeSet, grant: c.Grant, payloads: Mapping[str, Any]) -> Claimed:
    job = changes.world.jobs[grant.job_id]
    task = None if job.task_id is None else changes.world.tasks.get(job.task_id)
    return Claimed(grant, job, task, payloads.get(job.id), changes.lease_until)
