"""Finds claimable jobs by project and rank, from indexes that contain only claimable jobs.

They are read lane by lane and project by project, so that no claim walks past work that it must
leave alone. If several projects have work, each is read as far as its share reaches.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from detent.kernel.lane import intent_of, is_planned, suits
from detent.store.sqlite.commit_log import SQL
from detent.store.sqlite.connection import Connection
from detent.store.types import Candidate, ClaimFilter

WAKE, IN_LANE, OF_KEY = (
    SQL[name].text for name in ("wake_queue", "claimable_in_lane", "claimable_of_key")
)
NEXT_LANE, NEXT_PROJECT, PROJECTS, NEXT_KEY = (
    SQL[name].text for name in ("next_lane", "next_project", "projects_in_lane", "next_key")
)

#: How many jobs of full concurrency keys are skipped before each key is read separately.
LOOKED_PAST = 200
#: Greater than every rank.
ANY_RANK = (1 << 63) - 1

#: Rows of candidates, each with its rank before it.
Rows = list[tuple[Any, ...]]


def claimable(
    connection: Connection, claim_filter: ClaimFilter, limit: int, now: int
) -> list[Candidate]:
    """Due jobs in order; first moves jobs that have become due into the queue."""
    connection.all(WAKE, (now,))
    queue = _Queue(connection, claim_filter)
    if not queue.shared:
        rows = [row for project in queue.lanes for row in queue.first(project, limit)]
        return [Candidate._make(row[1:]) for row in rows]
    rows = [row for found in _shared(queue, claim_filter, limit).values() for row in found]
    rows.sort(key=lambda row: (row[0], row[3], row[1]))
    return claim_filter.shares.first([Candidate._make(row[1:]) for row in rows], limit)


def _shared(queue: "_Queue", claim_filter: ClaimFilter, limit: int) -> Mapping[str, Rows]:
    """Read each project up to its share; what one has too few jobs for is shared by the others."""
    floors = queue.floors()
    projects = sorted(floors, key=lambda project: (floors[project], project))
    found: dict[str, Rows] = {}
    known: dict[str, int] = {}
    while True:
        shares = claim_filter.shares.divided(projects, limit, known)
        more = {each: most for each, most in shares.items() if most > len(found.get(each, ()))}
        if not more:
            return found
        for project, most in more.items():
            found[project] = queue.first(project, most)
            if len(found[project]) < most:
                known[project] = len(found[project])


class _Queue:
    """The lanes of each project that the filter allows."""

    def __init__(self, connection: Connection, claim_filter: ClaimFilter) -> None:
        self._connection = connection
        self._filter = claim_filter
        self._full_keys = frozenset(claim_filter.full_keys)
        #: By project: its lanes.
        self.lanes: dict[str, list[str]] = {}
        #: By project: its lowest rank; empty if only one project has work.
        self._floors: dict[str, int] = {}
        names = list(_lanes(connection, claim_filter))
        self.shared = self._found_two(names)
        if self.shared:
            self.lanes.clear()
            self._read_all(names)

    def _found_two(self, names: Iterable[str]) -> bool:
        """Find the projects step by step, until there are two of them in the queue."""
        found = set()
        for lane in names:
            for project in _following(self._connection, NEXT_PROJECT, lane):
                found.add(project)
                if len(found) > 1:
                    return True
                if self._allows(project):
                    self.lanes.setdefault(project, []).append(lane)
        return False

    def _read_all(self, names: Iterable[str]) -> None:
        for lane in names:
            for project, *ranks in self._connection.all(PROJECTS, (lane,)):
                if self._allows(project):
                    self.lanes.setdefault(project, []).append(lane)
                    floor = min(rank for rank in ranks if rank is not None)
                    self._floors[project] = min(floor, self._floors.get(project, floor))

    def _allows(self, project: str) -> bool:
        allowed = self._filter.projects
        return (
            allowed is None or project in allowed
        ) and project not in self._filter.paused_projects

    def floors(self) -> Mapping[str, int]:
        """By project, its lowest rank. Jobs of full concurrency keys do not count."""
        if not self._full_keys:
            return self._floors
        firsts = {project: self.first(project, 1) for project in self.lanes}
        return {project: rows[0][0] for project, rows in firsts.items() if rows}

    def first(self, project: str, limit: int) -> Rows:
        """The jobs of a project with the lowest ranks."""
        best = _Best(self._connection, self._full_keys, limit)
        for lane in self.lanes[project]:
            self._add_lane(best, (lane, project))
        return best.rows

    def _add_lane(self, best: "_Best", lane: tuple[str, str]) -> None:
        best.add(IN_LANE, *lane, 0, best.worst_rank)
        if not best.add(IN_LANE, *lane, 1, best.worst_rank):
            for key in _following(self._connection, NEXT_KEY, *lane):
                if key not in best.full_keys:
                    best.add(OF_KEY, *lane, key, best.worst_rank)


class _Best:
    """The rows of lowest rank so far, `limit` of them at most, none under a full key."""

    def __init__(self, connection: Connection, full_keys: frozenset[str], limit: int) -> None:
        self.rows: Rows = []
        self.full_keys = full_keys
        self.limit = limit
        self._connection = connection

    def add(self, text: str, *values: Any) -> bool:
        """Add the rows of a statement. False if jobs of full keys may hide further rows."""
        most = self.limit + LOOKED_PAST if self.full_keys else self.limit
        found = self._connection.all(text, (*values, most))
        fit = [row for row in found if row[4] not in self.full_keys][: self.limit]
        if self.rows:
            # A key is read separately after some of its rows were found: each row counts once.
            self.rows = sorted({*self.rows, *fit})[: self.limit] if fit else self.rows
        else:
            self.rows = fit
        return len(fit) == self.limit or len(found) < most

    @property
    def worst_rank(self) -> int:
        """The highest rank that a further row may have."""
        full = self.rows and len(self.rows) == self.limit
        return self.rows[-1][0] if full else ANY_RANK


def _lanes(connection: Connection, claim_filter: ClaimFilter) -> Iterator[str]:
    """The lanes that the filter allows, each found by one step in the index."""
    some = claim_filter.intents
    for lane in _following(connection, NEXT_LANE) if some is None else _suiting(connection, some):
        if intent_of(lane) not in claim_filter.paused_intents:
            yield lane


def _suiting(connection: Connection, intents: Collection[str]) -> Iterator[str]:
    """The lanes of a worker's own intents, and those of plans that need one of them."""
    yield from set(intents)
    for lane in _following(connection, NEXT_LANE):
        if not is_planned(lane):
            return
        if suits(lane, intents):
            yield lane


def _following(connection: Connection, text: str, *fixed: str) -> Iterator[str]:
    """The names in order, until the statement finds no later one."""
    name = ""
    while found := connection.all(text, (*fixed, name)):
        [(name,)] = found
        yield name
