"""Enqueuing: one by one beside a bare commit, by a hundred concurrent callers, and in bulk."""

import statistics
import threading
import time
from functools import partial

import apsw
import psycopg

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.installations import STORES, installation
from bench.workloads.jobs import PAYLOAD, PERSON, directory
from bench.workloads.jobs_postgres import database
from detent.engine import CommandRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.store.sqlite.connection import PRAGMAS

SINGLES = 300
CALLERS = 100
CONCURRENT = 10_000
BULK = 20_000
IN_BULK = 1_000


def job() -> c.SubmitJob:
    return c.SubmitJob(new_id(), "bench", "nothing", payload=PAYLOAD)


# ---- one by one ------------------------------------------------------------------------------


def single(kind: str, count: int) -> float:
    """The middle time of one submit that is on the disk when it is answered, in µs."""
    took = []
    with installation(kind) as core:
        for _ in range(count):
            each = job()
            begun = time.perf_counter()
            core.engine.do(each, PERSON, fresh=True)
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e6


def bare_sqlite(count: int) -> float:
    """The middle time of one row and its synchronous commit, in µs."""
    took = []
    with directory() as place:
        connection = apsw.Connection(str(place / "bare.db"))
        for pragma in ("journal_mode = WAL", *PRAGMAS):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("CREATE TABLE bare (id TEXT PRIMARY KEY, body TEXT)")
        for _ in range(count):
            row = (new_id(), "x" * 300)
            begun = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO bare VALUES (?, ?)", row)
            connection.execute("COMMIT")
            took.append(time.perf_counter() - begun)
        connection.close()
    return statistics.median(took) * 1e6


def bare_postgres(count: int) -> float:
    """The middle time of one row and its synchronous commit, in µs."""
    took = []
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id text PRIMARY KEY, body text)")
        for _ in range(count):
            row = (new_id(), "x" * 300)
            begun = time.perf_counter()
            connection.execute("INSERT INTO bare VALUES (%s, %s)", row)
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e6


BARE = {"sqlite": bare_sqlite, "postgres": bare_postgres}


def singles(kind: str, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(SINGLES, least=10)
    return (
        Contestant("detent", partial(single, kind, count)),
        Contestant("bare commit", partial(BARE[kind], count)),
    )


# ---- many ------------------------------------------------------------------------------------


def concurrent(kind: str, count: int) -> float:
    """Jobs per second when a hundred callers each wait for the answer to every one of theirs."""
    with installation(kind) as core:
        each = max(1, count // CALLERS)
        threads = [threading.Thread(target=_repeat, args=(core, each)) for _ in range(CALLERS)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return each * CALLERS / (time.perf_counter() - begun)


def _repeat(core: Core, count: int) -> None:
    for _ in range(count):
        core.engine.do(job(), PERSON, fresh=True)


def bulk(kind: str, count: int) -> float:
    """Jobs per second, many in one call."""
    with installation(kind) as core:
        begun = time.perf_counter()
        for begin in range(0, count, IN_BULK):
            size = min(IN_BULK, count - begin)
            core.engine.execute(
                [CommandRequest(job(), PERSON, fresh=True) for _ in range(size)], bulk=True
            )
        return count / (time.perf_counter() - begun)


def many(scale: Scale) -> tuple[Contestant, ...]:
    ways = {"bulk": (bulk, BULK), "100 callers": (concurrent, CONCURRENT)}
    return tuple(
        Contestant(f"{kind}, {way}", partial(measure, kind, scale.of(count, least=CALLERS)))
        for kind in STORES
        for way, (measure, count) in ways.items()
    )


BENCHMARKS = (
    *(
        Benchmark(
            f"submit-{kind}",
            "One durable submission, and one bare synchronous commit.",
            "µs, median",
            partial(singles, kind),
            (Aim(1 / 1.3, "bare commit"),),
            less_is_better=True,
        )
        for kind in STORES
    ),
    Benchmark(
        "submit-many",
        f"Durable submissions: {IN_BULK:,} in one call, and {CALLERS} concurrent callers.",
        "jobs/s",
        many,
        rivals=False,
    ),
)
