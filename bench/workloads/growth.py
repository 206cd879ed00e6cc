"""Growth: what a job costs with many finished or queued jobs in the store, on both stores.

A store is filled once: one job is made by the engine, the others are copied from its rows in SQL.
All contestants of a benchmark then measure whole lives of jobs, submitted, claimed and completed.
"""

import atexit
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any

import apsw
import psycopg

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.installations import STORES
from bench.workloads.jobs import directory, finish, live, submit
from bench.workloads.jobs_postgres import database
from detent.engine import Engine
from detent.store.store_url import open_store

MEASURED = 6_000
BATCH = 100
FINISHED = (1_000_000, 100_000, 10_000, 1_000)
QUEUED = (1_000_000, 1_000)
#: The columns of a job that a copy has of its own. A bulk submission writes 1,000 jobs with one
#: time, so that as many have the same rank.
OF_A_COPY = {
    "id": "id || '-' || n",
    "rank": "rank + n / 1000",
    "root_id": "root_id || '-' || n",
    "run_id": "id || '-' || n || '-r1'",
}
#: The commits of the job, which were the last ones, for each of its copies.
COMMITS = """
    INSERT INTO commits (id, at, events, size, body)
    SELECT commits.id + (last.id + last.events - 1) * n, commits.at, commits.events,
        commits.size, of_copy(commits.body, :job, n)
    FROM numbers, commits, (SELECT id, events FROM commits ORDER BY id DESC LIMIT 1) AS last
    WHERE of_copy(commits.body, :job, 0) IS NOT NULL
"""

#: The same on PostgreSQL, where the sequencer then assigns their positions.
POSTGRES_COMMITS = """
    INSERT INTO commits (id, at, events, body)
    SELECT nextval('commit_ids'), of_job.at, of_job.events,
        replace(of_job.body, %(job)s, %(job)s || '-' || n)
    FROM generate_series(1, %(count)s::integer) AS n,
        (SELECT * FROM commits WHERE strpos(body, %(job)s) > 0 ORDER BY id) AS of_job
"""


# ---- filling ---------------------------------------------------------------------------------


@cache
def filled(kind: str, finished: int, queued: int) -> str:
    """The address of a store with these numbers of finished and queued jobs; made once."""
    url = _address(kind)
    store = open_store(url)
    engine = Engine(store)
    # Those that are queued come last, so that the copies of the finished ones are not of them.
    steps = ((finished, True), (queued, False))
    for count, done in steps:
        if count:
            submit(engine, 1)
            if done:
                finish(engine, 1)
            _multiply(kind, url, count)
    store.close()
    return url


def _address(kind: str) -> str:
    if kind == "postgres":
        return database()
    made = directory()
    place = made.__enter__()
    atexit.register(made.__exit__, None, None, None)
    return str(place / "detent.db")


def _multiply(kind: str, url: str, count: int) -> None:
    """Copies of the newest job, until there are `count` of them."""
    copy = _copy_sqlite if kind == "sqlite" else _copy_postgres
    copy(url, count - 1)


def _copy_sqlite(url: str, count: int) -> None:
    numbers = (
        "WITH RECURSIVE numbers(n) AS "
        f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
    )
    database = apsw.Connection(url)
    (newest,) = next(database.execute("SELECT max(id) FROM jobs"))
    with database:
        for table in ("active_jobs", "ended_jobs") if count else ():
            columns = [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]
            values = [OF_A_COPY.get(name, name) for name in columns]
            database.execute(
                f"{numbers}INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
                f" FROM numbers, {table} WHERE id = ?",
                (newest,),
            )
        if count:
            database.create_scalar_function("of_copy", _body_of_copy, 3, deterministic=True)
            database.execute(f"{numbers}{COMMITS}", {"job": newest})
    database.close()


def _body_of_copy(*values: Any) -> bytes | None:
    """The body of a commit with the id of a copy of a job; None if the job is not in it."""
    body, job, number = values
    text = zlib.decompress(body)
    if job.encode() not in text:
        return None
    return zlib.compress(text.replace(job.encode(), f"{job}-{number}".encode()), 1)


def _copy_postgres(url: str, count: int) -> None:
    query = """
        SELECT column_name FROM information_schema.columns
        WHERE table_name = %s ORDER BY ordinal_position
    """
    with psycopg.connect(url, autocommit=True) as connection:
        (newest,) = connection.execute("SELECT max(id) FROM jobs").fetchone() or ("",)
        for table in ("active_jobs", "ended_jobs") if count else ():
            columns = [str(name) for (name,) in connection.execute(query, [table])]
            values = [OF_A_COPY.get(name, name) for name in columns]
            text = (
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
                f" FROM generate_series(1, {count}) AS n, {table} WHERE id = %s"
            )
            connection.execute(text.encode(), [newest])
        if count:
            connection.execute(POSTGRES_COMMITS, {"job": newest, "count": count})
            connection.execute("SELECT sequence_commits()")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")  # it would run during the measurement otherwise


# ---- measuring -------------------------------------------------------------------------------


def behind(kind: str, finished: int, queued: int, count: int, reader: bool = False) -> float:
    """Jobs per second through their whole life, with others in the store.

    As many as are submitted are done, so that the store stays as full as it was.
    """
    url = filled(kind, finished, queued)
    with ExitStack() as stack:
        if reader:
            stack.enter_context(_watching(url))
        store = open_store(url)
        stack.callback(store.close)
        engine = Engine(store)
        live(engine, BATCH, BATCH)  # connections, plans and caches are those of a running process
        begun = time.perf_counter()
        live(engine, count, BATCH)
        return count / (time.perf_counter() - begun)


@contextmanager
def _watching(url: str) -> Iterator[None]:
    """A reader that holds a transaction open, so that nothing can be vacuumed away."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM queue")
        yield


def finished(kind: str, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(MEASURED, least=BATCH)
    many = {f"{size:,} finished": scale.of(size, least=10) for size in FINISHED}
    found = [Contestant(name, partial(behind, kind, size, 0, count)) for name, size in many.items()]
    if kind == "postgres":
        most = scale.of(FINISHED[0], least=10)
        watched = partial(behind, kind, most, 0, count, reader=True)
        found.append(Contestant(f"{FINISHED[0]:,} and a reader", watched))
    return tuple(found)


def queued(kind: str, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(MEASURED, least=BATCH)
    return tuple(
        Contestant(f"{size:,} queued", partial(behind, kind, 0, scale.of(size, least=BATCH), count))
        for size in QUEUED
    )


BENCHMARKS = (
    *(
        Benchmark(
            f"finished-{kind}",
            "Complete jobs, with finished jobs in the store.",
            "jobs/s",
            partial(finished, kind),
            (Aim(1 / 1.1, "1,000 finished"),),
        )
        for kind in STORES
    ),
    *(
        Benchmark(
            f"queued-{kind}",
            "Complete jobs, with other jobs queued before and after them.",
            "jobs/s",
            partial(queued, kind),
            (Aim(1 / 1.1, "1,000 queued"),),
        )
        for kind in STORES
    ),
)
