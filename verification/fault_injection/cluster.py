"""A cluster of real processes that is kept at its size, whatever happens to its members."""

import threading
from collections import Counter
from collections.abc import Mapping
from random import Random

from verification.fault_injection.environment import Environment, until
from verification.fault_injection.process_supervisor import Child

#: How many of each there are.
SIZE: Mapping[str, int] = {"gateway": 2, "worker": 3, "keeper": 2}


class Cluster:
    """Members by role. Safe to use from any thread."""

    def __init__(self, environment: Environment, size: Mapping[str, int] = SIZE) -> None:
        self.environment, self.size = environment, size
        self.members: dict[str, list[Child]] = {role: [] for role in size}
        self.started: Counter[str] = Counter()
        self._guard = threading.RLock()

    def start(self) -> None:
        """Workers first: they say which intents there are."""
        for role in ("worker", "keeper", "gateway"):
            self.refill(role)
            for child in self.members[role]:
                until(child.ready.exists, f"{child.spec.name} is up", running=[child])

    def refill(self, role: str, armed: str = "") -> None:
        """Replace those that have died; with `armed`, a new one meets a failpoint."""
        with self._guard:
            living = [child for child in self.members[role] if child.poll() is None]
            while len(living) < self.size[role]:
                self.started[role] += 1
                name = f"{role}-{self.started[role]}"
                living.append(self.environment.start(role, name, armed))
                armed = ""
            self.members[role] = living

    def refill_all(self) -> None:
        for role in self.size:
            self.refill(role)

    def pick(self, role: str, rng: Random) -> Child | None:
        """A member that lives and is not stopped."""
        with self._guard:
            able = [
                child
                for child in self.members[role]
                if child.poll() is None and not child.is_stopped()
            ]
            return rng.choice(able) if able else None

    def address(self, rng: Random) -> str | None:
        """The URL of a gateway that is up."""
        with self._guard:
            up = [child for child in self.members["gateway"] if child.ready.exists()]
            return rng.choice(up).ready.read_text() if up else None
