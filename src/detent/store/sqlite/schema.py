"""Migrates a SQLite database to the present schema. The caller holds the write lock."""

from pathlib import Path

from detent import failpoints
from detent.store.migration_files import Applied, migrations, pending
from detent.store.sqlite.checks import APPLICATION_ID, check_owner
from detent.store.sqlite.connection import Connection

MIGRATIONS = migrations("detent.store.sqlite.migrations")

TABLES = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
HAS_SCHEMA = "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'"
APPLIED = "SELECT number, name, digest FROM schema_migrations"
NOTE = "INSERT INTO schema_migrations (number, name, digest, at) VALUES (?, ?, ?, ?)"


def applied(connection: Connection) -> list[Applied]:
    """The migrations that were applied to the file."""
    if not connection.all(HAS_SCHEMA):
        return []
    return [Applied._make(row) for row in connection.all(APPLIED)]


def bring_up(connection: Connection, path: Path, now: int) -> None:
    """Apply the missing migrations, each in its own transaction."""
    [(application_id,)], [(tables,)] = (
        connection.all("PRAGMA application_id"),
        connection.all(TABLES),
    )
    check_owner(path, application_id, tables)
    for migration in pending(MIGRATIONS, applied(connection), str(path)):
        connection.all("BEGIN IMMEDIATE")
        try:
            connection.script(migration.text)
            number, name, _, digest = migration
            connection.all(NOTE, (number, name, digest, now))
            connection.all(f"PRAGMA application_id = {APPLICATION_ID}")
            failpoints.hit("migration.commit")
            connection.all("COMMIT")
        finally:
            connection.roll_back()
