"""Where a bare job's time goes: processor time by part, and what is spent waiting, on both stores.

Timers are put around the parts of the engine and the store. Each part counts its own time only, not
that of the parts it calls. It is the processor time of this thread, so that other programs on the
machine do not count; only commits on SQLite and round trips to PostgreSQL are also measured by the
wall clock, since they wait for the disk and for the server.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from bench.harness import Benchmark, Contestant, Scale, parts
from bench.workloads import jobs
from bench.workloads.installations import STORES, installation
from detent.engine import batch, claims
from detent.store.postgres.connection import Connection as PostgresConnection
from detent.store.postgres.set_rows import PostgresJobSets
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.set_rows import SqliteJobSets

BATCH = 100
REST, SQL, COMMIT, DISK = "rest", "SQL", "commit", "commit, wall clock"
TRIPS, SERVER = "round trips", "round trips, wall clock"
#: The timers themselves take time, so the whole is measured once more without them.
WITHOUT = "all, without timers"

#: Functions by the part that they are: whose, and what they are called.
Places = dict[str, tuple[tuple[Any, str], ...]]
ENGINE: Places = {
    "plan": ((batch, "SetPlan"),),
    "choose": ((claims, "_choose"),),
}


class Store(NamedTuple):
    """The parts of a store, its function that waits, and the names of what is spent there."""

    places: Places
    waiting: tuple[Any, str]
    spent: tuple[str, ...]


KINDS = {
    "sqlite": Store(
        {
            "sets": tuple((SqliteJobSets, name) for name in ("insert", "claim", "end")),
            SQL: ((Connection, "many"),),
        },
        (Connection, "all"),
        (COMMIT, REST, DISK),
    ),
    "postgres": Store(
        {
            "sets": tuple((PostgresJobSets, name) for name in ("insert", "claim", "end", "take")),
        },
        (PostgresConnection, "run"),
        (TRIPS, REST, SERVER),
    ),
}


class Timers:
    """Time by part. While a part calls another, the time is the other's."""

    def __init__(self) -> None:
        self.spent_ns: Counter[str] = Counter()
        self._parts = [REST]
        self._since = 0

    def start(self) -> None:
        """What was before does not count."""
        self.spent_ns.clear()
        self._since = time.thread_time_ns()

    def switch(self) -> None:
        """What has passed belongs to the part that runs now."""
        now = time.thread_time_ns()
        self.spent_ns[self._parts[-1]] += now - self._since
        self._since = now

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        self.switch()
        self._parts.append(part)
        try:
            yield
        finally:
            self.switch()
            self._parts.pop()

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.within(part):
                return function(*args, **kwargs)

        return timed

    def walled(self, part: str, wall: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Timed by both clocks: what is spent on the wall is mostly waiting."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter_ns()
            with self.within(part):
                found = function(*args, **kwargs)
            self.spent_ns[wall] += time.perf_counter_ns() - begun
            return found

        return timed

    def statement(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """One statement on SQLite: SQL like any other, or the commit, which waits for the disk."""
        commit, other = self.walled(COMMIT, DISK, function), self.around(SQL, function)

        def timed(connection: Connection, text: str, values: Any = ()) -> Any:
            return (commit if text == "COMMIT" else other)(connection, text, values)

        return timed


def names(kind: str) -> tuple[str, ...]:
    store = KINDS[kind]
    return (WITHOUT, *ENGINE, *store.places, *store.spent)


def spent(kind: str, count: int) -> dict[str, float]:
    """µs for each job by part: submitted, claimed and completed in batches."""
    timers, store = Timers(), KINDS[kind]
    with ExitStack() as patches:
        for part, places in {**ENGINE, **store.places}.items():
            for owner, name in places:
                timed = timers.around(part, getattr(owner, name))
                patches.enter_context(patch.object(owner, name, timed))
        owner, name = store.waiting
        waits = getattr(owner, name)
        sqlite = kind == "sqlite"
        timed = timers.statement(waits) if sqlite else timers.walled(TRIPS, SERVER, waits)
        patches.enter_context(patch.object(owner, name, timed))
        lived_ns(kind, count, timers)
    found = {part: timers.spent_ns[part] / 1_000 / count for part in names(kind)}
    return {**found, WITHOUT: lived_ns(kind, count) / 1_000 / count}


def lived_ns(kind: str, count: int, timers: Timers | None = None) -> int:
    """Processor time of all jobs; opening and closing the store is no part of it."""
    with installation(kind) as core:
        if timers is not None:
            timers.start()
        begun = time.thread_time_ns()
        jobs.live(core.engine, count, BATCH)
        took = time.thread_time_ns() - begun
        if timers is not None:
            timers.switch()
    return took


def contestants(kind: str, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(jobs.JOBS, least=20)
    return parts(names(kind), partial(spent, kind, count))


BENCHMARKS = tuple(
    Benchmark(
        f"budget-{kind}",
        f"CPU time of a bare job on {kind} by component, {BATCH} per transaction.",
        "µs/job",
        partial(contestants, kind),
        less_is_better=True,
        rivals=False,
    )
    for kind in STORES
)
