"""The PostgreSQL store: a pool of connections for transactions, and one for the notifier."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from detent import failpoints
from detent.errors import Broken, DetentError
from detent.store.blobs import Blobs, Outputs
from detent.store.clock import Bound, HostClock, Moment, StoreClock, TimeSource
from detent.store.port import ReplicaReads
from detent.store.postgres import checks, schema
from detent.store.postgres.address import read_address
from detent.store.postgres.blob_store import PostgresBlobs, PostgresOutputs
from detent.store.postgres.claims import Lanes
from detent.store.postgres.connection import Failed, Pool, Query
from detent.store.postgres.error_mapping import explained
from detent.store.postgres.notifier import Notifier
from detent.store.postgres.reader import READY, SEQUENCE, PostgresReader
from detent.store.postgres.silent_sessions import SilentSessions, silent_ms
from detent.store.postgres.transaction import Opening, Transaction
from detent.store.postgres.writer import PostgresWriter
from detent.store.read_caches import ReadCaches

READ_ONLY = Opening(
    (Query(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), READY["begin_reading"]())
)


def writing_opening(hold_s: float) -> Opening:
    """How a write begins; it keeps its locks at most `seconds` if its process is stopped."""
    begin = READY["begin_writing"](idle_ms=silent_ms(hold_s), hold_ms=round(hold_s * 1_000))
    return Opening(
        (Query(b"BEGIN ISOLATION LEVEL READ COMMITTED"), begin), hold_s, READY["hold_on"]
    )


class PostgresStore:
    """One database for any number of threads, processes and machines."""

    parallel_writes = True

    def __init__(self, url: str, clock: TimeSource | None = None) -> None:
        address = read_address(url)
        self.url = address.shown
        #: The clock of a test; None for the server's clock.
        self._source = clock
        self._clock = StoreClock(clock or HostClock())
        self._process = os.getpid()
        #: Whether this process has committed events since it last had positions assigned: what it
        #: reads next has positions for them.
        self._unsequenced = False
        self._caches = ReadCaches()
        self._writing = writing_opening(address.max_hold_s)
        self._pool = Pool(address, SilentSessions(address).end)
        self._lanes = Lanes(self._begin_writing, silent_ms(address.max_hold_s))
        self._prepare(unsafe=address.unsafe)
        self._notifier = Notifier(address, self._head)
        self.blobs: Blobs = PostgresBlobs(self._begin_read, self._begin_writing, self._moment)
        self.outputs: Outputs | None = PostgresOutputs(self._begin_read, self._begin_writing)
        self.replica: ReplicaReads | None = None

    def _prepare(self, *, unsafe: bool) -> None:
        """Check the server and migrate the database to the present schema."""
        try:
            connection = self._pool.take()
            try:
                checks.check_server(connection.plain, self.url, unsafe=unsafe)
                schema.bring_up(connection.plain, self.url)
            finally:
                self._pool.give_back(connection)
        except psycopg.Error as error:
            self._pool.close()
            raise explained(error, self.url) from error
        except DetentError:
            self._pool.close()
            raise

    # -- transactions ----------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[PostgresReader]:
        """A consistent view as of its first statement."""
        self._check_process()
        transaction = self._begin_read()
        if self._unsequenced:
            self._unsequenced = False
            transaction.precede(SEQUENCE)
        try:
            yield PostgresReader(transaction, self._moment, self._caches)
        finally:
            transaction.end()

    @contextmanager
    def write(self) -> Iterator[PostgresWriter]:
        self._check_process()
        transaction = self._begin_writing()
        try:
            clocks = (self._moment, self._lanes, self._bound)
            writing = PostgresWriter(transaction, *clocks, self.sequence, self._caches)
            if failpoints.armed:
                failpoints.hit("transaction.begun")
            yield writing
            if failpoints.armed:
                failpoints.hit("commit.before")
            if not writing.committed:
                transaction.commit(writing.last_queries(), writing.after_commit())
            if writing.notifies:
                self._notifier.others_notified = True
            if writing.appended:
                self._unsequenced = True
            if failpoints.armed:
                failpoints.hit("commit.after")
        finally:
            transaction.end()

    def sequence(self) -> None:
        """Assign positions to all commits that are visible and have none."""
        connection = self._pool.take()
        try:
            connection.run([SEQUENCE])
        except (psycopg.Error, Failed) as error:
            raise explained(error, self.url) from error
        finally:
            self._pool.give_back(connection)

    def _begin_read(self) -> Transaction:
        return Transaction(self._pool, READ_ONLY, self.url)

    def _begin_writing(self) -> Transaction:
        return Transaction(self._pool, self._writing, self.url)

    def _moment(
        self, server_now: int, clock: str | None, last_at: int | None, last_commit: int | None
    ) -> Moment:
        wall = server_now if self._source is None else None
        return self._clock.moment(self._clock.written(clock, last_at, last_commit), wall)

    def _bound(self) -> Bound:
        return self._clock.bound(own_wall=self._source is not None)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise Broken(
                "A PostgreSQL store cannot be used in a forked process. Open a new one there."
            )

    # -- the notifier, and closing ---------------------------------------------------------

    def wait(self, after: int, timeout_s: float) -> bool:
        self._check_process()
        return self._notifier.wait(after, timeout_s)

    def noticed(self) -> int:
        return self._notifier.notifications

    def wait_for_notice(self, noticed: int, timeout_s: float) -> bool:
        self._check_process()
        return self._notifier.wait_for_notice(noticed, timeout_s)

    def notify(self) -> None:
        self._notifier.notify()

    def _head(self) -> int:
        with self.read() as view:
            return view.head()

    def close(self) -> None:
        """Close the store. A connection in use is closed when its transaction ends."""
        if self.replica is not None:
            self.replica.close()
        self._notifier.close()
        self._pool.close()
