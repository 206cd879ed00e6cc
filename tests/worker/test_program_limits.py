"""Limits of programs: exceeded by real programs in real runs; the worker goes on."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.app.configured_intents import Configured, from_row
from detent.app.failures import JobFailed
from detent.app.program_options import ProgramLimits, ProgramOptions
from detent.errors import Invalid
from detent.operations.context import Core
from detent.settings import Settings
from detent.worker.process_usage import MACHINE
from detent.worker.runners import resource_watch
from detent.worker.runners.process_group import Group
from detent.worker.runners.resource_watch import Limit, ResourceWatch, rlimits
from tests.worker.waiting import DEADLINE_S, installation, working

#: More than one process has it; no process of its own exceeds a limit of the kernel.
MEMORY = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        kept = bytearray(os.urandom(1)) * 60_000_000
        time.sleep(600)
time.sleep(600)
"""
CPU = """
import os
for _ in range(2):
    os.fork()
while True:
    pass
"""
#: At most 256 processes, so that a broken limit does not take the machine; half leave the session.
FORK_BOMB = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        os.setsid()
time.sleep(600)
"""
DISK = """
import itertools, time
for number in itertools.count():
    with open(f"{number}.bin", "wb") as file:
        file.write(bytes(1_000_000))
    if number > 200:
        time.sleep(600)
"""
FILE = "with open('big.bin', 'wb') as file:\n  while True: file.write(bytes(65_536)); file.flush()"
ALLOCATE = "kept = bytearray(b'x' * 100_000_000 * 10)"
#: By name: the program, its limits, and what the error says.
HOGS = {
    "memory": (MEMORY, {"memory_mb": 100}, r"limit of memory: \d+ MB used, 100 MB allowed"),
    "allocate": (ALLOCATE, {"memory_mb": 100}, r"limit of memory: 100 MB allowed.*MemoryError"),
    "cpu": (CPU, {"cpu_s": 1}, r"limit of CPU time: \d+ s used, 1 s allowed"),
    "processes": (FORK_BOMB, {"processes": 60}, r"processes and threads: [\d,]+ used, 60 allowed"),
    "disk": (DISK, {"disk_mb": 20}, r"limit of disk space: \d+ MB used, 20 MB allowed"),
    "file": (FILE, {"disk_mb": 5}, r"limit of disk space: .*5 MB allowed"),
}


@pytest.fixture(params=["none", "bwrap"])
def core(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Core]:
    with installation(tmp_path, worker_grace_ms=300, worker_sandbox=request.param) as made:
        yield made


def test_a_run_that_exceeds_a_limit_ends_with_its_class(core: Core) -> None:
    app = App()
    for name, (code, limits, _) in HOGS.items():
        app.command(name, [sys.executable, "-c", code], limits=limits)
    app.command("after", [sys.executable, "-c", "print('fine')"])
    with working(core, app, concurrency=3):
        handles = {name: app.submit(name) for name in HOGS}
        for name, (_, limits, error) in HOGS.items():
            with pytest.raises(JobFailed, match=f"(?s){error}") as failed:
                handles[name].result(timeout=DEADLINE_S)
            assert failed.value.error_class == "resource_limit", name
            assert f"Raise limits.{next(iter(limits))} of intent {name}" in str(failed.value)
            assert Group(f"{handles[name].job_id}-r1").members() == [], name
        handle = app.submit("after")
        handle.result(timeout=DEADLINE_S)
        assert handle.state() == "completed", "the worker goes on"


def test_limits_of_an_intent_override_those_of_the_settings() -> None:
    settings = Settings(worker_limit_memory_mb=512, worker_limit_cpu_s=60)
    found = ProgramLimits(memory_mb=2_048, cpu_s=0).over(settings)
    assert found == ProgramLimits(2_048, None, settings.worker_limit_processes, None)


def test_the_kernel_holds_the_limits_of_single_processes() -> None:
    """Processes are counted by user, so only a sandbox has a limit of them."""
    limits = ProgramLimits(memory_mb=100, cpu_s=7, processes=50, disk_mb=3)
    mb = 1_048_576
    plain = {
        "RLIMIT_CPU": [9, 12],
        "RLIMIT_DATA": [200 * mb, 200 * mb],
        "RLIMIT_FSIZE": [3 * mb, 3 * mb],
    }
    assert rlimits(limits, own_users=False) == plain
    assert rlimits(limits, own_users=True) == {**plain, "RLIMIT_NPROC": [50, 50]}
    assert rlimits(ProgramLimits(), own_users=True) == {}


@pytest.mark.parametrize(
    ("code", "tail", "limit"),
    [
        (-24, "", Limit.CPU),
        (152, "", Limit.CPU),
        (-25, "", Limit.DISK),
        (1, "MemoryError", Limit.MEMORY),
        (1, "KeyError", None),
        (0, "MemoryError", None),
    ],
)
def test_an_exit_shows_which_limit_of_the_kernel_ended_it(
    tmp_path: Path, code: int, tail: str, limit: Limit | None
) -> None:
    watch = ResourceWatch(ProgramLimits(100, 1, 50, 3), os.getpid(), [tmp_path])
    found = watch.of_exit(code, tail)
    assert (found and found.limit) == limit


def test_without_limits_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_watch, "MACHINE", None)
    watch = ResourceWatch(ProgramLimits(), os.getpid(), [])
    assert (watch.wait_s, watch.measure()) == (None, None)


def test_the_usage_of_a_session_contains_this_process() -> None:
    found = MACHINE.usage(os.getsid(0))
    assert os.getpid() in found.pids
    assert found.resident > 1_000_000
    assert found.tasks >= len(found.pids)


@pytest.mark.parametrize("limits", [{"memory_mb": -1}, {"ram": 1}, {"cpu_s": "1"}, [1]])
def test_a_limit_that_is_none_is_refused_at_registration(limits: object) -> None:
    with pytest.raises(Invalid, match="limits"):
        App().command("hog", ["true"], limits=limits)


def test_a_configuration_file_has_the_options_of_programs() -> None:
    own = {"hosts": ["pypi.org"], "limits": {"cpu_s": 60}, "setup": [["make"]], "caches": ["/srv"]}
    row = {**own, "cleanup": [["make", "clean"]], "image": "localhost/tools:1"}
    for kind in ({"command": ["pytest"]}, {"agent": "claude"}):
        found = from_row("work", {**kind, **row}, {})
        assert isinstance(found, Configured)
        assert found.handler.program == ProgramOptions(
            hosts=("pypi.org",),
            limits=ProgramLimits(cpu_s=60),
            setup=(("make",),),
            cleanup=(("make", "clean"),),
            caches=("/srv",),
            image="localhost/tools:1",
        )
