"""Copies whole tables into an empty PostgreSQL database in one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from detent.store.postgres.address import read_address
from detent.store.postgres.error_mapping import explained

#: Identity columns by table: their sequences continue after the copied rows.
NUMBERED = {"events": "position", "intake": "id", "outbox": "id"}

GO_ON = sql.SQL(
    "SELECT setval(pg_get_serial_sequence({name}, {column}), max({field})) FROM {table} "
    "HAVING max({field}) IS NOT NULL"
)


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
            counts = {table.name: _copy(cursor, table) for table in tables}
            for name, column in NUMBERED.items():
                named = {"name": sql.Literal(name), "column": sql.Literal(column)}
                field, table = sql.Identifier(column), sql.Identifier(name)
                cursor.execute(GO_ON.format(**named, field=field, table=table))
            return counts
    except psycopg.Error as error:
        raise explained(error, address.shown) from error


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
