"""Runs of the simulation that several tests use, also in several processes of pytest-xdist."""

import fcntl
import pickle
from collections.abc import Callable

import pytest

from verification.simulation import Outcome, simulate

Simulated = Callable[[int, int], Outcome]


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Simulated:
    """`simulate`, once for each seed in a session: the outcome is kept in a file.

    A lock on the file makes a second process wait for the first, so that the order in which the
    tests run does not matter.
    """
    directory = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        directory = directory.parent
    directory /= "simulated"
    directory.mkdir(exist_ok=True)

    def outcome(seed: int, steps: int) -> Outcome:
        with (directory / f"{seed}-{steps}").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            stored = file.read()
            if not stored:
                stored = pickle.dumps(simulate(seed, steps))
                file.write(stored)
        found = pickle.loads(stored)
        assert isinstance(found, Outcome)
        return found

    return outcome
