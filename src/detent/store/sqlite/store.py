"""The SQLite store: one connection for writing, several for reading, one for the notifier."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import apsw

from detent import failpoints
from detent.errors import Broken, Unavailable
from detent.store.blobs import Blobs, Outputs
from detent.store.clock import HostClock, Moment, StoreClock, TimeSource
from detent.store.port import ReplicaReads
from detent.store.read_caches import ReadCaches
from detent.store.sqlite import checks, schema
from detent.store.sqlite.blob_store import DirectoryBlobs
from detent.store.sqlite.commit_log import SQL
from detent.store.sqlite.connection import Connection, Files, Turn
from detent.store.sqlite.error_mapping import explained
from detent.store.sqlite.notifier import Notifier
from detent.store.sqlite.reader import SqliteReader
from detent.store.sqlite.writer import SqliteWriter

WRITTEN = SQL["written"].text
#: The maximum number of idle connections for reading.
IDLE_READERS = 8


class SqliteStore:
    """One database file for any number of threads and processes; one at a time writes."""

    #: Output is in the files of the runs, on the same disk as the database.
    outputs: Outputs | None = None
    replica: ReplicaReads | None = None
    parallel_writes = False

    def __init__(
        self, path: Path | str, clock: TimeSource | None = None, *, local: bool = False
    ) -> None:
        self.path = Path(path).absolute()
        self.url = f"sqlite://{self.path}"
        self._source = clock or HostClock()
        self._clock = StoreClock(self._source)
        self._process = os.getpid()
        self._turn = Turn()
        self._caches = ReadCaches()
        self._idle: list[Connection] = []
        self._idle_guard = Lock()
        checks.check_version(apsw.sqlite_lib_version())
        checks.prepare_file(self.path)
        if not local:
            checks.check_file_system(self.path)
        self._lock = checks.write_lock(self.path)
        self._writer: Connection | None = self._first_connection()
        self._files = Files(self.path, self.url)
        write_ahead = self.path.with_name(self.path.name + "-wal")
        self._notifier = Notifier(Connection(self.path, reads_only=True), write_ahead)
        self.blobs: Blobs = DirectoryBlobs(self.path.parent / "blobs", self._now)

    def _first_connection(self) -> Connection:
        """Open the first connection under the write lock: it enables WAL mode and migrates."""
        connection = None
        try:
            with self._lock:
                connection = Connection(self.path)
                schema.bring_up(connection, self.path, self._source())
                return connection
        except BaseException as error:
            self._drop(connection)
            self._lock.close()
            if isinstance(error, (apsw.NotADBError, apsw.CorruptError, apsw.CantOpenError)):
                raise checks.unreadable(self.path, error) from None
            if isinstance(error, apsw.Error):
                raise explained(error, self.url) from error
            raise

    # -- transactions ----------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[SqliteReader]:
        """A consistent view as of its first statement."""
        self._check_process()
        connection = None
        try:
            connection = self._take_reader()
            connection.all("BEGIN")
            yield SqliteReader(connection, self._moment(connection), self._caches)
        except apsw.Error as error:
            self._drop(connection)
            connection = None
            raise explained(error, self.url) from error
        finally:
            if connection is not None:
                self._give_back(connection)

    @contextmanager
    def write(self) -> Iterator[SqliteWriter]:
        self._check_process()
        with self._turn, self._lock:
            try:
                connection = self._open_writer()
                connection.all("BEGIN IMMEDIATE")
                writing = SqliteWriter(connection, self._moment(connection), self._caches, self.url)
                if failpoints.armed:
                    failpoints.hit("transaction.begun")
                yield writing
                if writing.failed is not None:
                    raise writing.failed
                if failpoints.armed:
                    failpoints.hit("commit.before")
                connection.all("COMMIT")
                self._files.check()
                if failpoints.armed:
                    failpoints.hit("commit.after")
            except apsw.Error as error:
                self._drop_writer()
                raise explained(error, self.url) from error
            except Unavailable:
                self._drop_writer()
                raise
            except BaseException:
                self._undo()
                raise

    def _moment(self, connection: Connection) -> Moment:
        return self._clock.moment(self._clock.written(*connection.all(WRITTEN)[0]))

    def _now(self) -> int:
        with self.read() as view:
            return view.now()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise Broken("A SQLite store cannot be used in a forked process. Open a new one there.")

    # -- connections -----------------------------------------------------------------------

    def _open_writer(self) -> Connection:
        """The connection for writing; it is opened again after a fault."""
        if self._writer is None:
            self._files.check()
            self._writer = Connection(self.path)
        return self._writer

    def _undo(self) -> None:
        try:
            if self._writer is not None:
                self._writer.roll_back()
        except apsw.Error:
            self._drop_writer()

    def _drop_writer(self) -> None:
        dropped, self._writer = self._writer, None
        self._drop(dropped)

    def _drop(self, connection: Connection | None) -> None:
        if connection is not None:
            connection.close()

    def _take_reader(self) -> Connection:
        with self._idle_guard:
            if self._idle:
                return self._idle.pop()
        self._files.check()
        return Connection(self.path, reads_only=True)

    def _give_back(self, connection: Connection) -> None:
        connection.roll_back()
        with self._idle_guard:
            if len(self._idle) < IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    # -- the notifier, and closing ---------------------------------------------------------

    def wait(self, after: int, timeout_s: float) -> bool:
        self._check_process()
        try:
            return self._notifier.wait(after, timeout_s)
        except apsw.Error as error:
            raise explained(error, self.url) from error

    def noticed(self) -> int:
        return self._notifier.head

    def wait_for_notice(self, noticed: int, timeout_s: float) -> bool:
        return self.wait(noticed, timeout_s)

    def notify(self) -> None:
        self._notifier.notify()

    def close(self) -> None:
        """Close the store after the present write and all waits have ended."""
        with self._turn:
            self._drop_writer()
        self._notifier.close()
        with self._idle_guard:
            while self._idle:
                self._idle.pop().close()
        self._lock.close()
