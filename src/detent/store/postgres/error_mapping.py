"""Maps errors of PostgreSQL to exceptions of detent."""

import psycopg

from detent.errors import Broken, DetentError, Invalid, Misconfigured, Refused, StoreUnavailable
from detent.store.postgres.connection import Failed

RETRY_AFTER_S = 1
#: The code of a server that accepts no writes: a standby, or one that is read-only.
READ_ONLY = "25006"

#: Temporary faults by code or class of codes. The transaction was rolled back.
TEMPORARY: tuple[tuple[str, str], ...] = (
    ("53100", "the disk of the database is full. Nothing was written. Free some space."),
    ("53200", "the database has no memory left. Nothing was written."),
    ("53300", "the database has no connection left. Raise max_connections, or use a pooler."),
    ("53", "the database lacks a resource. Nothing was written."),
    ("40", "two transactions conflicted and this one was rolled back. Nothing was written."),
    (READ_ONLY, "the database cannot be written: it is a standby or read-only."),
    (
        "25P04",
        "the transaction took longer than max_hold_s of the store's URL and was rolled back.",
    ),
    ("25P03", "this process was stopped for too long during a write, which was rolled back."),
    ("57014", "the database cancelled the statement. Nothing was written."),
    ("57", "the database is shutting down or starting."),
    ("58", "the database could not read or write its files. Check its disk and its log."),
    ("08", "the connection to the database was lost."),
)

#: The errors for a duplicate key, by the name of the constraint.
CHANGED = ("version_conflict", "another process changed it after it was loaded")
TASK_EXISTS = ("task_exists", "a task with this id already exists")
JOB_EXISTS = ("job_exists", "a job with this id already exists")
DUPLICATES = {
    "active_tasks_pkey": TASK_EXISTS,
    "ended_tasks_pkey": TASK_EXISTS,
    "active_jobs_pkey": JOB_EXISTS,
    "ended_jobs_pkey": JOB_EXISTS,
    "tombstones_pkey": CHANGED,
    "checkpoints_pkey": CHANGED,
}
#: The columns that a statement sets to NULL if it finds another row than it was given: `id` if it
#: finds none, `version` if the version differs, `project` if there is one already. Of an ended row
#: that was not found, the first column is named.
CONFLICTS = {
    "active_tasks.project": TASK_EXISTS,
    "ended_tasks.project": TASK_EXISTS,
    "active_jobs.project": JOB_EXISTS,
    "ended_jobs.project": JOB_EXISTS,
    "ended_jobs.rank": CHANGED,
    "checkpoints.job_id": CHANGED,
    **{
        f"{table}.{column}": CHANGED
        for table in ("active_tasks", "ended_tasks", "active_jobs", "ended_jobs")
        for column in ("id", "version")
    },
}

#: What libpq says of a certificate that it refuses; it does not say which of the reasons it was.
CERTIFICATE_REFUSED = ("certificate verify failed", "server certificate for")
CHECK_SERVER = "Check store.url and that the server runs and accepts connections, then try again."
CERTIFICATE = (
    "the certificate of the database server was refused: it has expired, is for another host, or "
    "its authority is not in sslrootcert. Renew it on the server, or correct the URL."
)

#: Another transaction holds a lock that is needed: a retry may get it.
LOCK_NOT_AVAILABLE = "55P03"
#: The codes for texts that PostgreSQL cannot store: those with the character U+0000.
NOT_TEXT = ("22P05", "22021")
#: The class of codes for values that do not fit the type of a column.
INVALID_VALUE = "22"
NO_RIGHTS = "42501"


def explained(error: psycopg.Error | Failed, where: str) -> DetentError:
    """The exception to raise instead of the server's error."""
    sqlstate = error.sqlstate or ""
    for code, message in TEMPORARY:
        if sqlstate.startswith(code):
            return _temporary(message, error, where)
    if isinstance(error, psycopg.OperationalError):
        refused = any(words in str(error) for words in CERTIFICATE_REFUSED)
        if refused:
            return _temporary(CERTIFICATE, error, where)
        return _temporary("the database cannot be reached.", error, where, CHECK_SERVER)
    return _permanent(error, sqlstate, where)


def _temporary(
    message: str, error: Exception, where: str, hint: str | None = None
) -> StoreUnavailable:
    text = f"{where}: {message} ({_one_line(error)})"
    return StoreUnavailable(text, retry_after_s=RETRY_AFTER_S, hint=hint)


def _permanent(error: psycopg.Error | Failed, sqlstate: str, where: str) -> DetentError:
    if sqlstate == LOCK_NOT_AVAILABLE:
        return Refused(
            "another process is changing an object that this depends on", code="version_conflict"
        )
    if isinstance(error, Failed) and error.constraint in DUPLICATES:
        code, message = DUPLICATES[error.constraint]
        return Refused(message, code=code)
    if isinstance(error, Failed) and error.column in CONFLICTS:
        code, message = CONFLICTS[error.column]
        return Refused(message, code=code)
    if sqlstate in NOT_TEXT:
        message = "a text contains the character U+0000, which PostgreSQL cannot store"
        return Invalid(message, field="text")
    if sqlstate.startswith(INVALID_VALUE):
        return Invalid(f"a value does not fit its column: {_one_line(error)}", field="value")
    if sqlstate == NO_RIGHTS:
        return Misconfigured(
            f"{where}: the database role of detent lacks a privilege: {_one_line(error)}.",
            setting="store",
            hint="As the owner of the tables, execute what `detent db sql --role ROLE` prints.",
        )
    return Broken(f"{where}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
