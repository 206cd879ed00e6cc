"""What goes wrong: deaths around a commit, a full disk, and others acting between transactions.

`FaultyStore` lies over a real store. Everything random comes from the one generator of the run.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from detent.errors import Unavailable
from detent.store.port import ReadTransaction, Store, WriteTransaction


class Died(BaseException):
    """The process is gone. Not an Exception: the engine would answer it to its caller."""


class Violation(BaseException):
    """A promise is broken. Not an Exception either: nothing on the way may swallow it."""


class Fate(StrEnum):
    """What becomes of a commit."""

    GOOD = "good"
    DIED_BEFORE = "died before the commit"
    DIED_AFTER = "died after the commit"
    NO_SPACE = "no space for the commit"


#: How often each bad fate meets a commit, in thousandths.
FATES = {Fate.DIED_BEFORE: 8, Fate.DIED_AFTER: 8, Fate.NO_SPACE: 4}
#: How often others act between two transactions of one call, and how many turns they have;
#: how often the process is stopped there for longer than a lease, and how many they have then.
BETWEEN, MAX_BETWEEN = 0.6, 3
STOPPED, MAX_STOPPED = 0.03, 12


def nothing() -> None:
    """Outside of a run no component acts and no time passes."""


class Times(Protocol):
    """Is called for every write transaction: see `time_records`."""

    def begun(self, now: int, before: Any) -> Any: ...

    def committed(self, now: int) -> None: ...


class Faults:
    """Decides what goes wrong; switched off, nothing does."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.on = True
        #: Transactions that anybody has begun.
        self.steps = 0
        #: What is checked about time; the run puts it here.
        self.times: Times | None = None
        #: One turn of some other process, and a while longer than a lease; the run puts them here.
        self.others: Callable[[], None] = nothing
        self.sleep: Callable[[], None] = nothing

    def fate(self) -> Fate:
        drawn = self.rng.randrange(1_000) if self.on else 1_000
        for fate, share in FATES.items():
            if drawn < share:
                return fate
            drawn -= share
        return Fate.GOOD

    def between(self, stopped: float = STOPPED) -> None:
        """A moment in which no transaction is open; how often the process is stopped in it."""
        drawn = self.rng.random() if self.on else 1.0
        if drawn < stopped:
            self.sleep()
        if drawn < BETWEEN:
            for _ in range(self.rng.randint(1, MAX_STOPPED if drawn < stopped else MAX_BETWEEN)):
                self.others()


class FaultyStore:
    """A store as one process has it.

    Others act between the transactions of one call: `begin` says that a call begins.
    """

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._first = True
        #: The time of the store's clock in the last write transaction.
        self.now = 0
        self._reading: Any = None
        self.url, self.parallel_writes = store.url, store.parallel_writes
        self.blobs, self.outputs, self.replica = store.blobs, store.outputs, store.replica

    def begin(self) -> None:
        self._first = True

    def _gap(self) -> None:
        if not self._first:
            self._faults.between()
        self._first = False
        self._faults.steps += 1

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        self._gap()
        with self._store.read() as view:
            yield view

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        self._gap()
        fate = self._faults.fate()
        with self._store.write() as tx:
            self.now = tx.now()
            times, head = self._faults.times, tx.head()
            if times is not None:
                self._reading = times.begun(self.now, self._reading)
            yield tx
            written = tx.head() > head
            if fate in (Fate.DIED_BEFORE, Fate.NO_SPACE):
                _fail(fate)
        if times is not None and written:
            times.committed(self.now)
        if fate is Fate.DIED_AFTER:
            _fail(fate)

    def wait(self, after: int, timeout_s: float) -> bool:  # noqa: ARG002
        """No one waits: the next step comes when the run says so."""
        return False

    def noticed(self) -> int:
        return 0

    def wait_for_notice(self, noticed: int, timeout_s: float) -> bool:
        return self.wait(noticed, timeout_s)

    def notify(self) -> None:
        """Wake no thread."""

    def close(self) -> None:
        self._store.close()


def _fail(fate: Fate) -> NoReturn:
    if fate is Fate.NO_SPACE:
        raise Unavailable("the disk is full", retry_after_s=1)
    raise Died(fate)
