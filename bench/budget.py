"""Where a bare job's time goes on SQLite: processor time by part, and the disk's share of a commit.

Timers stand around the parts of the engine and the store. Each part counts its own time only, not
that of the parts it calls. Processor time of this thread, so that what others do on the machine is
no part of it; only the commit is also taken by the clock on the wall, since it waits for the disk.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from bench import jobs
from bench.harness import Benchmark, Contestant, Scale, parts
from detent.engine import Engine, batch, claims
from detent.engine.ledger import Ledger
from detent.store.open import open_store
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.reading import SqliteReading
from detent.store.sqlite.writing import SqliteWriting

BATCH = 100
#: The parts, and what of the code each one is.
PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "decide": ((batch, "decide"), (claims, "decide")),
    "ledger": ((Ledger, "take"), (Ledger, "changes")),
    "load": ((batch, "load"), (claims, "load")),
    "choose": ((claims, "_choose"),),
    "save": ((SqliteWriting, "save"),),
    "payloads": ((SqliteReading, "payloads"),),
    "SQL": ((Connection, "many"),),
}
REST, SQL, COMMIT, DISK = "rest", "SQL", "commit", "commit on the wall"
ALL = (*PARTS, COMMIT, REST, DISK)
#: The timers themselves take time, so the whole is measured once more without them.
WITHOUT = "all, without timers"


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

    def statement(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """One statement: SQL like any other, or the commit, which waits for the disk."""

        def timed(connection: Connection, text: str, values: Any = ()) -> Any:
            if text != "COMMIT":
                with self.within(SQL):
                    return function(connection, text, values)
            begun = time.perf_counter_ns()
            with self.within(COMMIT):
                found = function(connection, text, values)
            self.spent_ns[DISK] += time.perf_counter_ns() - begun
            return found

        return timed


def spent(count: int) -> dict[str, float]:
    """µs for each job by part: submitted, claimed and completed in batches."""
    timers = Timers()
    with ExitStack() as patches:
        for part, places in PARTS.items():
            for owner, name in places:
                timed = timers.around(part, getattr(owner, name))
                patches.enter_context(patch.object(owner, name, timed))
        statement = timers.statement(Connection.all)
        patches.enter_context(patch.object(Connection, "all", statement))
        lived_ns(count, timers)
    found = {part: timers.spent_ns[part] / 1_000 / count for part in ALL}
    return {**found, WITHOUT: lived_ns(count) / 1_000 / count}


def lived_ns(count: int, timers: Timers | None = None) -> int:
    """Processor time of all jobs; opening and closing the store is no part of it."""
    with jobs.directory() as place:
        store = open_store(str(place / "detent.db"))
        engine = Engine(store)
        if timers is not None:
            timers.start()
        begun = time.thread_time_ns()
        jobs.live(engine, count, BATCH)
        took = time.thread_time_ns() - begun
        if timers is not None:
            timers.switch()
        store.close()
    return took


def contestants(scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(jobs.JOBS, least=20)
    return parts((WITHOUT, *ALL), lambda: spent(count))


BENCHMARKS = (
    Benchmark(
        "budget-sqlite",
        f"What a bare job costs on SQLite by part, {BATCH} in a transaction.",
        "µs/job",
        contestants,
        less_is_better=True,
        rivals=False,
    ),
)
