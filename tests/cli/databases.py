"""Databases of command tests: opened as a store, or changed behind its back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from detent.store.sqlite import SqliteStore


@contextmanager
def opened(data: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(data / "detent.db")
    try:
        yield store
    finally:
        store.close()


def alter(file: Path, *statements: str) -> None:
    connection = apsw.Connection(str(file))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()
