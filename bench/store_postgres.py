"""What PostgreSQL costs besides throughput: a single submit, claims behind history, bytes.

As `store` does for SQLite. Finished jobs are copied row by row from one that the engine made; one
contestant claims while a reader holds a transaction open, so that nothing can be vacuumed away.
"""

import statistics
import time
from contextlib import ExitStack
from functools import cache, partial

import psycopg

from bench.harness import Aim, Benchmark, Contestant
from bench.jobs import PAYLOAD, SOMEBODY
from bench.jobs_postgres import database
from bench.store import BATCH, MEASURED, SINGLES, finish, submit
from detent.engine import Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.open import open_store

#: The columns of each table that a copy must have of its own.
OWN = {"jobs": ("id", "root_id"), "runs": ("id", "job_id"), "events": ("stream", "subject")}

# ---- a single submit -------------------------------------------------------------------------


def single_submit() -> float:
    """The middle time of one submit that is on the disk when it is answered, in µs."""
    store = open_store(database())
    engine = Engine(store)
    took = []
    for _ in range(SINGLES):
        job = c.SubmitJob(new_id(), "bench", "nothing", payload=PAYLOAD)
        begun = time.perf_counter()
        engine.do(job, SOMEBODY, fresh=True)
        took.append(time.perf_counter() - begun)
    store.close()
    return statistics.median(took) * 1e6


def bare_commit() -> float:
    """The middle time of one row and its synchronous commit, in µs."""
    took = []
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id text PRIMARY KEY, body text)")
        for _ in range(SINGLES):
            row = (new_id(), "x" * 300)
            begun = time.perf_counter()
            connection.execute("INSERT INTO bare VALUES (%s, %s)", row)
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e6


# ---- behind history --------------------------------------------------------------------------


def behind(finished: int, reader: bool = False) -> float:
    """Jobs claimed and completed per second with so many finished ones in the store."""
    url = history(finished)
    with ExitStack() as stack:
        if reader:
            watching = stack.enter_context(psycopg.connect(url))
            watching.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            watching.execute("SELECT count(*) FROM queue")
        store = open_store(url)
        stack.callback(store.close)
        engine = Engine(store)
        for _ in range(0, MEASURED, BATCH):
            submit(engine, BATCH)
        begun = time.perf_counter()
        for _ in range(0, MEASURED, BATCH):
            finish(engine, BATCH)
        return MEASURED / (time.perf_counter() - begun)


@cache
def history(finished: int) -> str:
    """A database with finished jobs: one made by the engine, the others copied from it."""
    url = database()
    store = open_store(url)
    submit(Engine(store), 1)
    finish(Engine(store), 1)
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        for table, own in OWN.items():
            connection.execute(_copies(connection, table, own, finished - 1).encode())
        connection.execute("VACUUM ANALYZE")
    return url


def _copies(connection: psycopg.Connection, table: str, own: tuple[str, ...], count: int) -> str:
    query = """
        SELECT column_name FROM information_schema.columns
        WHERE table_name = %s AND is_identity = 'NO' ORDER BY ordinal_position
    """
    kept = [name for (name,) in connection.execute(query, [table])]
    values = [f"{name} || '-' || n" if name in own else name for name in kept]
    return (
        f"INSERT INTO {table} ({', '.join(kept)}) SELECT {', '.join(values)} "
        f"FROM generate_series(1, {count}) AS n, {table}"
    )


def histories() -> tuple[Contestant, ...]:
    counts = (1_000_000, 100_000, 1_000)
    return (
        Contestant("1,000,000 and a reader", partial(behind, counts[0], reader=True)),
        *(Contestant(f"{count:,} finished", partial(behind, count)) for count in counts),
    )


# ---- size ------------------------------------------------------------------------------------


def bytes_per_job() -> float:
    url = database()
    store = open_store(url)
    engine = Engine(store)
    with psycopg.connect(url, autocommit=True) as connection:
        before = _size(connection)
        for _ in range(0, MEASURED, BATCH):
            submit(engine, BATCH)
            finish(engine, BATCH)
        connection.execute("VACUUM")
        after = _size(connection)
    store.close()
    return (after - before) / MEASURED


def _size(connection: psycopg.Connection) -> int:
    (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    return int(size)


BENCHMARKS = (
    Benchmark(
        "submit-postgres",
        "One durable submit, asked alone, beside one bare synchronous commit.",
        "µs, median",
        lambda: (Contestant("detent", single_submit), Contestant("bare commit", bare_commit)),
        (Aim(1 / 1.5, "bare commit"),),
        less_is_better=True,
    ),
    Benchmark(
        "history-postgres",
        "Claim and complete with finished jobs behind, and while a reader holds a transaction.",
        "jobs/s",
        histories,
        (Aim(0.8, "1,000 finished"),),
    ),
    Benchmark(
        "size-postgres",
        "Bytes on disk for each finished job, its whole log included.",
        "bytes",
        lambda: (Contestant("detent", bytes_per_job),),
        less_is_better=True,
        rivals=False,
    ),
)
