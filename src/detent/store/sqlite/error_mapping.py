"""Maps errors of SQLite to exceptions of detent."""

import apsw

from detent.errors import Broken, DetentError, Refused, StoreUnavailable

#: Temporary faults, with a message for each. The transaction is rolled back and the connection is
#: opened again.
TEMPORARY: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "the disk is full. Nothing was written. Free some space."),
    (apsw.BusyError, "another program holds the database's write lock."),
    (apsw.LockedError, "another connection holds a lock on the database."),
    (apsw.ReadOnlyError, "the database cannot be written: its file or file system is read-only."),
    (apsw.CantOpenError, "the database file cannot be opened."),
    (apsw.IOError, "reading or writing the database file failed. Check the disk."),
    (apsw.ProtocolError, "the database's locks are contended."),
    (apsw.NoMemError, "the process has no memory left for the database."),
    (apsw.InterruptError, "the database was interrupted."),
)
RETRY_AFTER_S = 1

#: The errors for a duplicate key, by the column that SQLite names.
DUPLICATES = {
    "commits.id": ("version_conflict", "another process changed it after it was loaded"),
    "tasks.id": ("task_exists", "a task with this id already exists"),
    "jobs.id": ("job_exists", "a job with this id already exists"),
}


def explained(error: apsw.Error, where: str) -> DetentError:
    """The exception to raise instead of SQLite's."""
    for kind, message in TEMPORARY:
        if isinstance(error, kind):
            return StoreUnavailable(f"{where}: {message} ({error})", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, apsw.ConstraintError):
        for column, (code, message) in DUPLICATES.items():
            if column in str(error):
                return Refused(message, code=code)
    return Broken(f"{where}: {error}")
