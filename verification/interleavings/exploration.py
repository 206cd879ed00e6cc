"""Runs scenarios under many schedules on a real PostgreSQL, and audits the result.

A seed gives the scenario, the number of writers and the schedule. A reader follows the log after
some of the steps; at the end it must have seen all of it, and every stream in order.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import psycopg

from detent import feed
from detent.engine import Engine
from detent.ids import new_id
from detent.integrity.verify import verify
from detent.store import commit_body
from detent.store.postgres import PostgresStore
from detent.store.types import LoggedEvent
from verification.interleavings.scenarios import NEVER_WAIT, ROW_LOCKS, SCENARIOS, Hand, Scene
from verification.interleavings.scheduler import Scheduler, Writer
from verification.postgres_proxy import Proxy, proxy_to
from verification.postgres_server import HOST, Server

#: The minimum number of different interleavings among a hundred runs.
FLOOR = 80
#: The number of runs on one database, which is verified after them.
RUNS_OF_A_DATABASE = 10
WRITERS = (2, 3)
#: The share of steps after which the reader continues, for different runs.
FOLLOWED = (0.02, 0.1, 0.9)
#: More than the log of a run.
MANY = 1 << 20


class Clock:
    """One for all runs: a store never reads a time before that of the last event."""

    def __init__(self) -> None:
        self._ahead_us = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000 + self._ahead_us

    def elapsed(self) -> int:
        return time.monotonic_ns() // 1_000 + self._ahead_us

    def advance(self, by_us: int) -> None:
        self._ahead_us += by_us


@dataclass(slots=True)
class Exploration:
    """What was tried and what was wrong."""

    runs: int = 0
    statements: int = 0
    waits: int = 0
    interleavings: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def line(self) -> str:
        return (
            f"{len(self.interleavings)} distinct interleavings in {self.runs} runs, "
            f"{self.statements:,} statements, {self.waits} waits for a lock"
        )

    def shortfalls(self) -> list[str]:
        """A message if there were too few distinct interleavings or no waits."""
        few = len(self.interleavings) * 100 < self.runs * FLOOR
        return [f"too few distinct interleavings: {self.line()}"] if few or not self.waits else []


def explore(
    server: Server,
    runs: int,
    seed: int = 1,
    scenarios: Sequence[str] = tuple(SCENARIOS),
    say: Callable[[str], None] = lambda _text: None,
) -> Exploration:
    """Stops after the first database in which something is wrong."""
    found = Exploration()
    seeds = range(seed, seed + runs)
    for first in range(0, runs, RUNS_OF_A_DATABASE):
        with _database(server) as url, proxy_to(HOST, server.port) as proxy:
            batch = seeds[first : first + RUNS_OF_A_DATABASE]
            for each in batch:
                _run(proxy, url, each, scenarios[each % len(scenarios)], found)
            _verify(url, found, f"seeds {batch[0]} to {batch[-1]}")
        say(found.line())
        if found.problems:
            return found
    found.problems += found.shortfalls()
    return found


@contextmanager
def _database(server: Server) -> Iterator[str]:
    name = f"interleavings_{new_id()}"
    yield server.create_database(name)
    server.drop_database(name)


def _verify(url: str, found: Exploration, which: str) -> None:
    store = PostgresStore(url)
    try:
        differences = verify(store).differences
        deadlocks = _deadlocks(url)
    finally:
        store.close()
    found.problems += [f"P8: {which}: {each}" for each in differences]
    found.problems += [f"{which}: {deadlocks} deadlocks"] if deadlocks else []


def _deadlocks(url: str) -> int:
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(url) as connection:
        (count,) = connection.execute(query).fetchone() or (0,)
    return int(count)


def _run(proxy: Proxy, url: str, seed: int, scenario: str, found: Exploration) -> None:
    """One scenario under one schedule."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        beside = stack.enter_context(psycopg.connect(url, autocommit=True))
        direct = PostgresStore(f"{url}?notifier=no", found.clock)
        stack.callback(direct.close)
        scene = _scene(stack, proxy, url, found.clock, chance.choice(WRITERS))
        script = SCENARIOS[scenario](scene)
        writers = [
            Writer(hand.name, work) for hand, work in zip(scene.hands, script.works, strict=True)
        ]
        scheduler = Scheduler(proxy, beside, chance, writers)
        hands = {hand.name: hand for hand in scene.hands}
        scheduler.on_wait = lambda writer: _waited(scene, hands[writer.name], writer, found)
        tail = Tail(direct, beside)
        pauses = random.Random(seed + 1)
        followed = pauses.choice(FOLLOWED)
        scheduler.on_step = lambda: tail.follow() if pauses.random() < followed else None
        try:
            scheduler.run()
            script.check()
        except TimeoutError as error:
            scene.problems.append(str(error))
        scene.problems += [*scheduler.problems, *tail.missed()]
    found.runs += 1
    found.statements += len(scheduler.schedule)
    found.interleavings.add((scenario, tuple(scheduler.schedule)))
    found.problems += [f"{scenario}, seed {seed}: {each}" for each in scene.problems]


def _waited(scene: Scene, hand: Hand, writer: Writer, found: Exploration) -> None:
    found.waits += 1
    if hand.operation in NEVER_WAIT and writer.waits_for in ROW_LOCKS:
        scene.problems.append(f"a {hand.operation} waited for a row that another writer changes")


def _scene(stack: ExitStack, proxy: Proxy, url: str, clock: Clock, writers: int) -> Scene:
    """Stores of their own through the proxy, on one clock that the scene moves."""

    def opened(url: str) -> Engine:
        store = PostgresStore(url, clock)
        stack.callback(store.close)
        return Engine(store)

    intent = f"i-{new_id()}"
    through = f"{proxy.url(url)}&notifier=no"
    hands = [
        Hand(opened(f"{through}&application_name=w{number}"), f"w{number}", intent)
        for number in range(writers)
    ]
    return Scene(hands, Hand(opened(f"{url}?notifier=no"), "direct", intent), clock.advance)


class Tail:
    """A reader that continues from its cursor after every step, and what it has not seen."""

    def __init__(self, store: PostgresStore, connection: psycopg.Connection) -> None:
        self._store, self._connection = store, connection
        self._seen = self._after(0)

    def _after(self, cursor: int) -> list[LoggedEvent]:
        return [*feed.read(self._store, cursor, MANY)]

    def follow(self) -> None:
        self._seen += self._after(self._seen[-1].position if self._seen else 0)

    def missed(self) -> list[str]:
        self.follow()
        bodies = self._connection.execute("SELECT body FROM commits").fetchall()
        log = [event for (body,) in bodies for event in commit_body.decode(body, 0, 0)]
        missed = {_place(each) for each in log} - {_place(each) for each in self._seen}
        problems = [f"P7: a reader missed the events {sorted(missed)}"] if missed else []
        places = [_place(each) for each in self._seen]
        if len(places) != len({*places}):
            problems.append("P7: a reader has seen an event twice")
        return [*problems, *_disordered(self._seen)]


def _place(event: LoggedEvent) -> tuple[str, int]:
    return event.stream, event.version


def _disordered(events: Sequence[LoggedEvent]) -> Iterator[str]:
    """Streams whose versions do not follow each other."""
    versions: dict[str, int] = {}
    for event in events:
        wanted = versions.get(event.stream, 0) + 1
        versions[event.stream] = event.version
        if event.version != wanted:
            yield f"P7: version {event.version} of {event.stream} instead of {wanted}"
