"""Migrates a PostgreSQL database to the present schema; one of the starting processes does it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from detent import failpoints
from detent.errors import Misconfigured, Unavailable
from detent.store.migration_files import LAYOUT, Applied, Migration, migrations, needed, pending
from detent.store.postgres.locks import Lock

MIGRATIONS = migrations("detent.store.postgres.migrations")

TURN = "SELECT pg_advisory_xact_lock(%s::integer, 0)"
#: How long a stopped process can hold the lock on the schema.
IDLE_LIMIT = "SET LOCAL idle_in_transaction_session_timeout = '30s'"
#: How long a statement of a migration waits for a table. Other transactions that use the table wait
#: behind it, so it gives up early and the migration is tried again.
LOCK_LIMIT = "SET LOCAL lock_timeout = '300ms'"
PAUSE_S, MIGRATE_WITHIN_S = 0.5, 120.0
#: This reads the catalog. `to_regclass` reads a cache of the session, which does not have a table
#: that another process created while this one waited for the lock.
HAS_SCHEMA = """
SELECT EXISTS (
    SELECT FROM pg_class WHERE relname = 'schema_migrations' AND pg_table_is_visible(oid)
)
"""
APPLIED = "SELECT number, name, digest FROM schema_migrations"
HAS_EVENTS = "SELECT EXISTS (SELECT FROM events)"
NOTE = """
INSERT INTO schema_migrations (number, name, digest, at)
VALUES (%s, %s, %s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
"""


def applied(connection: psycopg.Connection) -> list[Applied]:
    """The migrations that were applied to the database."""
    if connection.execute(HAS_SCHEMA).fetchone() != (True,):
        return []
    return [Applied._make(row) for row in connection.execute(APPLIED)]


def bring_up(connection: psycopg.Connection, where: str) -> None:
    """Apply the migrations that a start needs. Takes no lock if none is missing.

    Refuses a database of an earlier layout with events: `detent db upgrade` converts it.
    """
    if _needed(connection, where):
        _retried(lambda: _bring_up(connection, where), where)


def _bring_up(connection: psycopg.Connection, where: str) -> None:
    with _migrating(connection, where):
        waiting = _needed(connection, where)
        first = [each for each in waiting if each.number <= LAYOUT - 2]
        if not has_old_log(connection):
            _apply(connection, first)  # one of these may write an event
        is_old = has_old_log(connection)
        if not is_old:
            _apply(connection, waiting[len(first) :])
    if is_old:
        raise Misconfigured(
            f"{where} has the storage layout of an earlier version of detent.",
            setting="store",
            hint="Stop all detent processes, make a backup, and run `detent db upgrade`.",
        )


def _needed(connection: psycopg.Connection, where: str) -> Sequence[Migration]:
    known = applied(connection)
    return needed(pending(MIGRATIONS, known, where), where, empty=not known)


def has_old_log(connection: psycopg.Connection) -> bool:
    """Whether the database has events in layout 1."""
    known = applied(connection)
    if not 0 < len(known) < LAYOUT:
        return False
    return connection.execute(HAS_EVENTS).fetchone() == (True,)


def apply(connection: psycopg.Connection, where: str, upto: int | None = None) -> None:
    """Apply all missing migrations up to a number in one transaction."""

    def work() -> None:
        with _migrating(connection, where):
            waiting = pending(MIGRATIONS, applied(connection), where)
            _apply(connection, [each for each in waiting if upto is None or each.number <= upto])

    _retried(work, where)


def _retried(work: Callable[[], None], where: str) -> None:
    """Call `work` again while other transactions hold the tables that it changes."""
    end_s = time.monotonic() + MIGRATE_WITHIN_S
    while True:
        try:
            return work()
        except psycopg.errors.LockNotAvailable as error:
            if time.monotonic() > end_s:
                raise Unavailable(
                    f"{where} could not be migrated within {MIGRATE_WITHIN_S:.0f} s, because other "
                    f"transactions use its tables: {error}".rstrip(),
                    retry_after_s=1,
                    hint="End long transactions, such as backups and reports, and try again.",
                ) from None
            time.sleep(PAUSE_S)


@contextmanager
def _migrating(connection: psycopg.Connection, where: str) -> Iterator[None]:
    """A transaction in which no other process reads or changes the schema to migrate it."""
    try:
        with connection.transaction():
            connection.execute(IDLE_LIMIT)
            connection.execute(TURN, [Lock.SCHEMA])
            connection.execute(LOCK_LIMIT)
            yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"{where} needs a newer schema, and this role may not change it: {error}".rstrip(),
            setting="store",
            hint="Run `detent db upgrade` as the owner of its tables, then execute what "
            "`detent db sql --role ROLE` prints.",
        ) from None


def _apply(connection: psycopg.Connection, wanted: Sequence[Migration]) -> None:
    for migration in wanted:
        connection.execute(migration.text.encode())
        connection.execute(NOTE, [migration.number, migration.name, migration.digest])
    if wanted:
        failpoints.hit("migration.commit")
