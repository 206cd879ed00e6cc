"""Bytes: what a waiting job takes in its worker's memory and in the store, and a finished one."""

from functools import partial
from pathlib import Path

import apsw
import psutil
import psycopg

from bench.harness import Benchmark, Contestant, Scale, parts
from bench.workloads import processes
from bench.workloads.installations import STORES, installation
from bench.workloads.jobs import live
from bench.workloads.worker import submit, until
from detent.operations.context import Core

WAITING = 5_000
FINISHED = 2_000
BATCH = 100
#: Jobs that wait before the counting begins, so that what a worker needs once is there already.
BEFORE = 200
NAMES = ("worker's memory", "store")


def waiting(store: str, count: int, before: int) -> dict[str, float]:
    """Bytes for each job that waits for a signal: grown memory of its worker, grown store."""
    with installation(store) as core, processes.worker(core) as worker:
        process = psutil.Process(worker.pid)
        at_rest = _come_to_rest(core, process, before, before)
        grown = _come_to_rest(core, process, count, before + count)
    return {
        name: (after - began) / count
        for name, began, after in zip(NAMES, at_rest, grown, strict=True)
    }


def _come_to_rest(
    core: Core, process: psutil.Process, more: int, all_of_them: int
) -> tuple[int, int]:
    """Memory of the worker and size of the store when this many jobs wait."""
    submit(core, "hear", more)
    until(core, {"waiting", "parked"}, all_of_them)
    return int(process.memory_info().rss), size(core)


def size(core: Core) -> int:
    """Bytes of the store, once what is dead in it has been taken out."""
    url = core.settings.url
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])
    database = apsw.Connection(url)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.close()
    return Path(url).stat().st_size


def finished(store: str, count: int) -> float:
    """Bytes in the store per finished job, including its log."""
    with installation(store) as core:
        before = size(core)
        live(core.engine, count, BATCH)
        return (size(core) - before) / count


def _finished(scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(FINISHED, least=BATCH)
    return tuple(Contestant(store, partial(finished, store, count)) for store in STORES)


def _waiting(store: str, scale: Scale) -> tuple[Contestant, ...]:
    count, before = scale.of(WAITING, least=50), scale.of(BEFORE, least=10)
    return parts(NAMES, partial(waiting, store, count, before))


BENCHMARKS = (
    *(
        Benchmark(
            f"waiting-{store}",
            f"Memory and storage of each of {WAITING:,} jobs that wait for a signal.",
            "bytes",
            partial(_waiting, store),
            less_is_better=True,
            rivals=False,
        )
        for store in STORES
    ),
    Benchmark(
        "size",
        "Bytes in the store per finished job, including its log.",
        "bytes",
        _finished,
        less_is_better=True,
        rivals=False,
    ),
)
