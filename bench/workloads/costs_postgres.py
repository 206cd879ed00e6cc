"""What PostgreSQL does for one bare job: transactions, rows, bytes of its log, processor time.

These are costs of the server, which all clusters of workers share; they carry over to other sizes
better than jobs per second do. Read from the server's own statistics and from its processes.
"""

import time
from functools import partial
from pathlib import Path

import psutil
import psycopg

from bench.harness import Benchmark, Contestant, Scale, parts
from bench.workloads import jobs, jobs_postgres
from detent.engine import Engine
from detent.store.store_url import open_store

BATCHES = (1, 10, 100)
COUNTS = """
SELECT sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del), sum(n_tup_hot_upd) FROM pg_stat_user_tables
"""
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
LOG = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
SIZE = "SELECT pg_database_size(current_database())"
NAMES = (
    *("transactions", "rows inserted", "rows updated", "rows deleted", "of them in place"),
    *("bytes of its log", "bytes kept", "server, µs of processor", "detent, µs of processor"),
)


def costs(count: int, batch: int) -> dict[str, float]:
    """What the server did between two looks, for each job."""
    url = jobs_postgres.database()
    open_store(url).close()  # with the tables, which are not a cost of the jobs
    before, begun = _look(url), time.process_time()
    store = open_store(url)
    jobs.live(Engine(store), count, batch)
    took = 1e6 * (time.process_time() - begun)
    store.close()
    after = _look(url)
    found = [(b - a) / count for a, b in zip(before, after, strict=True)]
    return dict(zip(NAMES, [*found, took / count], strict=True))


def _look(url: str) -> list[float]:
    """A connection reports its counts to the statistics when it ends; a new one reads them."""
    with psycopg.connect(url, autocommit=True) as connection:
        jobs_postgres.await_other_sessions(connection)
        connection.execute("SELECT pg_stat_force_next_flush()")
        commits = _row(connection, COMMITS)
        inserted, updated, deleted, hot = _row(connection, COUNTS)
        (log,), (size,) = _row(connection, LOG), _row(connection, SIZE)
    return [*commits, inserted, updated, deleted, hot, log, size, processor_us()]


def _row(connection: "psycopg.Connection[tuple[float, ...]]", text: str) -> list[float]:
    row = connection.execute(text).fetchone()
    assert row is not None
    return [float(value or 0) for value in row]


def processor_us() -> float:
    """Of the server with its children, those that have ended included."""
    parent = psutil.Process(_postmaster())
    alive = sum(_spent_s(each) for each in parent.children(recursive=True))
    ended = parent.cpu_times()
    own = ended.user + ended.system + ended.children_user + ended.children_system
    return 1e6 * (alive + own)


def _spent_s(process: psutil.Process) -> float:
    """Nothing of one that has just ended: its parent has its time."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _postmaster() -> int:
    with psycopg.connect(jobs_postgres.server().url("postgres")) as connection:
        row = connection.execute("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
        place = row.fetchone()
    assert place is not None
    written = Path(place[0], "postmaster.pid").read_text(encoding="utf-8")
    return int(written.split()[0])


def contestants(batch: int, scale: Scale) -> tuple[Contestant, ...]:
    # One by one is slow and costs the same for each: a tenth of them says as much.
    count = scale.of(jobs.JOBS if batch > 1 else jobs.JOBS // 10, least=20)
    return parts(NAMES, lambda: costs(count, batch))


BENCHMARKS = tuple(
    Benchmark(
        f"cost-postgres-{batch}",
        f"The work of PostgreSQL for one bare job, {batch} per transaction.",
        "per job",
        partial(contestants, batch),
        less_is_better=True,
        rivals=False,
    )
    for batch in BATCHES
)
