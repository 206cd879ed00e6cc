"""What is done to a cluster while it works: every fault by name, drawn from a seed.

A fault happens immediately or begins and ends by itself; `Injector.end` undoes whatever is left.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from detent.failpoints import Action
from verification.fault_injection.cluster import Cluster
from verification.fault_injection.environment import LEASE_MS
from verification.fault_injection.fault_scenes import SCENES, Scene
from verification.fault_injection.process_supervisor import Child

if TYPE_CHECKING:  # a plain installation has no PostgreSQL
    from verification.postgres_server import Server

#: Seconds between two faults, at least and at most.
PAUSE_S = (0.15, 0.8)
#: A database is killed at least so often, if it is killed at all: a hundred times in five minutes.
KILL_EVERY_S = 1.5
#: On a slow machine it stays up for this many times as long as the restart took: else almost no
#: work is done between two kills.
UP_TIMES = 2
#: How long a process is stopped, in leases.
STOPPED_LEASES = (0.5, 4.0)
#: How far the clock of the host jumps; further and what waits would wait for it to come back.
JUMP_S = (-3.0, 3.0)


class Injector:
    """A thread that injects one fault after the other until it is stopped."""

    def __init__(
        self, cluster: Cluster, rng: Random, kinds: Sequence[str], server: "Server | None" = None
    ) -> None:
        self.cluster, self.rng, self.kinds, self.server = cluster, rng, kinds, server
        self.done: Counter[str] = Counter()
        self._first = rng.sample(kinds, len(kinds))
        self._stopped: list[tuple[float, Child]] = []
        self._next_kill_s = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="injected-faults", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """No more faults, and no process stays stopped."""
        self._end.set()
        self._thread.join()
        for _, child in self._stopped:
            child.send(signal.SIGCONT)
        self._stopped.clear()

    def _loop(self) -> None:
        while not self._end.wait(self.rng.uniform(*PAUSE_S)):
            self._let_go_on()
            kind = self._next_kind()
            if FAULTS[kind](self):
                self.done[kind] += 1
            self.cluster.refill_all()

    def _next_kind(self) -> str:
        """Each once, in an order of the seed's, and then any; in between the database's turn."""
        killable = self.server is not None and "kill-database" in self.kinds
        if killable and time.monotonic() >= self._next_kill_s:
            return "kill-database"
        return self._first.pop() if self._first else self.rng.choice(self.kinds)

    def _let_go_on(self) -> None:
        now_s = time.monotonic()
        for until_s, child in list(self._stopped):
            if now_s >= until_s:
                child.send(signal.SIGCONT)
                self._stopped.remove((until_s, child))

    # -- the faults ------------------------------------------------------------------------

    def _signal(self, role: str, number: signal.Signals) -> bool:
        child = self.cluster.pick(role, self.rng)
        if child is None or not child.ready.exists():
            return False
        child.send(number)
        return True

    def kill_worker(self) -> bool:
        return self._signal("worker", signal.SIGKILL)

    def kill_gateway(self) -> bool:
        return self._signal("gateway", signal.SIGKILL)

    def kill_keeper(self) -> bool:
        return self._signal("keeper", signal.SIGKILL)

    def term_worker(self) -> bool:
        return self._signal("worker", signal.SIGTERM)

    def stop_worker(self) -> bool:
        return self._stop("worker")

    def stop_gateway(self) -> bool:
        return self._stop("gateway")

    def stop_keeper(self) -> bool:
        return self._stop("keeper")

    def _stop(self, role: str) -> bool:
        child = self.cluster.pick(role, self.rng)
        if child is None:
            return False
        child.send(signal.SIGSTOP)
        stopped_s = self.rng.uniform(*STOPPED_LEASES) * LEASE_MS / 1_000
        self._stopped.append((time.monotonic() + stopped_s, child))
        return True

    def failpoint(self) -> bool:
        """A member is killed, and the one in its place meets a failpoint of its role."""
        met = [(_process(each), each.point) for each in SCENES]
        role, point = self.rng.choice([each for each in met if each[0] in self.cluster.size])
        action = self.rng.choice([*Action])
        if not self._signal(role, signal.SIGKILL):
            return False
        armed = f"{point}:{action}:{self.rng.randint(1, 6)}"
        self.cluster.refill(role, armed)
        if action is Action.STOP:
            child = self.cluster.members[role][-1]
            self._stopped.append((time.monotonic() + 5 * LEASE_MS / 1_000, child))
        return True

    def kill_database(self) -> bool:
        if self.server is None:
            return False
        begun_s = time.monotonic()
        self.server.kill()
        time.sleep(self.rng.uniform(0.0, 0.5))
        self.server.restart()
        now_s = time.monotonic()
        self._next_kill_s = now_s + max(KILL_EVERY_S, UP_TIMES * (now_s - begun_s))
        return True

    def cut(self) -> bool:
        """Every connection to the database is cut, wherever it is in its work."""
        import psycopg

        with (
            suppress(psycopg.Error),
            psycopg.connect(
                str(self.cluster.environment.settings["store_url"]), autocommit=True
            ) as one,
        ):
            one.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return True
        return False

    def clock(self) -> bool:
        """The clock of the host jumps, for every process of the cluster."""
        file = self.cluster.environment.clock
        offset_us = round(self.rng.uniform(*JUMP_S) * 1_000_000)
        file.write_text(str(offset_us))
        return True


def _process(scene: Scene) -> str:
    """The role of the process that meets the failpoint of a scene."""
    return "gateway" if scene.role == "feed" else scene.role


FAULTS: Mapping[str, Callable[[Injector], bool]] = {
    "kill-worker": Injector.kill_worker,
    "kill-gateway": Injector.kill_gateway,
    "kill-keeper": Injector.kill_keeper,
    "term-worker": Injector.term_worker,
    "stop-worker": Injector.stop_worker,
    "stop-gateway": Injector.stop_gateway,
    "stop-keeper": Injector.stop_keeper,
    "failpoint": Injector.failpoint,
    "clock": Injector.clock,
    "kill-database": Injector.kill_database,
    "cut": Injector.cut,
}
#: A file has no server to kill and no connection to cut; a server's clock is not the host's.
OF_A_FILE = tuple(each for each in FAULTS if each not in ("kill-database", "cut"))
OF_A_SERVER = tuple(each for each in FAULTS if each != "clock")
