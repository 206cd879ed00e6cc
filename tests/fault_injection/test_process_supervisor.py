"""A nursery tells of its children, and signals them alone: numbers of processes are used again."""

import signal
from pathlib import Path

from verification.fault_injection.environment import SETTINGS
from verification.fault_injection.process_supervisor import Birth, Child, Nursery


def test_who_asks_twice_is_told_the_same_and_the_dead_get_no_signals(
    nursery: Nursery, where: Path
) -> None:
    data = where / "data"
    data.mkdir()
    settings = {**SETTINGS, "store_data_dir": str(data), "store_url": ""}
    child = nursery.start(Birth("opener", "one", where, settings))
    child.send(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL
    # Another who knows the number but has not heard yet, as a second thread has not.
    other = Child(nursery, child.birth, child.pid)
    other.send(signal.SIGKILL)
    assert other.poll() == -signal.SIGKILL
    assert not other.is_stopped()
