"""Which work a claimer may take: by rank, passing over whatever somebody else is taking or
changing.

The queue is seen as lanes, one for each intent in a project that has claimable work, so that no
claim walks past work that it must leave alone. Where a lane begins is remembered, so that no
claim walks past what was claimed before either, which the index keeps for as long as any reader
might still look at it.
"""

import time
from collections.abc import Callable, Collection, Iterable
from heapq import nsmallest
from threading import Lock

from detent.store.codec import to_json
from detent.store.port import Abilities, Candidate
from detent.store.postgres.connection import Rows
from detent.store.postgres.locks import Lock as Key
from detent.store.postgres.reading import READY
from detent.store.postgres.saving import ASLEEP, Arrivals, appended
from detent.store.postgres.transaction import Transaction

#: Sends statements in one round trip.
Run = Callable[..., list[Rows]]
Lane = tuple[str, str]

#: Arrivals tell everything; looking at all lanes anew now and then would make good what was missed.
LOOK_EVERY_S = 60.0
#: So many lanes are looked at together at least.
TOGETHER = 16
#: Less than every time.
ANY_TIME = -1 << 62
NEVER = 1 << 62


class Lanes:
    """Where lanes begin, for one process. That is never later than they do, for all that is
    committed.
    """

    def __init__(self, begin: Callable[[], Transaction]) -> None:
        self.turn = Lock()
        self._begin = begin
        self._floors: dict[Lane, int] = {}
        #: The last arrival that was taken into account.
        self._seen = 0
        self._look_at_s = 0.0

    def learn(self, run: Run) -> None:
        """Take into account what has arrived since the last time, in this process or another."""
        if time.monotonic() >= self._look_at_s:
            self._look(run)
            return
        (rows,) = run(READY["arrivals_after"](after=self._seen))
        for number, intent, project, rank in rows:
            self._seen = max(self._seen, number)
            self._lower((intent, project), rank)

    def _look(self, run: Run) -> None:
        """Everything anew. What arrives meanwhile is after the last arrival that was asked for
        first.
        """
        ((last,),), lanes, asleep, _ = run(
            READY["last_arrival"](),
            READY["lanes"](),
            READY["next_asleep"](floor=ANY_TIME),
            READY["forget_arrivals"](kind=Key.ARRIVALS),
        )
        self._seen = last
        self._floors = {(intent, project): rank for intent, project, rank in lanes}
        for (due_at,) in asleep:
            self._floors[ASLEEP] = due_at
        self._look_at_s = time.monotonic() + LOOK_EVERY_S

    def _lower(self, lane: Lane, floor: int) -> None:
        self._floors[lane] = min(floor, self._floors.get(lane, floor))

    def wake(self, now: int) -> None:
        """Work whose time has come moves to its lane, for everybody and for good.

        In a transaction of its own: a claim that held these rows and waited for a limit could not
        be waited for.
        """
        floor = self._floors.get(ASLEEP, NEVER)
        if floor > now:
            return
        transaction = self._begin()
        arrivals: Arrivals = {}
        try:
            first, due = transaction.run(
                READY["next_asleep"](floor=floor), READY["due_asleep"](floor=floor, now=now)
            )
            for _, intent, project, rank in due.rows:
                lane = (intent, project)
                arrivals[lane] = min(rank, arrivals.get(lane, rank))
            if due.rows:
                wake = READY["wake_queue"](ids=to_json([job_id for job_id, *_ in due.rows]))
                transaction.commit(wake, *appended((), arrivals))
        finally:
            transaction.end()
        self._settle(ASLEEP, first.rows[0][0] if first.rows else None)
        for lane, rank in arrivals.items():
            self._lower(lane, rank)

    def _settle(self, lane: Lane, floor: int | None) -> None:
        """Note where a lane was seen to begin; one without work is forgotten until some arrives."""
        if floor is None:
            self._floors.pop(lane, None)
        else:
            self._floors[lane] = floor

    def best(
        self, run: Run, allowed: Callable[[Lane], bool], most: int, tried: Collection[Lane]
    ) -> list[tuple[Lane, int]]:
        """The lanes that begin with the lowest ranks, each looked at just now."""
        fresh: set[Lane] = set()
        while True:
            lanes = [lane for lane in self._floors if allowed(lane) and lane not in tried]
            best = nsmallest(most, lanes, key=self._floors.__getitem__)
            stale = [lane for lane in best if lane not in fresh]
            if not stale:
                return [(lane, self._floors[lane]) for lane in best]
            (rows,) = run(READY["lane_floors"](lanes=self._as_json(stale)))
            begins = {(intent, project): rank for intent, project, rank in rows}
            for lane in stale:
                self._settle(lane, begins.get(lane))
            fresh.update(stale)

    def _as_json(self, lanes: Iterable[Lane]) -> str:
        return as_json((lane, self._floors[lane]) for lane in lanes)


def as_json(lanes: Iterable[tuple[Lane, int]]) -> str:
    return to_json(
        [
            {"intent": intent, "project": project, "floor": floor}
            for (intent, project), floor in lanes
        ]
    )


def claimable(
    run: Run, lanes: Lanes, abilities: Abilities, limit: int, now: int
) -> list[tuple[Candidate, str]]:
    """Due work by rank that is ours until the end, each with its root."""
    allowed = _allowed(abilities)
    full_keys = to_json(list(abilities.full_keys))
    found: list[tuple[int, Candidate, str]] = []
    tried: set[Lane] = set()
    with lanes.turn:
        lanes.learn(run)
        lanes.wake(now)
        while len(found) < limit:
            left = limit - len(found)
            best = lanes.best(run, allowed, max(left, TOGETHER, len(tried)), tried)
            if not best:
                break
            tried.update(lane for lane, _ in best)
            query = READY["claimable"](lanes=as_json(best), full_keys=full_keys, limit=left)
            (rows,) = run(query)
            found += [(rank, Candidate._make(own), root) for *own, rank, root in rows]
    return [(candidate, root) for _, candidate, root in sorted(found)]


def _allowed(abilities: Abilities) -> Callable[[Lane], bool]:
    intents, projects = _set(abilities.intents), _set(abilities.projects)
    no_intents, no_projects = set(abilities.paused_intents), set(abilities.paused_projects)

    def allowed(lane: Lane) -> bool:
        intent, project = lane
        return (
            (intents is None or intent in intents)
            and (projects is None or project in projects)
            and intent not in no_intents
            and project not in no_projects
            and lane != ASLEEP
        )

    return allowed


def _set(names: Collection[str] | None) -> set[str] | None:
    return None if names is None else set(names)
