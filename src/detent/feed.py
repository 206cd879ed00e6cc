"""The feed: the log from any cursor, in commit order, nothing missed and nothing twice.

Reads the store and waits for its doorbell, which only shortens the wait.
"""

from collections.abc import Iterator, Sequence

from detent.store.port import Logged, Store

BATCH = 1_000


def read(store: Store, after: int, limit: int = BATCH) -> Sequence[Logged]:
    """Up to `limit` events after a position."""
    with store.read() as view:
        return view.events(after, limit)


def follow(store: Store, after: int, poll_s: float = 1.0) -> Iterator[Sequence[Logged]]:
    """Batches of events for ever; an empty one whenever a wait has passed without news."""
    while True:
        batch = read(store, after)
        if batch:
            after = batch[-1].position
        else:
            store.wait(after, poll_s)
        yield batch


def head(store: Store) -> int:
    """The cursor from which only new events are seen."""
    with store.read() as view:
        return view.head()
