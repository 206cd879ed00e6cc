"""The store's time and its offset from the wall clock: reading it, and resetting it."""

from typing import Any, NamedTuple

from detent.operations.leader_election import OFFICES
from detent.store.port import Store, WriteTransaction


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
    store.notify()
    return ahead


def _terms(tx: WriteTransaction, ahead: int) -> dict[str, Any]:
    rows = tx.rows_for_update("system_state")
    held = {office: rows[office] for office in OFFICES if rows.get(office)}
    return {office: {**row, "until": row["until"] - ahead} for office, row in held.items()}
