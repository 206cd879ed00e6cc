"""Reads whole tables of a SQLite database in batches."""

from collections.abc import Iterator
from typing import Any

from detent.store.sqlite.reader import SqliteReader

BATCH = 1_000
COLUMNS = "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid"
#: All tables but those of the log.
WITH_ROWS = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    " AND name NOT IN ('commits', 'stream_commits') ORDER BY name"
)


def columns(view: SqliteReader, table: str) -> list[str]:
    return [name for name, _ in view.raw(COLUMNS, (table,))]


def count(view: SqliteReader, table: str) -> int:
    rows: int = view.raw(f"SELECT count(*) FROM {table}")[0][0]
    return rows


def with_nul(view: SqliteReader) -> Iterator[tuple[str, str, str]]:
    """The rows whose text contains U+0000: the table, the first column of the row, the column."""
    for (table,) in view.raw(WITH_ROWS):
        names = columns(view, table)
        for name in names:
            found = f'typeof("{name}") = \'text\' AND instr("{name}", char(0))'
            for (key,) in view.raw(f'SELECT "{names[0]}" FROM {table} WHERE {found} LIMIT 10'):
                yield table, str(key), name


def batches(view: SqliteReader, table: str) -> Iterator[list[tuple[Any, ...]]]:
    """All rows in the order of the key. The name of the table is never user input."""
    named = view.raw(COLUMNS, (table,))
    names = [f'"{name}"' for name, _ in named]
    places = [at for at, (_, pk) in sorted(enumerate(named), key=lambda each: each[1][1]) if pk]
    key = ", ".join(names[at] for at in places)
    marks = ", ".join("?" * len(places))
    select = f"SELECT {', '.join(names)} FROM {table}"
    order = f"ORDER BY {key} LIMIT {BATCH}"
    rows = view.raw(f"{select} {order}")
    while rows:
        yield rows
        last = tuple(rows[-1][at] for at in places)
        rows = view.raw(f"{select} WHERE ({key}) > ({marks}) {order}", last)
