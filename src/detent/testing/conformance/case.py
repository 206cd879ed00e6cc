"""The environment of a check: its own database, a clock that it sets, and engines on both.

`run` ends every check by comparing the rows and the history of streams with the log.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from detent.engine import Engine
from detent.integrity.audit import FAR
from detent.store.clock import TimeSource
from detent.store.port import ReadTransaction, Store, WriteTransaction
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock

#: How many streams are read one by one after a check.
MAX_STREAMS = 50

OpenStore = Callable[[TimeSource], Store]


class Case:
    """An empty database, one store on it, and its engine."""

    def __init__(self, open_store: OpenStore, *, notifier: bool = True) -> None:
        self.clock = VirtualClock()
        self._open_store = open_store
        self._notifier = notifier
        self._others: list[Engine] = []
        self.engine = self._open()
        self.store = self.engine.store

    def _open(self) -> Engine:
        store = self._open_store(self.clock)
        return Engine(store if self._notifier else SilentStore(store))

    def others(self, count: int) -> list[Engine]:
        """Engines on further stores of the same database: what other processes would have."""
        while len(self._others) < count:
            self._others.append(self._open())
        return self._others[:count]

    def another(self) -> Engine:
        return self.others(1)[0]

    def close(self) -> None:
        for engine in (self.engine, *self._others):
            engine.store.close()


class SilentStore:
    """A store without a notifier: no thread is woken, every wait returns False."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.url, self.parallel_writes = store.url, store.parallel_writes
        self.blobs = store.blobs
        self.outputs, self.replica = store.outputs, store.replica

    def read(self) -> AbstractContextManager[ReadTransaction]:
        return self._store.read()

    def write(self) -> AbstractContextManager[WriteTransaction]:
        return self._store.write()

    def wait(self, after: int, timeout_s: float) -> bool:  # noqa: ARG002
        time.sleep(min(timeout_s, 0.001))
        return False

    def noticed(self) -> int:
        return 0

    def wait_for_notice(self, noticed: int, timeout_s: float) -> bool:
        return self.wait(noticed, timeout_s)

    def notify(self) -> None:
        """Wake no thread."""

    def close(self) -> None:
        self._store.close()


def check_streams(store: Store) -> None:
    """Raise AssertionError if the history of a stream is not what the log has of it."""
    with store.read() as view:
        log = view.events(0, FAR)
        for stream in sorted({event.stream for event in log})[:MAX_STREAMS]:
            of_stream = [event for event in log if event.stream == stream]
            assert list(view.events(0, FAR, stream=stream)) == of_stream, stream
            assert view.version_of(stream) == of_stream[-1].version, stream


Check = Callable[[Case], None]
#: Every check by its name, in the order of the modules.
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Make a function one of the checks."""
    CHECKS[function.__name__] = function
    return function


def run(function: Check, open_store: OpenStore, *, notifier: bool = True) -> None:
    """Run one check on an empty database; what it raises, often an AssertionError, is a failure."""
    case = Case(open_store, notifier=notifier)
    try:
        function(case)
        audit(case.store)
        check_streams(case.store)
    finally:
        case.close()
