"""Reads the store's time and its offset from the wall clock, and resets it."""

from typing import Any, NamedTuple

from detent.operations.leader_election import LEADER_ROLES
from detent.store.port import Store, WriteTransaction


class StoreTime(NamedTuple):
    """The store's time, and how far it is ahead of the wall clock, both in microseconds."""

    now: int
    ahead: int


def read(store: Store) -> StoreTime:
    with store.read() as view:
        return StoreTime(view.now(), view.ahead())


def reset(store: Store) -> int:
    """Set the store's time back to the wall clock; returns by how many microseconds.

    The ends of leases and elections are moved back by the same amount. The log does not change, so
    the due times of retries, sleeps and deadlines do not change either.
    """
    with store.write() as tx:
        ahead = tx.reset_clock()
        if ahead:
            tx.put_rows("system_state", _terms(tx, ahead))
    store.notify()
    return ahead


def _terms(tx: WriteTransaction, ahead: int) -> dict[str, Any]:
    rows = tx.rows_for_update("system_state")
    held = {role: rows[role] for role in LEADER_ROLES if rows.get(role)}
    return {role: {**row, "until": row["until"] - ahead} for role, row in held.items()}
