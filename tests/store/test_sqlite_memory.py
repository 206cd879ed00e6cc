"""A connection keeps a bounded part of the database file in memory, however large the file is."""

from pathlib import Path

import apsw
import pytest

from detent.store.sqlite.connection import CACHE_KIB, READER_CACHE_KIB, Connection

#: More than any connection keeps.
ROWS, ROW_BYTES = 16_000, 1_500
#: Besides the pages, SQLite counts what describes them.
FACTOR = 1.25


@pytest.mark.parametrize(("reads_only", "kib"), [(True, READER_CACHE_KIB), (False, CACHE_KIB)])
def test_a_connection_that_has_read_everything_keeps_little(
    tmp_path: Path, reads_only: bool, kib: int
) -> None:
    path = tmp_path / "detent.db"
    database = apsw.Connection(str(path))
    database.execute("CREATE TABLE blobs (id INTEGER PRIMARY KEY, data BLOB)")
    rows = [(number, bytes(ROW_BYTES)) for number in range(ROWS)]
    with database:
        database.executemany("INSERT INTO blobs VALUES (?, ?)", rows)
    database.close()
    connection = Connection(path, reads_only=reads_only)
    assert connection.all("SELECT sum(length(hex(data))) FROM blobs") == [(2 * ROWS * ROW_BYTES,)]
    used, _ = connection._db.status(apsw.SQLITE_DBSTATUS_CACHE_USED)
    assert kib * 1_024 * 0.5 < used < kib * 1_024 * FACTOR
    connection.close()
