"""Converts a PostgreSQL database of layout 1, in which the log had one row for each event.

Each step is a transaction of its own; a conversion that was interrupted continues where it ended.
The tables of layout 1 are removed by the last step.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from detent.store.codec import from_json, to_json
from detent.store.layout_upgrade import Progress
from detent.store.logged_commit import LoggedCommit, as_commits
from detent.store.migration_files import LAYOUT
from detent.store.postgres import schema
from detent.store.postgres.address import Address
from detent.store.postgres.error_mapping import explained
from detent.store.postgres.log_conversion import EVENTS, HEAD, convert_log
from detent.store.rows import END_OF_LOG
from detent.store.types import ChainBlock, LoggedEvent

CHAIN_BLOCKS = """
    SELECT from_position, to_position, count, chain, at FROM seals
    WHERE to_position > %s ORDER BY to_position LIMIT %s
"""
NAMED = sql.SQL("SELECT name, value FROM {table}")
NOTE = """
    INSERT INTO system_state (name, value, updated_at) VALUES (%s, %s, %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
COUNT = sql.SQL("SELECT {column}, count(*) FROM {table} GROUP BY {column}")
#: Tables and a column with few values: their rows are counted before and after.
COUNTED = {
    "tasks": "state",
    "jobs": "state",
    "runs": "state",
    "queue": "intent",
    "steps": "state",
    "waits": "kind",
    "signals": "taken",
    "checkpoints": "kind",
    "evidence": "kind",
    "outbox": "target",
    "idempotency_keys": "project",
}


class PostgresUpgrade:
    """The conversion of one database. The caller has stopped all processes that use it."""

    def __init__(self, address: Address, now: int) -> None:
        self._where = address.shown
        self._now = now
        try:
            self._connection = psycopg.connect(address.conninfo, autocommit=True)
        except psycopg.Error as error:
            raise explained(error, self._where) from error

    def close(self) -> None:
        self._connection.close()

    @property
    def needed(self) -> bool:
        """Whether the log is in layout 1."""
        return schema.has_old_log(self._connection)

    def prepare(self) -> None:
        """Create the tables of layout 2 beside the old ones."""
        schema.apply(self._connection, self._where, upto=LAYOUT - 1)

    def old_log(self) -> "OldLog":
        return OldLog(self._connection, self._now)

    def counts(self) -> dict[str, Mapping[Any, int]]:
        """The number of rows of each table, by a column with few values."""
        return {table: dict(self._rows(COUNT, table, column)) for table, column in COUNTED.items()}

    def _rows(self, query: sql.SQL, table: str, column: str) -> list[tuple[Any, Any]]:
        named = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
        rows: list[tuple[Any, Any]] = self._connection.execute(query.format(**named)).fetchall()
        return rows

    def convert(self, progress: Progress) -> None:
        """Convert the rest of the log, one part in each transaction."""
        try:
            convert_log(self._connection, progress)
        except psycopg.Error as error:
            raise explained(error, self._where) from error

    def note(self, name: str, value: Any) -> None:
        """Write a row of `system_state`."""
        self._connection.execute(NOTE, [name, to_json(value), self._now])

    def finish(self) -> None:
        """Copy the rows and remove the tables of layout 1, in one transaction."""
        schema.apply(self._connection, self._where)


class OldLog:
    """Reads the log of layout 1, as the check of the hash chain needs it."""

    def __init__(self, connection: psycopg.Connection, now: int) -> None:
        self._connection = connection
        self._now = now

    def now(self) -> int:
        return self._now

    def head(self) -> int:
        (position,) = self._connection.execute(HEAD).fetchone() or (0,)
        return int(position)

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> list[LoggedEvent]:
        assert stream is None, "the check reads the whole log"
        rows = self._connection.execute(
            EVENTS, [after, END_OF_LOG if upto is None else upto, limit]
        )
        return [LoggedEvent._make(row) for row in rows]

    def commits(self, after: int, limit: int, upto: int | None = None) -> list[LoggedCommit]:
        return as_commits(self.events(after, limit, upto=upto))

    def rows(self, table: str) -> Mapping[str, Any]:
        named = self._connection.execute(NAMED.format(table=sql.Identifier(table)))
        return {name: from_json(value) for name, value in named}

    def chain_blocks(self, after: int, limit: int) -> list[ChainBlock]:
        rows = self._connection.execute(CHAIN_BLOCKS, [after, limit])
        return [ChainBlock._make(row) for row in rows]
