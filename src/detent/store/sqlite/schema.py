"""Migrates a SQLite database to the present schema. The caller holds the write lock."""

from pathlib import Path

from detent import failpoints
from detent.errors import Misconfigured
from detent.store.migration_files import Applied, migrations, pending
from detent.store.sqlite.checks import APPLICATION_ID, check_owner
from detent.store.sqlite.connection import Connection

MIGRATIONS = migrations("detent.store.sqlite.migrations")

TABLES = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
HAS_SCHEMA = "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'"
APPLIED = "SELECT number, name, digest FROM schema_migrations"
HAS_OLD_LOG = "SELECT 1 FROM sqlite_schema WHERE name = 'events' AND type = 'table'"
HAS_EVENTS = "SELECT 1 FROM events LIMIT 1"
#: The migration that removes the tables of layout 1.
LAYOUT = 10
NOTE = "INSERT INTO schema_migrations (number, name, digest, at) VALUES (?, ?, ?, ?)"


def applied(connection: Connection) -> list[Applied]:
    """The migrations that were applied to the file."""
    if not connection.all(HAS_SCHEMA):
        return []
    return [Applied._make(row) for row in connection.all(APPLIED)]


def has_old_log(connection: Connection) -> bool:
    """Whether the log has events in layout 1, which only `detent db upgrade` converts."""
    return bool(connection.all(HAS_OLD_LOG)) and bool(connection.all(HAS_EVENTS))


def bring_up(connection: Connection, path: Path, now: int) -> None:
    """Apply the missing migrations. A log of layout 1 is refused: it must be converted first."""
    [(application_id,)], [(tables,)] = (
        connection.all("PRAGMA application_id"),
        connection.all(TABLES),
    )
    check_owner(path, application_id, tables)
    pending(MIGRATIONS, applied(connection), str(path))
    if not has_old_log(connection):
        apply(connection, path, now, upto=LAYOUT - 2)
    if has_old_log(connection):
        raise Misconfigured(
            f"{path} has the storage layout of an earlier version of detent.",
            setting="store",
            hint="Stop every process of detent, make a backup with `detent db backup FILE`, and "
            "run `detent db upgrade`.",
        )
    apply(connection, path, now)


def apply(connection: Connection, path: Path, now: int, upto: int | None = None) -> None:
    """Apply the missing migrations up to a number, each in its own transaction."""
    for migration in pending(MIGRATIONS, applied(connection), str(path)):
        if upto is not None and migration.number > upto:
            return
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
