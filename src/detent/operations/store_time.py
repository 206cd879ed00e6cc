"""The store's time and its offset from the wall clock: reading it, and resetting it."""

from typing import Any, NamedTuple

from detent.operations.leader_election import LEADER_ROLES
from detent.store.port import Store, Writing


class StoreTime(NamedTuple):
    """The store's time, and how far it is ahead of its wall clock, both in microseconds."""

    now: int
    ahead: int


def read(store: Store) -> StoreTime:
    with store.read() as view:
        return StoreTime(view.now(), view.ahead())


def reset(store: Store) -> int:
    """Set the store's time back to its wall clock; by how many microseconds.

    Leases and elections end as much earlier, so that they last as long as they would have. The log
    stays as it is, and with it the times at which retries, sleeps and deadlines are due.
    """
    with store.write() as tx:
        ahead = tx.reset_clock()
        if ahead:
            tx.put_rows("system_state", _terms(tx, ahead))
    store.ring()
    return ahead


def _terms(tx: Writing, ahead: int) -> dict[str, Any]:
    rows = tx.changing("system_state")
    held = {role: rows[role] for role in LEADER_ROLES if rows.get(role)}
    return {role: {**row, "until": row["until"] - ahead} for role, row in held.items()}
