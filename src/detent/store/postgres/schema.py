"""Migrates a PostgreSQL database to the present schema, once for all processes that start
together.
"""

import psycopg

from detent import failpoints
from detent.errors import Misconfigured
from detent.store.migration_files import Applied, migrations, pending
from detent.store.postgres.locks import Lock

MIGRATIONS = migrations("detent.store.postgres.migrations")

TURN = "SELECT pg_advisory_xact_lock(%s::integer, 0)"
#: How long a stopped process can hold the lock on the schema.
IDLE_LIMIT = "SET LOCAL idle_in_transaction_session_timeout = '30s'"
HAS_SCHEMA = "SELECT to_regclass('schema_migrations') IS NOT NULL"
APPLIED = "SELECT number, name, digest FROM schema_migrations"
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
    """Apply the missing migrations in one transaction. Takes no lock if none is missing."""
    if not pending(MIGRATIONS, applied(connection), where):
        return
    try:
        with connection.transaction():
            connection.execute(IDLE_LIMIT)
            connection.execute(TURN, [Lock.SCHEMA])
            for migration in pending(MIGRATIONS, applied(connection), where):
                connection.execute(migration.text.encode())
                connection.execute(NOTE, [migration.number, migration.name, migration.digest])
                failpoints.hit("migration.commit")
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"{where} needs a newer schema, and this role may not change it: {error}".rstrip(),
            setting="store",
            hint="Open it once as the owner of its tables, then run sql/roles.sql.",
        ) from None
