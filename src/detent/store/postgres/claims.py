"""Which work a claimer may take: by rank, passing over what others are taking or changing.

The queue is seen as lanes, so that no claim walks past work that it must leave alone. Where a
lane begins is remembered, so that none walks past what was claimed before either, which the index
keeps for as long as any reader might still look at it.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple

from detent.kernel.lane import intent_of, suits
from detent.store.codec import to_json
from detent.store.postgres.connection import Query, Rows
from detent.store.postgres.locks import Lock
from detent.store.postgres.reader import READY
from detent.store.postgres.save_statements import ASLEEP, Arrivals, Lane, appended
from detent.store.postgres.transaction import Transaction
from detent.store.types import Candidate, ClaimFilter

#: Sends statements in one round trip.
Run = Callable[..., list[Rows]]

#: Arrivals tell everything; a look at all lanes now and then makes good what nobody told of.
LOOK_EVERY_S = 60.0
#: So many lanes are looked at together at least.
TOGETHER = 16
ANY_TIME, NEVER = -1 << 62, 1 << 62


class Wish(NamedTuple):
    """The lanes that a claimer may take from."""

    intents: Collection[str] | None
    projects: Collection[str] | None
    not_intents: Collection[str]
    not_projects: Collection[str]
    not_keys: Collection[str]

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

    def lowest(self, most: int, wish: Wish, tried: Collection[Lane]) -> list[Lane]:
        """The lanes that begin with the lowest ranks, of those that are wished and not tried."""
        lanes = [
            lane
            for group in self._heaps
            if wish.allows(*group)
            for lane in self._lowest_of(group, most, wish, tried)
        ]
        return nsmallest(most, lanes, key=self._floors.__getitem__)

    def _lowest_of(
        self, group: tuple[str, str], most: int, wish: Wish, tried: Collection[Lane]
    ) -> Iterator[Lane]:
        """Take from the heap until enough were found; what is still true goes back."""
        heap = self._heaps[group]
        taken: list[tuple[int, str]] = []
        while heap and most:
            floor, key = entry = heappop(heap)
            lane = (*group, key)
            if self._floors.get(lane) != floor or entry in taken[-1:]:
                continue
            taken.append(entry)
            if key not in wish.not_keys and lane not in tried:
                most -= 1
                yield lane
        for entry in taken:
            heappush(heap, entry)


class Lanes:
    """What one process knows of the queue: no lane begins before it is thought to.

    That holds for all that is committed, whoever wrote it.
    """

    def __init__(self, begin: Callable[[], Transaction], silent_ms: int) -> None:
        self._silent_ms = silent_ms
        self.turn = threading.Lock()
        self._begin = begin
        self._floors = Floors()
        #: When the next work that is asleep is due, and the last arrival that was looked at.
        self._asleep = NEVER
        self._seen = 0
        self._look_at_s = 0.0

    def learn(self, run: Run, wish: Wish, most: int) -> set[Lane]:
        """Take into account what has arrived since the last time, in this process or another.

        Lanes that will probably be wanted are looked at in the same round trip: those are the
        answer, without the ones in which something has arrived before the rest.
        """
        if time.monotonic() >= self._look_at_s:
            self._look(run)
            return set()
        likely = self._floors.lowest(most, wish, ())
        arrivals, begins = run(READY["arrivals_after"](after=self._seen), self._look_at(likely))
        self._settle(likely, begins)
        fresh = set(likely)
        for number, name, project, key, rank in arrivals:
            self._seen = max(self._seen, number)
            lane = (name, project, key)
            if lane == ASLEEP:
                self._asleep = min(rank, self._asleep)
            elif self._floors.lower(lane, rank):
                fresh.discard(lane)
        return fresh

    def _look(self, run: Run) -> None:
        """Everything anew. The last arrival is asked for first: what comes later is seen later."""
        ((last,),), lanes, asleep, *_ = run(
            READY["last_arrival"](),
            READY["lanes"](),
            READY["next_asleep"](floor=ANY_TIME),
            READY["forget_arrivals"](kind=Lock.ARRIVALS),
            READY["end_silent"](silent_ms=self._silent_ms),
        )
        self._seen = last
        self._floors = Floors()
        for name, project, key, rank in lanes:
            self._floors.put((name, project, key), rank)
        self._asleep = asleep[0][0] if asleep else NEVER
        self._look_at_s = time.monotonic() + LOOK_EVERY_S

    def wake(self, now: int) -> Collection[Lane]:
        """Work whose time has come moves to its lane, for everybody and for good. Which lanes.

        In a transaction of its own: a claim may have to wait for a limit, and then nobody must
        have to wait for rows that it holds.
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
                wake = READY["wake_queue"](ids=to_json([job_id for job_id, *_ in due.rows]))
                transaction.commit([wake, *appended((), arrivals)])
        finally:
            transaction.end()
        self._asleep = first.rows[0][0] if first.rows else NEVER
        for lane, rank in arrivals.items():
            self._floors.lower(lane, rank)
        return arrivals.keys()

    def best(
        self, run: Run, wish: Wish, most: int, tried: Collection[Lane], fresh: set[Lane]
    ) -> list[Lane]:
        """The lanes that begin with the lowest ranks, each looked at just now: it is fresh."""
        while True:
            best = self._floors.lowest(most, wish, tried)
            stale = [lane for lane in best if lane not in fresh]
            if not stale:
                return best
            (begins,) = run(self._look_at(stale))
            self._settle(stale, begins)
            fresh.update(stale)

    def _look_at(self, lanes: Iterable[Lane]) -> Query:
        return READY["lane_floors"](lanes=self.as_json(lanes))

    def _settle(self, lanes: Iterable[Lane], begins: Rows) -> None:
        """Note where lanes were seen to begin; without work one is dropped until some arrives."""
        found = {(name, project, key): rank for name, project, key, rank in begins}
        for lane in lanes:
            if lane in found:
                self._floors.put(lane, found[lane])
            else:
                self._floors.drop(lane)

    def as_json(self, lanes: Iterable[Lane]) -> str:
        return to_json([_as_row(lane, self._floors[lane]) for lane in lanes])


def _as_row(lane: Lane, floor: int) -> dict[str, str | int]:
    name, project, key = lane
    return {"lane": name, "project": project, "key": key, "floor": floor}


def claimable(
    run: Run, lanes: Lanes, claim_filter: ClaimFilter, limit: int, now: int
) -> list[tuple[Candidate, str]]:
    """Due work by rank that is ours until the end, each with its root."""
    wish = Wish._make(None if each is None else frozenset(each) for each in claim_filter)
    found: list[tuple[int, Candidate, str]] = []
    tried: set[Lane] = set()
    with lanes.turn:
        fresh = lanes.learn(run, wish, max(limit, TOGETHER))
        fresh.difference_update(lanes.wake(now))
        while len(found) < limit:
            left = limit - len(found)
            best = lanes.best(run, wish, max(left, TOGETHER, len(tried)), tried, fresh)
            if not best:
                break
            tried.update(best)
            (rows,) = run(READY["claimable"](lanes=lanes.as_json(best), limit=left))
            found += [(rank, Candidate._make(own), root) for *own, rank, root in rows]
    return [(candidate, root) for _, candidate, root in sorted(found)]
