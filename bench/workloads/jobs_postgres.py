"""Jobs through their whole life on PostgreSQL, beside the bare rows.

As `jobs` does for SQLite: the bare loop sends the write statements of a real run with their values,
one round trip for each transaction, and nothing else.
"""

import atexit
import os
import re
import tempfile
import time
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import psycopg

from bench.workloads import jobs
from detent.engine import Engine
from detent.store.postgres.address import read_address
from detent.store.postgres.connection import Connection, Query, named
from detent.store.postgres.reader import READY, SQL
from detent.store.store_url import open_store
from verification.postgres_server import VARIABLE, Cluster, Server

WRITES = re.compile(rb"\s*(WITH\b.*?)?(INSERT INTO|UPDATE \w+\b|DELETE FROM|MERGE INTO)", re.DOTALL)
#: The commit id is a setting of the transaction, which the statements that follow read; positions
#: are assigned by a function.
ALLOCATES = re.compile(rb"\s*SELECT\s+(set_config\(\s*'detent\.|sequence_commits\(\))")
#: Row locks, hint bits and full pages differ between two runs; a missing statement shows as more.
WAL_TOLERANCE = 0.15
#: Bytes of a few pages, which the server writes whole after a checkpoint.
PAGE_IMAGES = 4 * 8_192
#: Sessions report what they wrote when they end, soon after their connection was closed.
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
ENDED_S = 60.0
LOCKS = re.compile(rb"\bFOR (NO KEY )?UPDATE\b")
#: Servers of tests have little memory; these have PostgreSQL's defaults.
AS_IT_COMES = {"shared_buffers": "128MB"}
BEGIN, COMMIT = Query(b"BEGIN"), Query(b"COMMIT")
#: A claim that chooses jobs: the bare loop has its result, in the setting that statements read.
CHOOSE = READY["choose_plain"](**dict.fromkeys(SQL["choose_plain"].parameters))
CHOSEN = named("SELECT set_config('detent.sets', $1, true)")


@cache
def server() -> Cluster:
    """A server for this run as it comes, on the disk that SQLite is measured on."""
    place = tempfile.TemporaryDirectory(prefix="detent-bench-", dir=Path.home())
    given = os.environ.get(VARIABLE)
    context = Cluster(given) if given else Server.start(Path(place.name), settings=AS_IT_COMES)
    cluster = context.__enter__()
    atexit.register(place.cleanup)
    atexit.register(context.__exit__, None, None, None)
    return cluster


def database() -> str:
    return server().create_database(f"bench_{uuid.uuid4().hex}")


def detent(count: int, batch: int) -> float:
    """Jobs per second: submitted, claimed and completed in batches."""
    store = open_store(database())
    begun = time.perf_counter()
    jobs.live(Engine(store), count, batch)
    took = time.perf_counter() - begun
    store.close()
    return count / took


class Recording(NamedTuple):
    """What a real run wrote: its statements by transaction, and what the server counted."""

    transactions: list[list[Query]]
    counted: "Counted"


class Counted(NamedTuple):
    """Rows that the server inserted, updated and deleted, and bytes of its write-ahead log."""

    inserted: int
    updated: int
    deleted: int
    wal_bytes: int

    def minus(self, other: "Counted") -> "Counted":
        return Counted(*(a - b for a, b in zip(self, other, strict=True)))


def await_other_sessions(connection: psycopg.Connection) -> None:
    """Wait until no other session uses the database."""
    deadline = time.monotonic() + ENDED_S
    while connection.execute(OTHERS).fetchone() != (0,):
        if time.monotonic() > deadline:
            raise TimeoutError("other sessions still use the database, so counts are not final")
        time.sleep(0.01)


def counted(url: str) -> Counted:
    """The server's own counts of one database, after all sessions that wrote have ended."""
    with psycopg.connect(url, autocommit=True) as connection:
        await_other_sessions(connection)
        connection.execute("SELECT pg_stat_force_next_flush()")
        rows = connection.execute(
            "SELECT sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del) FROM pg_stat_user_tables"
        ).fetchone()
        wal = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    assert rows is not None
    assert wal is not None
    inserted, updated, deleted = (int(value or 0) for value in rows)
    return Counted(inserted, updated, deleted, int(wal[0]))


def is_write(text: bytes) -> bool:
    """Whether a statement writes rows, or allocates what they contain."""
    if ALLOCATES.match(text):
        return True
    return bool(WRITES.match(text)) and not LOCKS.search(text)


def written(count: int, batch: int) -> Recording:
    """The write statements of a real run, transaction by transaction."""
    transactions: list[list[Query]] = [[]]
    run = Connection.run

    def noting(self: Connection, queries: Iterable[Query]) -> Any:
        queries = list(queries)
        results = run(self, queries)
        for query, result in zip(queries, results, strict=True):
            if query.text.upper().startswith(b"COMMIT"):
                transactions.append([])
            elif query.text == CHOOSE.text:
                transactions[-1].append(CHOSEN._replace(values=[result.rows[0][0].encode()]))
            elif is_write(query.text):
                transactions[-1].append(query)
        return results

    url = database()
    open_store(url).close()
    before = counted(url)
    store = open_store(url)
    with patch.object(Connection, "run", noting):
        jobs.live(Engine(store), count, batch)
    store.close()
    found = counted(url).minus(before)
    return Recording([each for each in transactions if each], found)


def bare(count: int, recording: Recording) -> float:
    """Jobs per second of the same rows alone. Raises if the server counted something else."""
    url = database()
    open_store(url).close()
    before = counted(url)
    connection = Connection(read_address(url))
    settings = READY["begin_writing"](idle_ms=30_000, hold_ms=60_000)
    begun = time.perf_counter()
    for writes in recording.transactions:
        connection.run([BEGIN, settings, *writes, COMMIT])
    took = time.perf_counter() - begun
    connection.close()
    compare(counted(url).minus(before), recording.counted)
    return count / took


def compare(bare: Counted, real: Counted) -> None:
    """Every row that detent writes is written by the bare loop too, and nothing else."""
    if bare[:3] != real[:3]:
        raise AssertionError(f"rows inserted, updated, deleted: bare {bare[:3]}, detent {real[:3]}")
    if abs(bare.wal_bytes - real.wal_bytes) > WAL_TOLERANCE * real.wal_bytes + PAGE_IMAGES:
        raise AssertionError(f"bytes of log: bare {bare.wal_bytes}, detent {real.wal_bytes}")


BENCHMARKS = jobs.CompleteJobs("PostgreSQL", detent, written, bare).benchmarks()
