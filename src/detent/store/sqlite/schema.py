"""Migrates a SQLite database to the present schema. The caller holds the write lock."""

from collections.abc import Sequence
from pathlib import Path

from detent import failpoints
from detent.errors import Misconfigured
from detent.store.migration_files import LAYOUT, Applied, Migration, migrations, needed, pending
from detent.store.sqlite.checks import APPLICATION_ID, check_owner
from detent.store.sqlite.connection import Connection

MIGRATIONS = migrations("detent.store.sqlite.migrations")

TABLES = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
HAS_SCHEMA = "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'"
APPLIED = "SELECT number, name, digest FROM schema_migrations"
HAS_OLD_LOG = "SELECT 1 FROM sqlite_schema WHERE name = 'events' AND type = 'table'"
HAS_EVENTS = "SELECT 1 FROM events LIMIT 1"
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
    """Enable WAL mode and apply the missing migrations. The file of another program is unchanged.

    A log of layout 1 is refused: it must be converted first.
    """
    [(application_id,)], [(tables,)] = (
        connection.all("PRAGMA application_id"),
        connection.all(TABLES),
    )
    check_owner(path, application_id, tables)
    connection.enable_wal()
    known = applied(connection)
    waiting = needed(pending(MIGRATIONS, known, str(path)), str(path), empty=not known)
    first = [each for each in waiting if each.number <= LAYOUT - 2]
    if not has_old_log(connection):
        _apply(connection, first, now)
    if has_old_log(connection):
        raise Misconfigured(
            f"{path} has the storage layout of an earlier version of detent.",
            setting="store",
            hint="Stop every process of detent, make a backup with `detent db backup FILE`, and "
            "run `detent db upgrade`.",
        )
    _apply(connection, waiting[len(first) :], now)


def apply(connection: Connection, path: Path, now: int, upto: int | None = None) -> None:
    """Apply all missing migrations up to a number, each in its own transaction."""
    waiting = pending(MIGRATIONS, applied(connection), str(path))
    _apply(connection, [each for each in waiting if upto is None or each.number <= upto], now)


def _apply(connection: Connection, waiting: Sequence[Migration], now: int) -> None:
    for migration in waiting:
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
