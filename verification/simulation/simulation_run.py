"""One run: who takes part, whose turn it is, and how time passes, all from one seed.

Single-threaded. A step is one transaction of one process: the smallest thing between which others
may act. A turn is one actor going on to its next pause; it takes as many steps as its call has
transactions, and others may have turns of their own in between.
"""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

from detent.errors import DetentError
from detent.kernel import provider_health
from detent.store.sqlite import SqliteStore
from detent.store.types import LoggedEvent
from detent.submission import command
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock
from detent.worker import active_run
from verification.memory_directory import directory_in_memory
from verification.mutant import applied
from verification.simulation import time_records
from verification.simulation.auditor import Auditor
from verification.simulation.final_checks import end_in_peace, put_schedule
from verification.simulation.injected_faults import Died, Faults, Violation
from verification.simulation.mutants import MUTANTS, NEED_VARIANTS
from verification.simulation.planned_work import ABILITIES, INTENTS, RESOURCES, STEP_INTENTS
from verification.simulation.provider_records import OPEN_US
from verification.simulation.report import Outcome
from verification.simulation.run_records import LEASE_US
from verification.simulation.time_records import TimeRecord
from verification.simulation.variant_client import VariantClient
from verification.simulation.virtual_client import Client
from verification.simulation.virtual_keeper import Reader, VirtualKeeper
from verification.simulation.virtual_process import Process
from verification.simulation.virtual_worker import Worker

WORKERS, CLIENTS, KEEPERS, READERS = 4, 3, 2, 2
#: How often a process that may die does so at a pause.
DEATH = 0.008
#: How often a turn is taken with a fast clock, and how often the clock is set forward for good.
FAST, FORWARD = 0.002, 0.0008
#: Turns of different processes inside one another: no call stack of a real machine is deeper.
DEEPEST = 3


class Actor(Protocol):
    """An actor with a process; `life` pauses wherever no transaction is open."""

    process: Process
    mortal: bool

    def life(self) -> Generator[None]: ...


class Player:
    """An actor on the stage: where it is in its life, and how it comes back after a death."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._life = actor.life()

    def step(self) -> None:
        try:
            next(self._life)
        except Died:
            self.die()

    def die(self) -> None:
        """Whatever it had in mind is gone; its process is started again."""
        try:
            self._life.close()
        finally:
            self.actor.process.restart()
            self._life = self.actor.life()


class Run:
    """The stage: a database file, a clock, and everybody who uses them."""

    def __init__(self, seed: int, path: Path, *, variants: bool = False) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.faults = Faults(self.rng)
        self.faults.others = self._others
        self.faults.sleep = self._sleep
        self.times = self.faults.times = TimeRecord(self.clock)
        #: Its own, so that jumps of the clock do not change whose turn it is.
        self._jumps = random.Random(f"clock of {seed}")
        self.auditor = Auditor(SqliteStore(path, self.clock))
        self._path = path
        with self.auditor.store.write() as tx:
            tx.put_rows("resources", RESOURCES)
            tx.put_rows("intents", INTENTS)
        self.workers = [
            Worker(self._process(f"w{n}", ABILITIES[n % len(ABILITIES)]), self.rng)
            for n in range(WORKERS)
        ]
        self.clients = [Client(self._process(f"c{n}"), self.rng) for n in range(CLIENTS)]
        if variants:
            self.clients[1:] = [
                VariantClient(self._process(f"v{n}"), self.rng) for n in range(1, CLIENTS)
            ]
        self.keepers = [VirtualKeeper(self._process(f"k{n}")) for n in range(KEEPERS)]
        self.readers = [Reader(self._process(f"r{n}")) for n in range(READERS)]
        put_schedule(self.auditor)
        cast: list[Actor] = [*self.workers, *self.workers, *self.clients, *self.clients]
        cast += [*self.keepers, *self.readers]
        players = {id(actor): Player(actor) for actor in cast}
        #: An actor that is listed twice has its turn twice as often.
        self._players = [players[id(actor)] for actor in cast]
        self._acting: list[Player] = []

    def _process(self, name: str, abilities: tuple[str, ...] = STEP_INTENTS) -> Process:
        known = (self._path, self.clock, self.faults, self.auditor)
        return Process(name, *known, abilities)

    def close(self) -> None:
        for player in set(self._players):
            player.actor.process.close()
        self.auditor.close()

    # -- turns -----------------------------------------------------------------------------

    def go(self, outcome: Outcome) -> None:
        """The steps, of which the outcome tells, and then the end in peace."""
        try:
            while self.faults.steps < outcome.steps:
                self.turn()
        finally:
            self.auditor.counts["steps"] = self.faults.steps
            self.auditor.counts.update(self.auditor.plans.counts)
            self.auditor.counts.update(self.auditor.limits.counts)
            outcome.counts.update(self.auditor.counts)
        self.faults.on = False
        end_in_peace(self.auditor, self.clock, self.workers, self.keepers, self.readers)
        audit(self.auditor.store)

    def turn(self) -> None:
        self.auditor.counts["turns"] += 1
        self._let_time_pass()
        player = self.rng.choice([each for each in self._players if each not in self._acting])
        self._acting.append(player)
        try:
            if player.actor.mortal and self.rng.random() < DEATH:
                player.die()
            elif self.faults.on and self._jumps.random() < FAST:
                self._step_with_a_fast_clock(player)
            else:
                player.step()
        finally:
            self._acting.remove(player)

    def _step_with_a_fast_clock(self, player: Player) -> None:
        """The host's clock is fast for one turn, and is then corrected."""
        self.auditor.counts["turns with a fast clock"] += 1
        ahead = self._jumps.randrange(LEASE_US * 3)
        self.times.jump(ahead)
        try:
            player.step()
        finally:
            self.times.jump(-ahead)

    def _others(self) -> None:
        if len(self._acting) < DEEPEST:
            self.turn()

    def _sleep(self) -> None:
        self.auditor.counts["stopped past a lease"] += 1
        self.clock.advance(us=LEASE_US + 1)

    def _let_time_pass(self) -> None:
        """Mostly a little, sometimes longer than a lease, and now and then the clock goes back."""
        drawn = self.rng.random()
        if drawn < 0.85:
            self.clock.advance(us=self.rng.randrange(60_000))
        elif drawn < 0.982:
            self.clock.advance(us=self.rng.randrange(1_000_000))
        elif drawn < 0.996:
            self.clock.advance(us=self.rng.randrange(LEASE_US * 3 // 2))
        else:
            self.auditor.counts["clock went back"] += 1
            self.times.jump(-self.rng.randrange(LEASE_US * 2))
        if self._jumps.random() < FORWARD:
            self.auditor.counts["clock went forward"] += 1
            self.times.jump(self._jumps.randrange(LEASE_US * 2))


@contextmanager
def _ids_in_order() -> Iterator[None]:
    """What schedules submit has ids that follow from the run alone."""
    serial = count(1)
    with patch.object(command, "new_id", lambda: f"s-{next(serial)}"):
        yield


def simulate(
    seed: int,
    steps: int,
    mutant: str | None = None,
    keep_log: Callable[[Sequence[LoggedEvent]], None] | None = None,
    *,
    variants: bool = False,
) -> Outcome:
    """Run one seed; a broken promise is in the outcome, with what was counted until then.

    `keep_log` is called with the whole log at the end. With `variants`, one more client submits
    tasks with variants and chooses between them.
    """
    variants = variants or mutant in NEED_VARIANTS
    outcome = Outcome(seed, steps, mutant=mutant, variants=variants)
    with (
        nullcontext() if mutant is None else applied(MUTANTS[mutant]),
        patch.object(provider_health, "OPEN_US", OPEN_US),
        _ids_in_order(),
        directory_in_memory("detent-simulation-") as directory,
    ):
        run = Run(seed, directory / "simulation.db", variants=variants)
        own_clock = patch.object(active_run, "since_boot_s", lambda: time_records.own_s(run.clock))
        own_clock.start()
        try:
            run.go(outcome)
        except (Violation, AssertionError) as found:
            outcome.failure = str(found)
        except DetentError as error:
            outcome.failure = f"an unexpected exception was raised: {error!r}"
        finally:
            own_clock.stop()
            if keep_log is not None:
                keep_log(run.auditor.log)
            outcome.digest = sha256(repr(run.auditor.log).encode()).hexdigest()
            run.close()
    return outcome
