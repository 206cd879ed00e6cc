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
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench import jobs
from bench.harness import Aim, Benchmark, Contestant, Scale
from detent.engine import Engine
from detent.store.open import open_store
from detent.store.postgres.address import read_address
from detent.store.postgres.connection import Connection, Query
from detent.store.postgres.reading import READY
from detent.testing.postgres import VARIABLE, Cluster, Server

WRITES = re.compile(rb"\s*(WITH\b.*?)?(INSERT INTO|UPDATE \w+\b|DELETE FROM)", re.DOTALL)
LOCKS = re.compile(rb"\bFOR (NO KEY )?UPDATE\b")
#: Servers of tests have little memory; these have what PostgreSQL has without being told.
AS_IT_COMES = {"shared_buffers": "128MB"}
BEGIN, COMMIT = Query(b"BEGIN"), Query(b"COMMIT")


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


def written(count: int, batch: int) -> list[list[Query]]:
    """The write statements of a real run, transaction by transaction."""
    transactions: list[list[Query]] = [[]]
    run = Connection.run

    def noting(self: Connection, queries: Iterable[Query]) -> Any:
        queries = list(queries)
        for query in queries:
            if query.text.upper().startswith(b"COMMIT"):
                transactions.append([])
            elif WRITES.match(query.text) and not LOCKS.search(query.text):
                transactions[-1].append(query)
        return run(self, queries)

    store = open_store(database())
    with patch.object(Connection, "run", noting):
        jobs.live(Engine(store), count, batch)
    store.close()
    return [each for each in transactions if each]


def bare(count: int, transactions: list[list[Query]]) -> float:
    """Jobs per second of the same rows alone."""
    url = database()
    open_store(url).close()
    connection = Connection(read_address(url))
    settings = READY["begin_writing"](idle_ms=30_000, hold_ms=60_000)
    begun = time.perf_counter()
    for writes in transactions:
        connection.run([BEGIN, settings, *writes, COMMIT])
    took = time.perf_counter() - begun
    connection.close()
    return count / took


def contestants(batch: int, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(jobs.JOBS, least=20)
    return (
        Contestant("detent", partial(detent, count, batch)),
        Contestant("bare rows", partial(bare, count, written(count, batch))),
    )


BENCHMARKS = tuple(
    Benchmark(
        f"jobs-postgres-{batch}",
        f"Jobs through their whole life on PostgreSQL, {batch} in a transaction.",
        "jobs/s",
        partial(contestants, batch),
        (Aim(0.6, "bare rows"),) if batch == 100 else (),
    )
    for batch in (100, 1_000)
)
