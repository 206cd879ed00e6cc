"""Reads from a standby of the primary while it is not too far behind.

A process that reads from the standby writes a row to the primary every second, with the time and
the timeline of the primary's log. The row on the standby shows how far behind it is, and that it
follows the present primary: a standby that was ahead of a new primary does not get the row.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import NamedTuple

import psycopg

from detent.errors import DetentError, Unavailable
from detent.periodic_thread import PeriodicThread
from detent.store.clock import HostClock, Moment, StoreClock
from detent.store.port import ReplicaStatus
from detent.store.postgres.address import read_address
from detent.store.postgres.connection import Pool
from detent.store.postgres.error_mapping import explained
from detent.store.postgres.reader import PostgresReader
from detent.store.postgres.store import READ_ONLY, PostgresStore
from detent.store.postgres.transaction import Transaction
from detent.store.read_caches import ReadCaches
from detent.store.table_names import REPLICA_ROW

log = logging.getLogger("detent.store")

CHECK_EVERY_S = 1.0
#: For how long a check is valid: while the primary does not respond, there is no new one.
VALID_S = 3.0
#: For how long a reader of the feed waits until the standby has the last event.
CATCH_UP_S = 0.25
LOOK_S = 0.005
PROMOTED = "it is no standby any more"


class Beat(NamedTuple):
    """The row: when it was written, and on which timeline."""

    at: int = 0
    timeline: str = ""


class Replica:
    """The standby of a primary. Thread-safe; its thread starts with the first read."""

    def __init__(self, url: str, primary: PostgresStore, max_lag_us: int) -> None:
        address = read_address(url)
        self.url = address.shown
        self._primary = primary
        self._max_lag_us = max_lag_us
        self._pool = Pool(address, lambda: None)
        #: Not those of the primary: the standby has a clock of its own, and may have events that
        #: are lost with the primary.
        self._clock = StoreClock(HostClock())
        self._caches = ReadCaches()
        #: The timeline of the last beat that the standby has, and that of the primary.
        self._followed, self._timeline = "", ""
        self.status = ReplicaStatus(False, None, "it was not checked yet")
        self._checked_s = 0.0
        self._starting = Lock()
        self._thread: PeriodicThread | None = None

    def begin(self, position: int) -> AbstractContextManager[PostgresReader] | None:
        """A read transaction that has the log up to a position; None: read from the primary."""
        self._start()
        end_s = time.monotonic() + CATCH_UP_S
        while self._is_usable():
            transaction, reader = self._transaction()
            if self._position(reader) >= position:
                return _until_end(transaction, reader)
            transaction.end()
            if time.monotonic() > end_s:
                break
            time.sleep(LOOK_S)
        return None

    def _transaction(self) -> tuple[Transaction, PostgresReader]:
        transaction = Transaction(self._pool, READ_ONLY, self.url)
        return transaction, PostgresReader(transaction, self._moment, self._caches, sequenced=True)

    def _position(self, reader: PostgresReader) -> int:
        """The last position on the standby; -1 if it cannot be used any more."""
        try:
            position = reader.standby_position()
        except DetentError as error:
            self._set(ReplicaStatus(False, None, error.message))
            return -1
        if position is None:
            self._set(ReplicaStatus(False, None, PROMOTED))
            self._pool.drop_free()
            return -1
        return position

    def acknowledged(self) -> int:
        """The position of the last event of the primary, up to which the standby may be read.

        What the standby has beyond it may be lost with the primary.
        """
        with self._primary.read() as view:
            position = view.head()
            self._timeline = max(self._timeline, view.timeline())
            return position

    def close(self) -> None:
        with self._starting:
            if self._thread is not None:
                self._thread.stop()
        self._pool.close()

    # -- the checks ------------------------------------------------------------------------

    def check(self) -> float:
        """Measure how far behind the standby is; returns the seconds until the next check."""
        try:
            lag_us = self._measured_us()
        except DetentError as error:
            self._set(ReplicaStatus(False, None, error.message))
        except psycopg.Error as error:
            self._set(ReplicaStatus(False, None, explained(error, self.url).message))
        else:
            self._judge(lag_us)
        self._checked_s = time.monotonic()
        return CHECK_EVERY_S

    def _judge(self, lag_us: int | None) -> None:
        if lag_us is None:
            self._set(ReplicaStatus(False, None, "it does not follow the present primary"))
        elif lag_us > self._max_lag_us:
            behind = f"it is {lag_us / 1_000_000:.1f} s behind"
            self._set(ReplicaStatus(False, lag_us, behind))
        else:
            self._set(ReplicaStatus(True, lag_us, ""))

    def _measured_us(self) -> int | None:
        """The age of the row on the standby; None if it is of another timeline."""
        now = self._write_beat()
        transaction, reader = self._transaction()
        try:
            if reader.standby_position() is None:
                raise Unavailable(PROMOTED, retry_after_s=1)
            row = reader.rows_under("system_state", REPLICA_ROW).get(REPLICA_ROW)
        finally:
            transaction.end()
        beat = Beat(**row) if row else Beat()
        self._followed = beat.timeline
        return now - beat.at if beat.timeline == self._timeline else None

    def _write_beat(self) -> int:
        """Write the row, unless another process has just done so; returns the primary's time."""
        with self._primary.write() as tx:
            row = tx.rows_under("system_state", REPLICA_ROW).get(REPLICA_ROW)
            beat, now = Beat(**row) if row else Beat(), tx.now()
            self._timeline = max(self._timeline, tx.timeline())
            due = now - beat.at >= CHECK_EVERY_S * 500_000
            if due or beat.timeline != self._timeline:
                tx.put_rows("system_state", {REPLICA_ROW: Beat(now, self._timeline)._asdict()})
            return now

    def _is_usable(self) -> bool:
        """Whether the last check is recent, and the primary has not changed since."""
        fresh = time.monotonic() - self._checked_s < VALID_S
        return fresh and self.status.used and self._followed == self._timeline

    def _set(self, status: ReplicaStatus) -> None:
        if status.used != self.status.used:
            if status.used:
                log.info("Lists and the feed are read from the replica %s.", self.url)
            else:
                log.warning("The replica %s is not used: %s.", self.url, status.reason)
        self.status = status

    def _moment(
        self, server_now: int, clock: str | None, last_at: int | None, last_commit: int | None
    ) -> Moment:
        return self._clock.moment(self._clock.written(clock, last_at, last_commit), server_now)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = PeriodicThread("detent-replica", self.check)
                self._thread.start()


@contextmanager
def _until_end(transaction: Transaction, reader: PostgresReader) -> Iterator[PostgresReader]:
    try:
        yield reader
    finally:
        transaction.end()
