"""Connections to one SQLite file, its identity, and the locks of processes and of threads.

The only module that opens the database file for work; `backup` opens it for a copy.
"""

import array as arrays
import fcntl
import os
import re
import struct
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import apsw

from detent.errors import Unavailable

#: How long a statement waits for a lock that no process of detent holds: a shell, a backup.
BUSY_MS = 5_000
#: What a connection keeps of the file in memory. A process has one that writes and several that
#: read; the system keeps the file in memory too.
CACHE_KIB, READER_CACHE_KIB = 16 * 1_024, 4 * 1_024
PAGE_BYTES = 4_096
#: Pages in the write-ahead log before a commit moves them, and what stays of its file after.
CHECKPOINT_PAGES = 4_000
WAL_BYTES_KEPT = 64 * 1_024 * 1_024
#: More than a batch of a hundred jobs executes: each execution pushes an old statement out.
STATEMENTS_CACHED = 512
#: Rows that one INSERT takes together; more are hardly faster.
ROWS_PER_INSERT = 25

#: When a caller may try again after the file was replaced.
RETRY_AFTER_S = 5

INSERT = re.compile(r"(INSERT .* VALUES )\(([^()]*)\)([^:]*)")

PRAGMAS = (
    f"page_size = {PAGE_BYTES}",
    # A commit is on the disk before it is acknowledged.
    "synchronous = FULL",
    f"cache_size = -{CACHE_KIB}",
    "temp_store = MEMORY",
    f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
    f"journal_size_limit = {WAL_BYTES_KEPT}",
    "trusted_schema = OFF",
)


def _lock_request(kind: int) -> bytes:
    """`struct flock` of fcntl(2) for the whole file: type, whence, start, length, process."""
    return struct.pack("hhqqi", kind, os.SEEK_SET, 0, 0, 0)


BECOME_NEXT, NO_LONGER_NEXT = _lock_request(fcntl.F_WRLCK), _lock_request(fcntl.F_UNLCK)

Row = tuple[Any, ...]
Rows = list[Row]
Identity = tuple[int, int]


def array(texts: Collection[str]) -> Any:
    """A list of texts as a parameter for `carray`."""
    return apsw.carray(tuple(texts), flags=apsw.SQLITE_CARRAY_TEXT)


def numbers(values: Collection[int]) -> Any:
    """A list of integers as a parameter for `carray`."""
    return apsw.carray(arrays.array("q", values))


@lru_cache
def insert_of_several(text: str) -> str | None:
    """An INSERT of one row turned into one of `ROWS_PER_INSERT`; None for other statements."""
    match = INSERT.fullmatch(text)
    if match is None:
        return None
    marks = ", ".join("?" * match[2].count(":"))
    return f"{match[1]}{', '.join([f'({marks})'] * ROWS_PER_INSERT)}{match[3]}"


class Connection:
    """A connection whose statements are read to their end, except for queries by `each`.

    SQLite executes a statement that returns rows only while they are read, so a partly read result
    would be a partly executed write.
    """

    def __init__(self, path: Path, *, reads_only: bool = False) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
        self._db = apsw.Connection(str(path), flags, statementcachesize=STATEMENTS_CACHED)
        self._db.set_busy_timeout(BUSY_MS)
        self._execute: Callable[..., apsw.Cursor] = self._db.execute
        self._executemany: Callable[..., apsw.Cursor] = self._db.executemany
        only_reads = ("query_only = ON", f"cache_size = -{READER_CACHE_KIB}")
        try:
            for pragma in (*PRAGMAS, *only_reads) if reads_only else PRAGMAS:
                self.all(f"PRAGMA {pragma}")
        except apsw.Error:
            self.close()
            raise

    def enable_wal(self) -> None:
        """Switch the file to WAL mode. It stays in this mode."""
        if self.all("PRAGMA journal_mode = WAL") != [("wal",)]:
            raise apsw.CantOpenError("it cannot be switched to WAL mode")

    def all(self, text: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Rows:
        """Execute a statement and return all its rows."""
        rows: Rows = self._execute(text, values).fetchall()
        return rows

    def each(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a query, which are read one by one: the caller may stop."""
        cursor = self._execute(text, values)
        try:
            yield from cursor
        finally:
            cursor.close()

    def many(self, text: str, rows: Sequence[Sequence[Any]]) -> Rows:
        """Execute a statement once for each row of values; returns the rows of all executions."""
        several = insert_of_several(text) if len(rows) >= ROWS_PER_INSERT else None
        if several is not None:
            whole = len(rows) - len(rows) % ROWS_PER_INSERT
            for at in range(0, whole, ROWS_PER_INSERT):
                values = chain.from_iterable(rows[at : at + ROWS_PER_INSERT])
                self._execute(several, list(values)).fetchall()
            rows = rows[whole:]
        found: Rows = self._executemany(text, rows).fetchall()
        return found

    def script(self, text: str) -> None:
        """Execute several statements in order."""
        self._execute(text).fetchall()

    @property
    def changed(self) -> int:
        """The number of rows that this connection has written so far."""
        return self._db.total_changes()

    def roll_back(self) -> None:
        if self._db.in_transaction:
            self._execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self._db.close(force=True)


class Files:
    """The database file and its write-ahead log, identified by device and inode.

    A process can still write to a file that was deleted or replaced, and these writes are lost. So
    a commit is confirmed only if the path still leads to the opened file.
    """

    def __init__(self, path: Path, where: str) -> None:
        self._path, self._log = str(path), f"{path}-wal"
        self._where = where
        self._opened = _identity(self._path)
        self._opened_log: Identity | None = None

    def check(self) -> None:
        """Raise Unavailable if a file was deleted or replaced. Costs two calls of `stat`."""
        if _identity(self._path) != self._opened:
            raise self._replaced(self._path)
        log = _identity(self._log)
        if self._opened_log is None:  # it is created by the first transaction
            self._opened_log = log
        elif log != self._opened_log:
            raise self._replaced(self._log)

    def _replaced(self, path: str) -> Unavailable:
        return Unavailable(
            f"{self._where}: the file {path} was deleted or replaced while detent had it open. "
            "The write was not confirmed. Stop detent, put the file back or restore a backup "
            "(detent db restore FILE), and start it again.",
            retry_after_s=RETRY_AFTER_S,
        )


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - after every commit: a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino


class WriteLock:
    """The lock file that every writing process takes before its transaction.

    SQLite's own lock is polled: under load a second process rarely gets it. A process that waits
    for a file lock is woken when the lock is free.

    Before it, a process takes the place of the next writer, a second lock on the same file, and
    leaves that place when it has the first. So a process that writes again and again cannot take
    the lock twice in a row while another one waits.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLKW, BECOME_NEXT)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException:  # a signal handler raised, perhaps after one of the calls
            fcntl.flock(self._file, fcntl.LOCK_UN)
            raise
        finally:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, NO_LONGER_NEXT)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


class Turn:
    """A lock that threads get in the order in which they requested it.

    With an ordinary lock a thread that writes again and again leaves no gap for a heartbeat.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        try:
            mine.acquire()
        except BaseException:  # a signal handler raised: other threads must not wait for this one
            self._give_up(mine)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._guard:
            self._pass_on()

    def _give_up(self, mine: threading.Lock) -> None:
        with self._guard:
            if mine in self._waiting:
                self._waiting.remove(mine)
            else:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._taken = False
