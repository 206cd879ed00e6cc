"""What a store costs besides throughput: a single durable submit, claims behind history, bytes."""

import statistics
import time
from functools import cache, partial
from pathlib import Path

import apsw

from bench.harness import Aim, Benchmark, Contestant
from bench.jobs import PAYLOAD, SOMEBODY, directory
from detent.engine import Ask, Engine
from detent.engine.claims import ClaimAsk
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.open import open_store
from detent.store.sqlite.connection import PRAGMAS

SINGLES = 300
MEASURED = 2_000
BATCH = 100

# ---- a single submit -------------------------------------------------------------------------


def single_submit() -> float:
    """The middle time of one submit that is on the disk when it is answered, in µs."""
    with directory() as place:
        store = open_store(str(place / "detent.db"))
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
    with directory() as place:
        database = apsw.Connection(str(place / "bare.db"))
        for pragma in ("journal_mode = WAL", *PRAGMAS):
            database.execute(f"PRAGMA {pragma}").fetchall()
        database.execute("CREATE TABLE bare (id TEXT PRIMARY KEY, body TEXT)")
        took = []
        for _ in range(SINGLES):
            row = (new_id(), "x" * 300)
            begun = time.perf_counter()
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO bare VALUES (?, ?)", row)
            database.execute("COMMIT")
            took.append(time.perf_counter() - begun)
        database.close()
    return statistics.median(took) * 1e6


def singles() -> tuple[Contestant, ...]:
    return Contestant("detent", single_submit), Contestant("bare commit", bare_commit)


# ---- behind history --------------------------------------------------------------------------


def behind(finished: int) -> float:
    """Jobs claimed and completed per second with so many finished ones in the store."""
    store = open_store(str(history(finished)))
    engine = Engine(store)
    for _ in range(0, MEASURED, BATCH):
        submit(engine, BATCH)
    begun = time.perf_counter()
    for _ in range(0, MEASURED, BATCH):
        finish(engine, BATCH)
    took = time.perf_counter() - begun
    store.close()
    return MEASURED / took


@cache
def history(finished: int) -> Path:
    """A store with finished jobs: one made by the engine, the others copied row by row from it."""
    place = Path.home() / ".cache" / "detent-bench" / f"finished-{finished}.db"
    for old in place.parent.glob(place.name + "*"):
        old.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    store = open_store(str(place))
    submit(Engine(store), 1)
    finish(Engine(store), 1)
    store.close()
    database = apsw.Connection(str(place))
    with database:
        for table in ("jobs", "runs", "events"):
            database.execute(_copies(database, table, finished - 1)).fetchall()
    database.close()
    return place


def _copies(database: apsw.Connection, table: str, count: int) -> str:
    """Rows like those of the first job, with ids of their own."""
    own = {"jobs": ("id", "root_id"), "runs": ("id", "job_id"), "events": ("stream", "subject")}
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    kept = [name for name in columns if not (table == "events" and name == "position")]
    values = [f"{name} || '-' || n" if name in own[table] else name for name in kept]
    return (
        "WITH RECURSIVE numbers(n) AS "
        f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
        f"INSERT INTO {table} ({', '.join(kept)}) SELECT {', '.join(values)} FROM numbers, {table}"
    )


def submit(engine: Engine, count: int) -> None:
    jobs = [c.SubmitJob(new_id(), "bench", "nothing", payload=PAYLOAD) for _ in range(count)]
    engine.ask([Ask(job, SOMEBODY, fresh=True) for job in jobs])


def finish(engine: Engine, count: int) -> None:
    held = engine.claim(ClaimAsk("bench", "nonce", count))
    reports = [c.CompleteRun(each.grant, each.job.run_id or "", {"ok": True}) for each in held]
    engine.ask([Ask(report, SOMEBODY) for report in reports])


def histories() -> tuple[Contestant, ...]:
    return tuple(
        Contestant(f"{count:,} finished", partial(behind, count))
        for count in (1_000_000, 100_000, 1_000)
    )


# ---- size ------------------------------------------------------------------------------------


def bytes_per_job() -> float:
    with directory() as place:
        store = open_store(str(place / "detent.db"))
        engine = Engine(store)
        for _ in range(0, MEASURED, BATCH):
            submit(engine, BATCH)
            finish(engine, BATCH)
        store.close()
        return sum(file.stat().st_size for file in place.iterdir()) / MEASURED


def sizes() -> tuple[Contestant, ...]:
    return (Contestant("detent", bytes_per_job),)


BENCHMARKS = (
    Benchmark(
        "submit-sqlite",
        "One durable submit, asked alone, beside one bare synchronous commit.",
        "µs, median",
        singles,
        (Aim(1 / 1.5, "bare commit"),),
        less_is_better=True,
    ),
    Benchmark(
        "history-sqlite",
        "Claim and complete with finished jobs behind.",
        "jobs/s",
        histories,
        (Aim(0.8, "1,000 finished"),),
    ),
    Benchmark(
        "size-sqlite",
        "Bytes on disk for each finished job, its whole log included.",
        "bytes",
        sizes,
        less_is_better=True,
        rivals=False,
    ),
)
