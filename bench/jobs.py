"""Jobs through their whole life on the real store, beside the bare rows.

The bare loop writes exactly the rows that detent wrote: the write statements of a real run with
their values, in transactions of the same size, and nothing else: no reads, no decisions.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from bench.harness import Aim, Benchmark, Contestant, Scale
from detent.engine import Ask, Engine
from detent.engine.claims import ClaimAsk
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.open import open_store
from detent.store.sqlite.connection import PRAGMAS, Connection

JOBS = 3_000
SOMEBODY = c.Actor("bench")
PAYLOAD = {"repo": "https://example.org/small.git", "depth": 1, "labels": ["nightly", "quick"]}

#: A write statement with the values of each of its rows.
Write = tuple[str, list[tuple[Any, ...]]]


@contextmanager
def directory() -> Iterator[Path]:
    """A place on the disk, not in memory: durability is part of the price."""
    with tempfile.TemporaryDirectory(prefix="detent-bench-", dir=Path.home()) as place:
        yield Path(place)


def detent(count: int, batch: int) -> float:
    """Jobs per second: submitted, claimed and completed in batches."""
    with directory() as place:
        store = open_store(str(place / "detent.db"))
        begun = time.perf_counter()
        live(Engine(store), count, batch)
        took = time.perf_counter() - begun
        store.close()
    return count / took


def live(engine: Engine, count: int, batch: int) -> None:
    """Jobs through their whole life: all are submitted, then all are done."""
    for begin in range(0, count, batch):
        submit(engine, min(batch, count - begin))
    for begin in range(0, count, batch):
        finish(engine, min(batch, count - begin))


def submit(engine: Engine, count: int) -> None:
    jobs = [c.SubmitJob(new_id(), "bench", "nothing", payload=PAYLOAD) for _ in range(count)]
    engine.ask([Ask(job, SOMEBODY, fresh=True) for job in jobs])


def finish(engine: Engine, count: int) -> None:
    held = engine.claim(ClaimAsk("bench", "nonce", count))
    assert len(held) == count, f"{len(held)} jobs of {count} were there to be claimed"
    reports = [c.CompleteRun(each.grant, each.job.run_id or "", {"ok": True}) for each in held]
    engine.ask([Ask(report, SOMEBODY) for report in reports])


def written(count: int, batch: int) -> list[list[Write]]:
    """The write statements of a real run, transaction by transaction."""
    transactions: list[list[Write]] = []
    many, all_rows = Connection.many, Connection.all

    def noting_many(self: Connection, text: str, rows: Any) -> Any:
        if not text.lstrip().upper().startswith("SELECT"):
            transactions[-1].append((text, list(rows)))
        return many(self, text, rows)

    def noting_all(self: Connection, text: str, values: Any = ()) -> Any:
        if text.upper().startswith("BEGIN IMMEDIATE"):
            transactions.append([])
        return all_rows(self, text, values)

    with directory() as place, patch.multiple(Connection, many=noting_many, all=noting_all):
        store = open_store(str(place / "detent.db"))
        transactions.clear()
        live(Engine(store), count, batch)
        store.close()
    return [each for each in transactions if each]


def bare(count: int, transactions: list[list[Write]]) -> float:
    """Jobs per second of the same rows alone."""
    with directory() as place:
        file = str(place / "detent.db")
        open_store(file).close()
        database = apsw.Connection(file)
        for pragma in (*PRAGMAS, "journal_mode = WAL"):
            database.execute(f"PRAGMA {pragma}").fetchall()
        begun = time.perf_counter()
        for writes in transactions:
            database.execute("BEGIN IMMEDIATE")
            for text, rows in writes:
                database.executemany(text, rows).fetchall()
            database.execute("COMMIT")
        took = time.perf_counter() - begun
        database.close()
    return count / took


def contestants(batch: int, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(JOBS, least=20)
    return (
        Contestant("detent", partial(detent, count, batch)),
        Contestant("bare rows", partial(bare, count, written(count, batch))),
    )


BENCHMARKS = tuple(
    Benchmark(
        f"jobs-sqlite-{batch}",
        f"Jobs through their whole life on SQLite, {batch} in a transaction.",
        "jobs/s",
        partial(contestants, batch),
        (Aim(0.6, "bare rows"),) if batch == 100 else (),
    )
    for batch in (100, 1_000)
)
