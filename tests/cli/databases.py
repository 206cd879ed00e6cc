"""Open and change the database of a test's data directory."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from click.testing import Result

from detent.store.sqlite import SqliteStore

Run = Callable[..., Result]


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


def worker_row(data: Path, **fields: Any) -> None:
    with opened(data) as store, store.write() as tx:
        row = {"host": socket.gethostname(), "pid": os.getpid(), "seen_at": tx.now(), **fields}
        tx.put_rows("workers", {"w1": row})
