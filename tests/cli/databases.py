"""Open or change the database of a test's data directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detent.store.sqlite import SqliteStore


@contextmanager
def opened(data: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(data / "detent.db")
    try:
        yield store
    finally:
        store.close()
