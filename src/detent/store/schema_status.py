"""The schema status of a database: applied and pending migrations. Changes nothing."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from detent.errors import Refused
from detent.store.migration_files import LAYOUT, Applied, Migration, needed, pending
from detent.store.store_url import is_postgres, require_psycopg, sqlite_path


class SchemaStatus(NamedTuple):
    """The migrations of a database. `path` is that of a SQLite file, None for a server."""

    url: str
    where: str
    path: Path | None
    exists: bool
    applied: Sequence[Applied]
    waiting: Sequence[Migration]

    @property
    def needed(self) -> Sequence[Migration]:
        """The migrations without which this program cannot use the database."""
        return needed(self.waiting, self.where, empty=not self.applied)

    @property
    def has_old_layout(self) -> bool:
        """Whether the database may have a log of layout 1."""
        return 0 < len(self.applied) < LAYOUT

    @property
    def newer(self) -> int:
        """The number of the newest migration if this program does not have it, otherwise 0."""
        last = max((each.number for each in self.applied), default=0)
        ours = program_schema(self.url)
        return last if last > ours else 0

    def require_own(self, command: str) -> None:
        """Refuse a command that would lose what a newer program stores in its own columns."""
        if self.newer:
            raise Refused(
                f"{self.where} has schema {self.newer}, newer than schema "
                f"{program_schema(self.url)} of this version of detent. `detent {command}` would "
                "lose what newer versions have stored.",
                hint="Use the newest version of detent that uses this database.",
            )


def schema_status(url: str) -> SchemaStatus:
    """Read the status; refuse a database that this program cannot use."""
    return _postgres(url) if is_postgres(url) else _sqlite(url, sqlite_path(url))


def program_schema(url: str) -> int:
    """The number of the newest migration that this program has for such a database."""
    if is_postgres(url):
        from detent.store.postgres.schema import MIGRATIONS

        return len(MIGRATIONS)
    from detent.store.sqlite.schema import MIGRATIONS as OF_SQLITE

    return len(OF_SQLITE)


def _sqlite(url: str, path: Path) -> SchemaStatus:
    import apsw

    from detent.store.sqlite import checks, schema
    from detent.store.sqlite.connection import Connection

    if not path.exists() or path.stat().st_size == 0:
        return SchemaStatus(url, str(path), path, False, (), schema.MIGRATIONS)
    try:
        with closing(Connection(path, reads_only=True)) as connection:
            applied = schema.applied(connection)
    except apsw.Error as error:
        raise checks.unreadable(path, error) from None
    waiting = pending(schema.MIGRATIONS, applied, str(path))
    return SchemaStatus(url, str(path), path, True, applied, waiting)


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
    return SchemaStatus(url, address.shown, None, bool(applied), applied, waiting)
