"""What an error of PostgreSQL means to whoever asked: whose fault it is and what to do now."""

import psycopg

from detent.errors import Broken, DetentError, Invalid, Misconfigured, Refused, Unavailable
from detent.store.postgres.connection import Failed

RETRY_AFTER_S = 1
#: The code of a server that takes no writes: a standby, or one that was told so.
READ_ONLY = "25006"

#: Faults that pass, by the code or the class of codes that the server gives: the transaction was
#: undone.
PASSING: tuple[tuple[str, str], ...] = (
    ("53100", "the disk of the database is full: nothing was written. Free space on it."),
    ("53200", "the database has no memory left: nothing was written."),
    ("53300", "the database has no connection left. Raise max_connections, or use a pooler."),
    ("53", "the database lacks a resource: nothing was written."),
    ("40", "two writers were in each other's way and this one gave in: nothing was written."),
    (READ_ONLY, "the database cannot be written: it is a standby, or set to read only."),
    ("25P04", "the transaction took longer than max_hold_s of the store's URL: it was undone."),
    ("25P03", "this process stood still for too long in the middle of a write: it was undone."),
    ("57014", "the database stopped the statement: nothing was written."),
    ("57", "the database is shutting down or starting."),
    ("58", "the database could not read or write its files. Look at its disk and its log."),
    ("08", "the connection to the database was lost."),
)

#: A unique key that was there already, by the name of its constraint.
TAKEN = {
    "events_in_stream": ("version_conflict", "somebody else has changed it since it was loaded"),
    "tasks_pkey": ("task_exists", "there is a task with that id already"),
    "jobs_pkey": ("job_exists", "there is a job with that id already"),
}

#: Somebody else holds what turned out to be needed: decided anew, it may be free.
IN_THE_WAY = "55P03"
#: Codes of texts that PostgreSQL cannot hold: the character with the number zero.
NOT_TEXT = ("22P05", "22021")
#: Codes of values that do not fit a column that they are compared with or written to.
UNFIT = "22"
NO_RIGHTS = "42501"


def explained(error: psycopg.Error | Failed, where: str) -> DetentError:
    """The error to raise instead of the server's own."""
    sqlstate = error.sqlstate or ""
    for code, message in PASSING:
        if sqlstate.startswith(code):
            return _passing(message, error, where)
    if isinstance(error, psycopg.OperationalError):
        return _passing("the database cannot be reached.", error, where)
    return _lasting(error, sqlstate, where)


def _passing(message: str, error: Exception, where: str) -> Unavailable:
    return Unavailable(f"{where}: {message} ({_one_line(error)})", retry_after_s=RETRY_AFTER_S)


def _lasting(error: psycopg.Error | Failed, sqlstate: str, where: str) -> DetentError:
    if sqlstate == IN_THE_WAY:
        return Refused("somebody else is changing what this depends on", code="version_conflict")
    if isinstance(error, Failed) and error.constraint in TAKEN:
        code, message = TAKEN[error.constraint]
        return Refused(message, code=code)
    if sqlstate in NOT_TEXT:
        message = "a text holds the character with the number zero, which PostgreSQL cannot keep"
        return Invalid(message, field="text")
    if sqlstate.startswith(UNFIT):
        return Invalid(f"a value does not fit where it goes: {_one_line(error)}", field="value")
    if sqlstate == NO_RIGHTS:
        return Misconfigured(
            f"{where}: the role that detent runs as lacks a right: {_one_line(error)}.",
            setting="store",
            hint="Run sql/roles.sql of detent's PostgreSQL store as the owner of the tables.",
        )
    return Broken(f"{where}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
