"""Migrates a PostgreSQL database to the present schema, once for all processes that start
together.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from detent import failpoints
from detent.errors import Misconfigured
from detent.store.layout_upgrade import Progress
from detent.store.migration_files import Applied, Migration, migrations, pending
from detent.store.postgres.locks import Lock
from detent.store.postgres.log_conversion import IDLE_LIMIT, TURN, convert_log

MIGRATIONS = migrations("detent.store.postgres.migrations")
#: The migration before which the log is converted.
LAYOUT_2 = 10

HAS_SCHEMA = "SELECT to_regclass('schema_migrations') IS NOT NULL"
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
    """Apply the missing migrations in one transaction. Takes no lock if none is missing.

    Refuses a database of an earlier layout with events: `upgrade` converts it.
    """
    if not pending(MIGRATIONS, applied(connection), where):
        return
    with _explained(where), connection.transaction():
        connection.execute(IDLE_LIMIT)
        connection.execute(TURN, [Lock.SCHEMA])
        known = applied(connection)
        if 0 < len(known) < LAYOUT_2 and connection.execute(HAS_EVENTS).fetchone() == (True,):
            raise Misconfigured(
                f"{where} has the storage layout of an earlier version of detent.",
                setting="store",
                hint="Stop all detent processes, make a backup, and run `detent db upgrade`.",
            )
        _apply(connection, pending(MIGRATIONS, known, where))


def upgrade(
    connection: psycopg.Connection, where: str, progress: Progress = lambda _done, _head: None
) -> None:
    """Apply all migrations, and convert the log; continues an upgrade that was interrupted."""
    with _explained(where):
        with connection.transaction():
            connection.execute(IDLE_LIMIT)
            connection.execute(TURN, [Lock.SCHEMA])
            waiting = pending(MIGRATIONS, applied(connection), where)
            _apply(connection, [each for each in waiting if each.number < LAYOUT_2])
        if any(each.number == LAYOUT_2 for each in waiting):
            convert_log(connection, progress)
        with connection.transaction():
            connection.execute(TURN, [Lock.SCHEMA])
            _apply(connection, pending(MIGRATIONS, applied(connection), where))


def _apply(connection: psycopg.Connection, waiting: Sequence[Migration]) -> None:
    for migration in waiting:
        connection.execute(migration.text.encode())
        connection.execute(NOTE, [migration.number, migration.name, migration.digest])
        failpoints.hit("migration.commit")


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Explain a missing privilege."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"{where} needs a newer schema, and this role may not change it: {error}".rstrip(),
            setting="store",
            hint="Open it once as the owner of its tables, then run sql/roles.sql.",
        ) from None
