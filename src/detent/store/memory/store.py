"""The memory store: published tables, one lock for the writer, and a notifier.

A write transaction works on a copy of the tables and publishes it when it commits. Published tables
never change again, so a read transaction keeps its view and blocks no writer.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from detent.store.blobs import Blobs, Outputs
from detent.store.clock import HostClock, Moment, StoreClock, TimeSource, Written
from detent.store.installed_lifecycles import LifecycleCache
from detent.store.memory.blob_store import Kept, MemoryBlobs
from detent.store.memory.reader import MemoryReader
from detent.store.memory.tables import Tables
from detent.store.memory.writer import MemoryWriter
from detent.store.port import ReadTransaction, ReplicaReads, WriteTransaction


class Database:
    """What several stores share: the published tables, the write lock and the notifier."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.blobs: Kept = {}
        self.lock = threading.Lock()
        self.changed = threading.Condition()
        #: How often a store has notified.
        self.notifications = 0


class MemoryStore:
    """A store in the memory of this process. Several stores can share one database."""

    url = "memory:"
    outputs: Outputs | None = None
    replica: ReplicaReads | None = None
    parallel_writes = False

    def __init__(self, clock: TimeSource | None = None, database: Database | None = None) -> None:
        self._clock = StoreClock(clock or HostClock())
        self._database = database or Database()
        self._lifecycles = LifecycleCache()
        self.blobs: Blobs = MemoryBlobs(self._database.blobs, self._now)

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        tables = self._database.tables
        yield MemoryReader(tables, self._moment(tables), self._lifecycles)

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        with self._database.lock:
            tables = self._database.tables.copy()
            moment = self._moment(tables)
            tables.now = moment.now
            yield MemoryWriter(tables, moment, self._lifecycles)
            self._database.tables = tables

    def _now(self) -> int:
        return self._moment(self._database.tables).now

    def _moment(self, tables: Tables) -> Moment:
        return self._clock.moment(Written(tables.now, 0, tables.resets))

    def wait(self, after: int, timeout_s: float) -> bool:
        database = self._database
        with database.changed:
            notifications = database.notifications
            database.changed.wait_for(
                lambda: database.tables.head > after or database.notifications != notifications,
                timeout_s,
            )
            return database.tables.head > after

    def noticed(self) -> int:
        return self._database.notifications

    def wait_for_notice(self, noticed: int, timeout_s: float) -> bool:
        database = self._database
        with database.changed:
            return database.changed.wait_for(lambda: database.notifications != noticed, timeout_s)

    def notify(self) -> None:
        with self._database.changed:
            self._database.notifications += 1
            self._database.changed.notify_all()

    def close(self) -> None:
        """Do nothing: there are no files or connections."""
