"""The end of a rolling upgrade: reads which programs run, and applies all missing migrations.

It opens the database itself, because a store may be unable to before these migrations.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detent.store.codec import from_json
from detent.store.store_url import is_postgres, require_psycopg, sqlite_path

if TYPE_CHECKING:
    import psycopg

    from detent.store.sqlite.connection import Connection

ROWS = "SELECT name, value FROM system_state WHERE name LIKE 'process:%'"
SERVER_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


def read_processes(url: str) -> tuple[Mapping[str, Any], int]:
    """The rows of registered processes, and the time of the store's clock."""
    if is_postgres(url):
        with _postgres(url) as (server, _):
            ((now,),) = server.execute(SERVER_NOW).fetchall()
            rows = server.execute(ROWS).fetchall()
    else:
        with _sqlite(sqlite_path(url)) as file:
            now, rows = time.time_ns() // 1_000, file.all(ROWS)
    return {name: from_json(value) for name, value in rows}, now


def apply_all(url: str, now: int) -> None:
    """Apply all missing migrations. The caller has checked that no older program runs."""
    if is_postgres(url):
        from detent.store.postgres.schema import apply as apply_to_server

        with _postgres(url) as (server, shown):
            apply_to_server(server, shown)
    else:
        from detent.store.sqlite.schema import apply

        path = sqlite_path(url)
        with _sqlite(path) as file:
            apply(file, path, now)


@contextmanager
def _sqlite(path: Path) -> Iterator["Connection"]:
    from detent.store.sqlite import checks
    from detent.store.sqlite.connection import Connection

    lock = checks.write_lock(path)
    connection = Connection(path)
    try:
        with lock:
            yield connection
    finally:
        connection.close()
        lock.close()


@contextmanager
def _postgres(url: str) -> Iterator[tuple["psycopg.Connection", str]]:
    require_psycopg()
    import psycopg

    from detent.store.postgres.address import read_address
    from detent.store.postgres.error_mapping import explained

    address = read_address(url)
    try:
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            yield connection, address.shown
    except psycopg.Error as error:
        raise explained(error, address.shown) from error
