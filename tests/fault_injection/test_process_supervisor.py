"""A process supervisor reports how its children ended, and signals no other process."""

import signal
from pathlib import Path

from verification.fault_injection.environment import SETTINGS
from verification.fault_injection.process_supervisor import Child, ProcessSpec, ProcessSupervisor


def test_a_second_wait_returns_the_same_and_dead_processes_get_no_signals(
    supervisor: ProcessSupervisor, where: Path
) -> None:
    data = where / "data"
    data.mkdir()
    settings = {**SETTINGS, "store_data_dir": str(data), "store_url": ""}
    child = supervisor.start(ProcessSpec("opener", "one", where, settings))
    child.send(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL
    # Another who knows the number but has not heard yet, as a second thread has not.
    other = Child(supervisor, child.spec, child.pid)
    other.send(signal.SIGKILL)
    assert other.poll() == -signal.SIGKILL
    assert not other.is_stopped()
