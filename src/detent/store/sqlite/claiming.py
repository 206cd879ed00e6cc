"""Which work a claimer may take: by rank, from an index that holds nothing but claimable work.

Without lists that is one statement. With them the queue is seen as lanes, one for each intent in a
project that has claimable work, so that no claim walks past work that it must leave alone.
"""

from collections.abc import Iterator
from typing import Any

from detent.store.codec import to_json
from detent.store.port import Abilities, Candidate
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.reading import SQL

WAKE, CLAIMABLE, BUT_FULL = (
    SQL[name].text for name in ("wake_queue", "claimable", "claimable_but_full")
)
NEXT_LANE, NEXT_OF_INTENT = SQL["next_lane"].text, SQL["next_lane_of_intent"].text
IN_LANE = SQL["claimable_in_lane"].text

#: Greater than every rank.
ANY_RANK = (1 << 63) - 1

Lane = tuple[Any, ...]


def claimable(
    connection: Connection, abilities: Abilities, limit: int, now: int
) -> list[Candidate]:
    """Due work by rank, after waking what has come due since the last claim."""
    connection.all(WAKE, (now,))
    if _listed(abilities):
        rows = _by_lanes(connection, abilities, limit)
    elif abilities.full_keys:
        rows = connection.all(BUT_FULL, (to_json(list(abilities.full_keys)), limit))
    else:
        rows = connection.all(CLAIMABLE, (limit,))
    return [Candidate._make(row) for row in rows]


def _listed(abilities: Abilities) -> bool:
    allowed = (abilities.intents, abilities.projects)
    return allowed != (None, None) or bool(abilities.paused_intents or abilities.paused_projects)


def _by_lanes(connection: Connection, abilities: Abilities, limit: int) -> list[tuple[Any, ...]]:
    """The best of all lanes; of each one only what can still be among them is looked at."""
    full_keys = to_json(list(abilities.full_keys))
    best: list[tuple[Any, ...]] = []
    for intent, project in _lanes(connection, abilities):
        worst_rank = best[-1][0] if best and len(best) == limit else ANY_RANK
        found = connection.all(IN_LANE, (intent, project, worst_rank, full_keys, limit))
        best = sorted(best + found)[:limit] if found else best
    return [row[1:] for row in best]


def _lanes(connection: Connection, abilities: Abilities) -> Iterator[Lane]:
    """The lanes that the claimer may take from."""
    for intent, project in _all_lanes(connection, abilities):
        allowed = abilities.projects is None or project in abilities.projects
        if (
            allowed
            and intent not in abilities.paused_intents
            and project not in abilities.paused_projects
        ):
            yield intent, project


def _all_lanes(connection: Connection, abilities: Abilities) -> Iterator[Lane]:
    """Every lane, or those of the listed intents, each found by one step in the index."""
    if abilities.intents is None:
        lane: Lane = ("", "")
        while found := connection.all(NEXT_LANE, lane):
            yield (lane := found[0])
        return
    for intent in set(abilities.intents):
        lane = (intent, "")
        while found := connection.all(NEXT_OF_INTENT, lane):
            yield (lane := found[0])
