"""Jobs through their whole life on the real store, beside the bare rows.

The bare loop writes exactly the rows that detent wrote: the write statements of a real run with
their values, in transactions of the same size, and nothing else: no reads, no decisions.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from bench.harness import Aim, Benchmark, Contestant, Scale
from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.sqlite.connection import PRAGMAS, Connection
from detent.store.store_url import open_store

JOBS = 3_000
PERSON = c.Actor("bench")
PAYLOAD = {"repo": "https://example.org/small.git", "depth": 1, "labels": ["nightly", "quick"]}

#: A write statement with the values of each of its executions.
Write = tuple[str, list[Any]]


class Recording(NamedTuple):
    """What a real run wrote: its statements by transaction, and how many rows they changed."""

    transactions: list[list[Write]]
    rows: int


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
    engine.execute([CommandRequest(job, PERSON, fresh=True) for job in jobs])


def finish(engine: Engine, count: int) -> None:
    held = engine.claim(ClaimRequest("bench", "nonce", count))
    assert len(held) == count, f"{len(held)} jobs of {count} were there to be claimed"
    reports = [c.CompleteRun(each.grant, each.job.run_id or "", {"ok": True}) for each in held]
    engine.execute([CommandRequest(report, PERSON) for report in reports])


def written(count: int, batch: int) -> Recording:
    """The write statements of a real run, and how many rows they changed.

    SQLite itself names every statement that it executes and says whether it writes, so none can be
    missing.
    """
    transactions: list[list[Write]] = []
    changed: list[Callable[[], int]] = []
    connect = Connection.__init__

    def note(cursor: apsw.Cursor, text: str, values: Any) -> bool:
        if text.startswith("BEGIN IMMEDIATE"):
            transactions.append([])
        elif not cursor.is_readonly and not text.startswith(("COMMIT", "PRAGMA")):
            _add(transactions[-1], text, values)
        return True

    def traced(self: Connection, *args: Any, **options: Any) -> None:
        connect(self, *args, **options)
        self._db.exec_trace = note
        changed.append(lambda: self.changed)

    with directory() as place, patch.object(Connection, "__init__", traced):
        store = open_store(str(place / "detent.db"))
        transactions.clear()
        before = sum(each() for each in changed)
        live(Engine(store), count, batch)
        rows = sum(each() for each in changed) - before
        store.close()
    return Recording([each for each in transactions if each], rows)


def _add(writes: list[Write], text: str, values: Any) -> None:
    """Repetitions of one statement are one call, as the fastest loop would have it."""
    if writes and writes[-1][0] == text:
        writes[-1][1].append(values)
    else:
        writes.append((text, [values]))


def bare(count: int, recording: Recording) -> float:
    """Jobs per second of the same rows alone. Raises if it did not change as many rows."""
    with directory() as place:
        file = str(place / "detent.db")
        open_store(file).close()
        database = apsw.Connection(file)
        for pragma in (*PRAGMAS, "journal_mode = WAL"):
            database.execute(f"PRAGMA {pragma}").fetchall()
        before = database.total_changes()
        begun = time.perf_counter()
        for writes in recording.transactions:
            database.execute("BEGIN IMMEDIATE")
            for text, rows in writes:
                database.executemany(text, rows).fetchall()
            database.execute("COMMIT")
        took = time.perf_counter() - begun
        changed = database.total_changes() - before
        database.close()
    if changed != recording.rows:
        raise AssertionError(f"the bare loop changed {changed} rows, detent {recording.rows}")
    return count / took


class CompleteJobs(NamedTuple):
    """How complete jobs are measured on one store: by detent, and as bare rows of the same run."""

    store: str
    detent: Callable[[int, int], float]
    written: Callable[[int, int], Any]
    bare: Callable[[int, Any], float]

    def benchmarks(self) -> tuple[Benchmark, ...]:
        return tuple(
            Benchmark(
                f"jobs-{self.store.lower().removesuffix('ql')}-{batch}",
                f"Complete jobs on {self.store}, {batch} per transaction.",
                "jobs/s",
                partial(self._contestants, batch),
                (Aim(0.6, "bare rows"),) if batch == 100 else (),
            )
            for batch in (100, 1_000)
        )

    def _contestants(self, batch: int, scale: Scale) -> tuple[Contestant, ...]:
        count = scale.of(JOBS, least=20)
        rows = self.written(count, batch)
        return (
            Contestant("detent", partial(self.detent, count, batch)),
            Contestant("bare rows", partial(self.bare, count, rows)),
        )


BENCHMARKS = CompleteJobs("SQLite", detent, written, bare).benchmarks()
