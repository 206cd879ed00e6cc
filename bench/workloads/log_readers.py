"""Readers of the whole log: the feed from the beginning, and `detent verify`.

The jobs were written in batches of 500. The figures are events per second of CPU time of this
process.
"""

import time
from collections.abc import Callable
from functools import partial

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.installations import STORES
from bench.workloads.jobs import directory, live
from bench.workloads.jobs_postgres import database
from detent import feed
from detent.engine import Engine
from detent.integrity.verify import verify
from detent.store.port import Store
from detent.store.store_url import open_store

JOBS = 20_000
FEWEST_JOBS = 100
BATCH = 500


def catching_up(store: Store) -> int:
    """The number of events that a reader gets from the beginning of the log."""
    counted: list[int] = []
    tail = feed.Tail(store, lambda batch: counted.append(len(batch)), 0)
    while tail.step():
        pass
    return sum(counted)


def verifying(store: Store) -> int:
    """The number of events that were verified."""
    verdict = verify(store)
    assert verdict.clean, verdict.differences[:3]
    return verdict.events


def rate(reads: Callable[[Store], int], name: str, count: int) -> float:
    with directory() as place:
        store = open_store(database() if name == "postgres" else str(place / "detent.db"))
        live(Engine(store), count, BATCH)
        begun = time.process_time()
        events = reads(store)
        took = time.process_time() - begun
        store.close()
    return events / took


def _contestants(reads: Callable[[Store], int], scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(JOBS, FEWEST_JOBS)
    return tuple(Contestant(name, partial(rate, reads, name, count)) for name in STORES)


BENCHMARKS = (
    Benchmark(
        "feed.catch-up",
        "Events that a reader of the feed gets from the beginning of the log.",
        "events/s",
        partial(_contestants, catching_up),
        tuple(Aim(300_000, who=name) for name in STORES),
        rivals=False,
    ),
    Benchmark(
        "verify",
        "Events that `detent verify` checks: hash chain, rows and invariants.",
        "events/s",
        partial(_contestants, verifying),
        tuple(Aim(150_000, who=name) for name in STORES),
        rivals=False,
    ),
)
