"""The memory store: tables as last published, one lock for whoever writes, and a doorbell.

A write transaction puts its copy of the tables in the place of the old ones when it ends well.
Tables that were published are never changed again: a reader's view stays, and blocks nobody.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from detent.clock import HostClock
from detent.store.clock import Moment, StoreClock, TimeSource, Written
from detent.store.memory.blob_store import Kept, MemoryBlobs
from detent.store.memory.reader import Snapshot
from detent.store.memory.tables import Tables
from detent.store.memory.writer import Transaction
from detent.store.port import ReadTransaction, WriteTransaction


class Database:
    """What several stores share: the tables as last published, the right to write, the doorbell."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.blobs: Kept = {}
        self.lock = threading.Lock()
        self.bell = threading.Condition()
        #: How often it was rung.
        self.rings = 0


class MemoryStore:
    """A store that lives as long as its process. Give several the same database to share it."""

    url = "memory:"
    outputs = None

    def __init__(self, clock: TimeSource | None = None, database: Database | None = None) -> None:
        source = clock or HostClock()
        self._clock = StoreClock(source)
        self._database = database or Database()
        self.blobs = MemoryBlobs(self._database.blobs, source)

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        tables = self._database.tables
        yield Snapshot(tables, self._moment(tables))

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        with self._database.lock:
            tables = self._database.tables.copy()
            moment = self._moment(tables)
            tables.now = moment.now
            yield Transaction(tables, moment)
            self._database.tables = tables

    def _moment(self, tables: Tables) -> Moment:
        return self._clock.moment(Written(tables.now, 0, tables.resets))

    def wait(self, after: int, timeout_s: float) -> bool:
        database = self._database
        with database.bell:
            rings = database.rings
            database.bell.wait_for(
                lambda: database.tables.head > after or database.rings != rings, timeout_s
            )
            return database.tables.head > after

    def ring(self) -> None:
        with self._database.bell:
            self._database.rings += 1
            self._database.bell.notify_all()

    def close(self) -> None:
        """Nothing to let go of."""
