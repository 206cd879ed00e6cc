"""Migrates a PostgreSQL database to the present schema, once for all processes that start
together.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from detent import failpoints
from detent.errors import Misconfigured
from detent.store.migration_files import Applied, migrations, pending
from detent.store.postgres.locks import Lock

MIGRATIONS = migrations("detent.store.postgres.migrations")
#: The migration that removes the tables of layout 1. The log is converted before.
LAYOUT = 10

TURN = "SELECT pg_advisory_xact_lock(%s::integer, 0)"
#: How long a stopped process can hold the lock on the schema.
IDLE_LIMIT = "SET LOCAL idle_in_transaction_session_timeout = '30s'"
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
    """Apply the missing migrations. Takes no lock if none is missing.

    Refuses a database of an earlier layout with events: `detent db upgrade` converts it.
    """
    if not pending(MIGRATIONS, applied(connection), where):
        return
    with _migrating(connection, where):
        if not has_old_log(connection):
            _apply(connection, where, upto=LAYOUT - 2)  # one of these may write an event
        is_old = has_old_log(connection)
        if not is_old:
            _apply(connection, where)
    if is_old:
        raise Misconfigured(
            f"{where} has the storage layout of an earlier version of detent.",
            setting="store",
            hint="Stop all detent processes, make a backup, and run `detent db upgrade`.",
        )


def has_old_log(connection: psycopg.Connection) -> bool:
    """Whether the database has events in layout 1."""
    known = applied(connection)
    if not 0 < len(known) < LAYOUT:
        return False
    return connection.execute(HAS_EVENTS).fetchone() == (True,)


def apply(connection: psycopg.Connection, where: str, upto: int = len(MIGRATIONS)) -> None:
    """Apply the missing migrations up to a number in one transaction."""
    with _migrating(connection, where):
        _apply(connection, where, upto)


@contextmanager
def _migrating(connection: psycopg.Connection, where: str) -> Iterator[None]:
    """A transaction in which no other process reads or changes the schema to migrate it."""
    try:
        with connection.transaction():
            connection.execute(IDLE_LIMIT)
            connection.execute(TURN, [Lock.SCHEMA])
            yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"{where} needs a newer schema, and this role may not change it: {error}".rstrip(),
            setting="store",
            hint="Open it once as the owner of its tables, then run sql/roles.sql.",
        ) from None


def _apply(connection: psycopg.Connection, where: str, upto: int = len(MIGRATIONS)) -> None:
    waiting = pending(MIGRATIONS, applied(connection), where)
    wanted = [each for each in waiting if each.number <= upto]
    for migration in wanted:
        connection.execute(migration.text.encode())
        connection.execute(NOTE, [migration.number, migration.name, migration.digest])
    if wanted:
        failpoints.hit("migration.commit")
