"""Finds claimable jobs by rank, from indexes that contain only claimable jobs.

They are read lane by lane and project by project, so that no claim walks past work that it must
leave alone.
"""

from collections.abc import Collection, Iterator
from typing import Any

from detent.kernel.lane import intent_of, is_planned, suits
from detent.store.sqlite.commit_log import SQL
from detent.store.sqlite.connection import Connection
from detent.store.types import Candidate, ClaimFilter

WAKE, IN_LANE, OF_KEY = (
    SQL[name].text for name in ("wake_queue", "claimable_in_lane", "claimable_of_key")
)
NEXT_LANE, NEXT_PROJECT, NEXT_KEY = (
    SQL[name].text for name in ("next_lane", "next_project", "next_key")
)

#: How many jobs of full concurrency keys are skipped before each key is read separately.
LOOKED_PAST = 200
#: Greater than every rank.
ANY_RANK = (1 << 63) - 1


def claimable(
    connection: Connection, claim_filter: ClaimFilter, limit: int, now: int
) -> list[Candidate]:
    """Due jobs by rank; first moves jobs that have become due into the queue."""
    connection.all(WAKE, (now,))
    best = _Best(connection, frozenset(claim_filter.full_keys), limit)
    for lane in _lanes(connection, claim_filter):
        _add_lane(connection, best, lane)
    return [Candidate._make(row[1:]) for row in best.rows]


class _Best:
    """The rows of lowest rank so far, `limit` of them at most, none under a full key."""

    def __init__(self, connection: Connection, full_keys: frozenset[str], limit: int) -> None:
        self.rows: list[tuple[Any, ...]] = []
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


def _add_lane(connection: Connection, best: _Best, lane: tuple[str, str]) -> None:
    best.add(IN_LANE, *lane, 0, best.worst_rank)
    if not best.add(IN_LANE, *lane, 1, best.worst_rank):
        for key in _following(connection, NEXT_KEY, *lane):
            if key not in best.full_keys:
                best.add(OF_KEY, *lane, key, best.worst_rank)


def _lanes(connection: Connection, claim_filter: ClaimFilter) -> Iterator[tuple[str, str]]:
    """The lanes and projects that the filter allows, each found by one step in the index."""
    some = claim_filter.intents
    for lane in _following(connection, NEXT_LANE) if some is None else _suiting(connection, some):
        if intent_of(lane) in claim_filter.paused_intents:
            continue
        for project in _following(connection, NEXT_PROJECT, lane):
            allowed = claim_filter.projects is None or project in claim_filter.projects
            if allowed and project not in claim_filter.paused_projects:
                yield lane, project


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
