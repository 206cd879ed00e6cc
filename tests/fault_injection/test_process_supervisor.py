"""A process supervisor reports how its children ended, and signals no other process."""

import signal
from pathlib import Path

import pytest

from verification.fault_injection.environment import SETTINGS, Environment, Failed
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


def test_a_wait_for_a_process_that_has_ended_fails_with_its_log(
    supervisor: ProcessSupervisor, where: Path
) -> None:
    environment = Environment(supervisor, where / "one")
    with pytest.raises(Failed, match=r"one ended with 1, .*no_such_setting.* before one is up"):
        environment.up("opener", "one", no_such_setting=1)
    beside = Environment(supervisor, where / "two")
    beside.start("opener", "killed").send(signal.SIGKILL)
    with pytest.raises(Failed, match=rf"killed ended with -{signal.SIGKILL:d}, .* before never"):
        beside.until(lambda: False, "never")
