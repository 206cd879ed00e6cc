"""What an error of SQLite means to whoever asked: whose fault it is and what to do now."""

import apsw

from detent.errors import Broken, DetentError, Refused, Unavailable

#: Faults that pass, with a message for each. The transaction is undone, the connection made anew.
PASSING: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "the disk is full: nothing was written. Free space on it."),
    (apsw.BusyError, "another program holds the database's write lock."),
    (apsw.LockedError, "another connection holds a lock on the database."),
    (apsw.ReadOnlyError, "the database cannot be written: its file or file system is read-only."),
    (apsw.CantOpenError, "the database file cannot be opened."),
    (apsw.IOError, "reading or writing the database file failed. Look at the disk."),
    (apsw.ProtocolError, "the database's locks are contended."),
    (apsw.NoMemError, "there is no memory left for the database."),
    (apsw.InterruptError, "the database was interrupted."),
)
RETRY_AFTER_S = 1

#: A unique key that was there already, by the column that SQLite names.
TAKEN = {
    "events.stream": ("version_conflict", "somebody else has changed it since it was loaded"),
    "tasks.id": ("task_exists", "there is a task with that id already"),
    "jobs.id": ("job_exists", "there is a job with that id already"),
}


def explained(error: apsw.Error, where: str) -> DetentError:
    """The error to raise instead of SQLite's own."""
    for kind, message in PASSING:
        if isinstance(error, kind):
            return Unavailable(f"{where}: {message} ({error})", retry_after_s=RETRY_AFTER_S)
    if isinstance(error, apsw.ConstraintError):
        for column, (code, message) in TAKEN.items():
            if column in str(error):
                return Refused(message, code=code)
    return Broken(f"{where}: {error}")
