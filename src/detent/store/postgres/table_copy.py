"""Copies whole tables into an empty PostgreSQL database in one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from detent.store.layout_upgrade import convert
from detent.store.postgres.address import read_address
from detent.store.postgres.error_mapping import explained
from detent.store.postgres.log_conversion import append
from detent.store.table_names import TOMBSTONES
from detent.store.types import LoggedEvent

#: Identity columns by table: their sequences continue after the copied rows.
NUMBERED = {"intake": "id", "outbox": "id"}

GO_ON = sql.SQL(
    "SELECT setval(pg_get_serial_sequence({name}, {column}), max({field})) FROM {table} "
    "HAVING max({field}) IS NOT NULL"
)


#: The sequencer and the commit ids continue after the copied log.
SEQUENCED = """
    INSERT INTO sequencer_turns (turn, high, position, missing, missing_since)
    SELECT 1, commits.id, first_position + events - 1, '{}', '{}'
    FROM commit_positions JOIN commits ON commits.id = commit_positions.commit_id
    ORDER BY first_position DESC LIMIT 1
"""
ALLOCATED = "SELECT setval('commit_ids', (high / 1024 + 1) * 1024, false) FROM sequencer_turns"
ENDS = "SELECT to_position FROM seals"
TOMBSTONE = """
    INSERT INTO tombstones (stream, commits)
    SELECT stream, string_agg(commit_id::text, ',' ORDER BY commit_id)
    FROM stream_commits WHERE stream = ANY (%s)
    GROUP BY stream
"""


class Table(NamedTuple):
    """The columns and the rows of a table, in batches."""

    name: str
    columns: Sequence[str]
    batches: Iterable[Sequence[tuple[Any, ...]]]


def copy_into(url: str, tables: Iterator[Table]) -> dict[str, int]:
    """Write the tables in one transaction; returns the number of rows of each."""
    address = read_address(url)
    try:
        with psycopg.connect(address.conninfo) as connection, connection.cursor() as cursor:
            counts = {
                table.name: _append(connection, table)
                if table.name == "events"
                else _copy(cursor, table)
                for table in tables
            }
            for name, column in NUMBERED.items():
                named = {"name": sql.Literal(name), "column": sql.Literal(column)}
                field, table = sql.Identifier(column), sql.Identifier(name)
                cursor.execute(GO_ON.format(**named, field=field, table=table))
            return counts
    except psycopg.Error as error:
        raise explained(error, address.shown) from error


def _append(connection: psycopg.Connection, table: Table) -> int:
    """Write events as commits. The chain blocks were copied before: commits end where they do."""
    ends = {end for (end,) in connection.execute(ENDS)}
    count, deleted = 0, set[str]()
    for rows in table.batches:
        events = [LoggedEvent._make(row) for row in rows]
        append(connection, convert(events, ends))
        count += len(events)
        deleted.update(event.stream for event in events if event.digest or event.name in TOMBSTONES)
    connection.execute(SEQUENCED)
    connection.execute(ALLOCATED)
    connection.execute(TOMBSTONE, [sorted(deleted)])
    return count


def _copy(cursor: psycopg.Cursor[Any], table: Table) -> int:
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    text = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), columns)
    count = 0
    with cursor.copy(text) as copy:
        for rows in table.batches:
            for row in rows:
                copy.write_row(row)
            count += len(rows)
    return count
