"""Finds claimable jobs by project and rank, and skips those that other transactions have locked.

The queue is divided into lanes, so that a claim reads no jobs that it cannot take. The lowest rank
of each lane (its floor) is cached, so that a claim does not read the dead index entries of jobs
that were claimed before.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple

from detent.kernel.fair_shares import UNIT, Shares
from detent.kernel.lane import intent_of, is_planned, suits
from detent.store.codec import to_json
from detent.store.postgres.connection import Query, Rows, Value
from detent.store.postgres.locks import Lock
from detent.store.postgres.reader import READY
from detent.store.postgres.save_statements import ASLEEP, Arrivals, Lane, arrived
from detent.store.postgres.transaction import Transaction
from detent.store.types import Candidate, ClaimFilter

#: Sends statements in one round trip.
Run = Callable[..., list[Rows]]

#: The interval at which all lanes are read again, in case an arrival was missed.
REFRESH_EVERY_S = 60.0
#: The minimum number of lanes that are read together.
MIN_LANES = 16
#: The maximum number of arrivals that a claim in one round trip names.
MAX_SEEN = 500
ANY_TIME, NEVER = -1 << 62, 1 << 62


class LaneFilter(NamedTuple):
    """The lanes that a worker can claim from."""

    intents: Collection[str] | None
    projects: Collection[str] | None
    not_intents: Collection[str]
    not_projects: Collection[str]
    not_keys: Collection[str]

    @classmethod
    def of(cls, claim_filter: ClaimFilter) -> "LaneFilter":
        return cls._make(None if each is None else frozenset(each) for each in claim_filter[:5])

    def allows(self, lane: str, project: str) -> bool:
        return (
            suits(lane, self.intents)
            and (self.projects is None or project in self.projects)
            and intent_of(lane) not in self.not_intents
            and project not in self.not_projects
        )


class Floors:
    """Where lanes begin, in an order from which the lowest are taken quickly."""

    def __init__(self) -> None:
        self._floors: dict[Lane, int] = {}
        #: By lane and project, a heap of floors with the keys of their lanes; some are outdated.
        self._heaps: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def __getitem__(self, lane: Lane) -> int:
        return self._floors[lane]

    @property
    def lanes(self) -> Collection[Lane]:
        return self._floors.keys()

    def put(self, lane: Lane, floor: int) -> None:
        if self._floors.get(lane) != floor:
            self._floors[lane] = floor
            heappush(self._heaps.setdefault(lane[:2], []), (floor, lane[2]))

    def lower(self, lane: Lane, floor: int) -> bool:
        """Whether the lane was thought to begin later."""
        lower = floor < self._floors.get(lane, NEVER)
        if lower:
            self.put(lane, floor)
        return lower

    def drop(self, lane: Lane) -> None:
        self._floors.pop(lane, None)

    def lowest(
        self, limit: int, lane_filter: LaneFilter, shares: Shares, tried: Collection[Lane]
    ) -> list[Lane]:
        """The lanes that have the first jobs, of those that are wished and not tried.

        The first job of the nth lane of a project is the nth job of the project at the earliest.
        """
        projects: dict[str, list[tuple[int, Lane]]] = {}
        for group in self._heaps:
            if lane_filter.allows(*group):
                found = projects.setdefault(group[1], [])
                for lane in self._lowest_of(group, limit, lane_filter, tried):
                    found.append((self._floors[lane], lane))
        lanes: list[tuple[int, int, Lane]] = []
        for project, found in projects.items():
            at, cost = shares.start(project), shares.cost(project)
            for place, (_, lane) in enumerate(nsmallest(limit, found)):
                lanes.append((at + place * cost, min(found)[0], lane))
        return [lane for _, _, lane in nsmallest(limit, lanes)]

    def _lowest_of(
        self, group: tuple[str, str], limit: int, lane_filter: LaneFilter, tried: Collection[Lane]
    ) -> Iterator[Lane]:
        """Take from the heap until enough were found; what is still true goes back."""
        heap = self._heaps[group]
        taken: list[tuple[int, str]] = []
        while heap and limit:
            floor, key = entry = heappop(heap)
            lane = (*group, key)
            if self._floors.get(lane) != floor or entry in taken[-1:]:
                continue
            taken.append(entry)
            if key not in lane_filter.not_keys and lane not in tried:
                limit -= 1
                yield lane
        for entry in taken:
            heappush(heap, entry)


class Lanes:
    """The floors of all lanes as known to one process.

    No committed job of any process has a lower rank than the known floor of its lane.
    """

    def __init__(self, begin: Callable[[], Transaction], silent_ms: int) -> None:
        self._silent_ms = silent_ms
        self.turn = threading.Lock()
        self._begin = begin
        self._floors = Floors()
        #: When the next delayed job is due.
        self._asleep = NEVER
        #: Arrivals with this transaction id or a later one are read next, except those that were
        #: read: (transaction id, lane).
        self._horizon = 0
        self._seen: set[tuple[int, Lane]] = set()
        self._refresh_at_s = 0.0

    def learn(self, run: Run, lane_filter: LaneFilter, shares: Shares, limit: int) -> set[Lane]:
        """Read the arrivals since the last call, of this process and others.

        Lanes that will probably be claimed from are read in the same round trip. Returns these,
        without those in which a job with a lower rank has arrived.
        """
        if time.monotonic() >= self._refresh_at_s:
            self._refresh(run)
            return set()
        likely = self._floors.lowest(limit, lane_filter, shares, ())
        return self.learned(likely, run(*self.queries(likely)))

    def queries(self, likely: Collection[Lane]) -> list[Query]:
        """The statements of which `learned` takes the rows."""
        arrivals = READY["arrivals_after"](after=self._horizon)
        return [READY["arrivals_horizon"](), arrivals, self._floors_of(likely)]

    def learned(self, likely: Collection[Lane], rows: Sequence[Rows]) -> set[Lane]:
        """Store what was read; returns the lanes in which no job with a lower rank has arrived."""
        ((horizon,),), arrivals, begins = rows
        self._settle(likely, begins)
        fresh = set(likely)
        for lane, rank in self._new_arrivals(arrivals):
            if lane == ASLEEP:
                self._asleep = min(rank, self._asleep)
            elif self._floors.lower(lane, rank):
                fresh.discard(lane)
        self._horizon = horizon
        self._seen = {each for each in self._seen if each[0] >= horizon}
        return fresh

    def known(self, lane_filter: LaneFilter, now: int) -> list[Lane] | None:
        """All lanes that can be claimed from by their floors alone, without keys and plans.

        None if there may be others, if delayed jobs are due, or if a refresh is due.
        """
        if (
            time.monotonic() >= self._refresh_at_s
            or self._asleep <= now
            or len(self._seen) > MAX_SEEN
            or len(self._floors.lanes) > MIN_LANES
        ):
            return None
        lanes = [lane for lane in self._floors.lanes if lane_filter.allows(lane[0], lane[1])]
        return None if any(key or is_planned(name) for name, _, key in lanes) else lanes

    def wanted(
        self, lanes: Collection[Lane], lane_filter: LaneFilter, shares: Shares
    ) -> dict[str, Value]:
        """The parameters of `choose_plain` for these lanes and for new arrivals."""
        intents, projects = (
            None if each is None else to_json(sorted(each)) for each in lane_filter[:2]
        )
        seen = to_json(["\x1f".join((str(xid), *lane)) for xid, lane in self._seen])
        where = {"lanes": self.as_json(lanes), "intents": intents, "projects": projects}
        order: dict[str, Value] = {
            "start": shares.now,
            "unit": UNIT,
            "starts": to_json(shares.starts),
            "costs": to_json({project: shares.cost(project) for project in shares.weights}),
        }
        return {**where, **order, "after": self._horizon, "seen": seen}

    def _new_arrivals(self, rows: Rows) -> Iterator[tuple[Lane, int]]:
        for xid, name, project, key, rank in rows:
            arrival = (xid, (name, project, key))
            if arrival not in self._seen:
                self._seen.add(arrival)
                yield arrival[1], rank

    def _refresh(self, run: Run) -> None:
        """Read all lanes again. The horizon is read first, so that no later arrival is missed."""
        ((horizon,),), lanes, asleep, *_ = run(
            READY["arrivals_horizon"](),
            READY["lanes"](),
            READY["next_asleep"](floor=ANY_TIME),
            READY["forget_arrivals"](kind=Lock.ARRIVALS),
            READY["end_silent"](silent_ms=self._silent_ms),
        )
        self._horizon, self._seen = horizon, set()
        self._floors = Floors()
        for name, project, key, rank in lanes:
            self._floors.put((name, project, key), rank)
        self._asleep = asleep[0][0] if asleep else NEVER
        self._refresh_at_s = time.monotonic() + REFRESH_EVERY_S

    def wake(self, now: int) -> Collection[Lane]:
        """Move delayed jobs that are due to their lanes; returns these lanes.

        It uses its own transaction: a claim may have to wait for a limit, and others must not wait
        for its rows meanwhile.
        """
        if self._asleep > now:
            return ()
        transaction = self._begin()
        arrivals: Arrivals = {}
        try:
            first, due = transaction.run(
                [
                    READY["next_asleep"](floor=self._asleep),
                    READY["due_asleep"](floor=self._asleep, now=now),
                ]
            )
            for _, name, project, key, rank in due.rows:
                lane = (name, project, key)
                arrivals[lane] = min(rank, arrivals.get(lane, rank))
            if due.rows:
                wake = READY["wake_jobs"](ids=to_json([job_id for job_id, *_ in due.rows]))
                transaction.commit([wake, *arrived(arrivals)])
        finally:
            transaction.end()
        self._asleep = first.rows[0][0] if first.rows else NEVER
        for lane, rank in arrivals.items():
            self._floors.lower(lane, rank)
        return arrivals.keys()

    def best(
        self,
        run: Run,
        lane_filter: LaneFilter,
        shares: Shares,
        limit: int,
        tried: Collection[Lane],
        fresh: set[Lane],
    ) -> list[Lane]:
        """The lanes that have the first jobs; the floor of each was read just now."""
        while True:
            best = self._floors.lowest(limit, lane_filter, shares, tried)
            stale = [lane for lane in best if lane not in fresh]
            if not stale:
                return best
            (begins,) = run(self._floors_of(stale))
            self._settle(stale, begins)
            fresh.update(stale)

    def _floors_of(self, lanes: Iterable[Lane]) -> Query:
        return READY["lane_floors"](lanes=self.as_json(lanes))

    def _settle(self, lanes: Iterable[Lane], begins: Rows) -> None:
        """Store the floors of lanes; a lane without jobs is dropped until one arrives."""
        found = {(name, project, key): rank for name, project, key, rank in begins}
        for lane in lanes:
            if lane in found:
                self._floors.put(lane, found[lane])
            else:
                self._floors.drop(lane)

    def as_json(self, lanes: Iterable[Lane]) -> str:
        return to_json([_as_row(lane, self._floors[lane]) for lane in lanes])

    def shared(self, lanes: Sequence[Lane], shares: Shares, limit: int) -> dict[str, int]:
        """How many of the first jobs the projects of these lanes have, if they have enough."""
        floors: dict[str, int] = {}
        for lane in lanes:
            floors[lane[1]] = min(self._floors[lane], floors.get(lane[1], NEVER))
        if len(floors) <= 1:
            return dict.fromkeys(floors, limit)
        projects = sorted(floors, key=lambda project: (floors[project], project))
        return shares.divided(projects, limit, {})

    def as_shared_json(self, lanes: Iterable[Lane], shares: Shares, most: dict[str, int]) -> str:
        """The lanes of the projects in `most`, with their virtual times and the maximum numbers."""
        return to_json(
            [
                {
                    **_as_row(lane, self._floors[lane]),
                    "start": shares.start(lane[1]),
                    "cost": shares.cost(lane[1]),
                    "most": most[lane[1]],
                }
                for lane in lanes
                if lane[1] in most
            ]
        )


def _as_row(lane: Lane, floor: int) -> dict[str, str | int]:
    name, project, key = lane
    return {"lane": name, "project": project, "key": key, "floor": floor}


class _Found(NamedTuple):
    rank: int
    candidate: Candidate
    root: str

    @property
    def project(self) -> str:
        return self.candidate.project


def claimable(
    run: Run, lanes: Lanes, claim_filter: ClaimFilter, limit: int, now: int
) -> list[tuple[Candidate, str]]:
    """Due jobs in the order of shares and rank, locked until the end, each with its root."""
    lane_filter, shares = LaneFilter.of(claim_filter), claim_filter.shares
    found: list[_Found] = []
    tried: set[Lane] = set()
    with lanes.turn:
        fresh = lanes.learn(run, lane_filter, shares, max(limit, MIN_LANES))
        fresh.difference_update(lanes.wake(now))
        while len(found) < limit:
            left = limit - len(found)
            after = shares.after(each.project for each in found)
            most = max(left, MIN_LANES, len(tried))
            best = lanes.best(run, lane_filter, after, most, tried, fresh)
            if not best:
                break
            tried.update(best)
            found += _read(run, lanes, best, after, left)
    found.sort(key=lambda each: (each.rank, each.project, each.candidate.job_id))
    return [(each.candidate, each.root) for each in shares.first(found, limit)]


def _read(run: Run, lanes: Lanes, some: Sequence[Lane], shares: Shares, limit: int) -> list[_Found]:
    """Lock the first jobs of some lanes: each project as far as its share reaches.

    If some projects have fewer jobs than that, all are read again, and the others get the rest.
    """
    most = lanes.shared(some, shares, limit)
    while True:
        given = lanes.as_shared_json(some, shares, most)
        (rows,) = run(READY["claimable"](lanes=given, limit=limit))
        found = [_Found(rank, Candidate(*own), root) for *own, rank, root in rows]
        if len(found) == limit or set(most.values()) == {limit}:
            return found
        most = dict.fromkeys((lane[1] for lane in some), limit)
