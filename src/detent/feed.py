"""The feed: reads the log from any cursor, in the order of positions, each event exactly once.

Every reader of the log follows one rule: its cursor moves only after delivery. `Tail` implements
it for readers of this process, and `Follower` is a thread with a `Tail`; the readers of the
gateway's connections follow the same rule in `gateway.feed_hub`. Between two reads a reader waits
for the store's notifier, which only shortens the wait.
"""

import logging
import threading
from collections.abc import Callable, Sequence

from detent.failure_log import FailureLog
from detent.store.log_walk import next_events
from detent.store.port import Store
from detent.store.stale_reads import read_stale
from detent.store.types import LoggedEvent

log = logging.getLogger("detent.feed")

BATCH = 1_000
POLL_S = 1.0

#: Delivers a batch of events. If it raises, the batch is delivered again.
Deliver = Callable[[Sequence[LoggedEvent]], object]
#: Given a cursor, returns the position up to which no event needs to be delivered.
PassOver = Callable[[int], int]


def read(store: Store, after: int, limit: int = BATCH) -> Sequence[LoggedEvent]:
    """Up to `limit` events after a position.

    From a replica only events that the primary had before: what is beyond may be lost with it.
    """
    if store.replica is None:
        with store.read() as view:
            return next_events(view, after, limit)
    end = store.replica.acknowledged()
    if end <= after:
        return []
    with read_stale(store, end) as view:
        return next_events(view, after, limit, end)


def head(store: Store) -> int:
    """The position of the last event: from there on, a reader gets only new events."""
    with store.read() as view:
        return view.head()


class Tail:
    """A cursor in the log that moves only after delivery.

    A failure while a batch is read or delivered leaves the cursor before that batch, so that the
    next step reads and delivers it again.
    """

    def __init__(
        self, store: Store, deliver: Deliver, after: int, pass_over: PassOver | None = None
    ) -> None:
        self.store = store
        self.deliver = deliver
        self.cursor = after
        self.pass_over = pass_over

    def step(self) -> int:
        """Read one batch and deliver it; the number of its events, 0 at the end of the log.

        Events that need not be delivered are not read; then the number is less than that of a full
        batch.
        """
        before = self.cursor
        if self.pass_over is not None:
            self.cursor = self.pass_over(before)
        if self.cursor > before:
            return 1
        batch = read(self.store, self.cursor)
        if batch:
            self.deliver(batch)
            self.cursor = batch[-1].position
        return len(batch)


class Follower:
    """A thread that delivers the log from a cursor on, batch by batch, until it is stopped.

    After a failure it waits and delivers the same batch again. `pause_s` is the time between two
    batches; a full batch, after which more events are waiting, is followed by the next one
    immediately.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        deliver: Deliver,
        *,
        poll_s: float = POLL_S,
        pause_s: Callable[[], float] = lambda: 0.0,
        pass_over: PassOver | None = None,
    ) -> None:
        self.stopping = threading.Event()
        self._tail = Tail(store, deliver, 0, pass_over)
        self._poll_s, self._pause_s = poll_s, pause_s
        self._failures = FailureLog(
            log, f"{name} will deliver again", f"{name} delivers again", poll_s
        )
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self, after: int) -> None:
        self._tail.cursor = after
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch; does not wait for it."""
        self.stopping.set()
        self._tail.store.notify()

    def join(self) -> None:
        self._thread.join()

    def _loop(self) -> None:
        while not self.stopping.is_set():
            try:
                self._next()
                self._failures.worked()
            except Exception as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Log the error, and wait before the same batch is delivered again."""
        if not self.stopping.is_set():
            self._failures.failed(error)
            self.stopping.wait(self._failures.pause_s)

    def _next(self) -> None:
        count = self._tail.step()
        if count == 0:
            self._tail.store.wait(self._tail.cursor, self._poll_s)
        elif count < BATCH:
            self.stopping.wait(self._pause_s())
