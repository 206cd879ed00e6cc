"""Chooses where lists, counts, metrics and feed readers read: on a replica, or on the primary.

Only reads that may be a little behind come here. Everything else uses `Store.read`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from detent.store.port import ReadTransaction, Store


@contextmanager
def read_stale(store: Store, position: int = 0) -> Iterator[ReadTransaction]:
    """A read transaction that may be behind, but has the log up to a position.

    It is on the replica if one is set, reaches the position, and is not too far behind; otherwise
    on the primary.
    """
    on_replica = None if store.replica is None else store.replica.begin(position)
    with store.read() if on_replica is None else on_replica as view:
        yield view
