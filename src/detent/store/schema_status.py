"""The schema status of a database: applied and pending migrations. Changes nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from detent.store.migration_files import Applied, Migration, pending
from detent.store.store_url import is_postgres, require_psycopg, sqlite_path


class SchemaStatus(NamedTuple):
    """The migrations of a database. `path` is that of a SQLite file, None for a server."""

    where: str
    path: Path | None
    exists: bool
    applied: Sequence[Applied]
    waiting: Sequence[Migration]


def schema_status(url: str) -> SchemaStatus:
    """Read the status; refuse a database that is newer than this program, or differs."""
    return _postgres(url) if is_postgres(url) else _sqlite(sqlite_path(url))


def _sqlite(path: Path) -> SchemaStatus:
    import apsw

    from detent.store.sqlite import checks, schema
    from detent.store.sqlite.connection import Connection

    if not path.exists() or path.stat().st_size == 0:
        return SchemaStatus(str(path), path, False, (), schema.MIGRATIONS)
    try:
        connection = Connection(path, reads_only=True)
        applied = schema.applied(connection)
        connection.close()
    except apsw.Error as error:
        raise checks.unreadable(path, error) from None
    waiting = pending(schema.MIGRATIONS, applied, str(path))
    return SchemaStatus(str(path), path, True, applied, waiting)


def _postgres(url: str) -> SchemaStatus:
    require_psycopg()
    import psycopg

    from detent.store.postgres import schema
    from detent.store.postgres.address import read_address
    from detent.store.postgres.error_mapping import explained

    address = read_address(url)
    try:
        with psycopg.connect(address.conninfo) as connection:
            applied = schema.applied(connection)
    except psycopg.Error as error:
        raise explained(error, address.shown) from error
    waiting = pending(schema.MIGRATIONS, applied, address.shown)
    return SchemaStatus(address.shown, None, bool(applied), applied, waiting)
