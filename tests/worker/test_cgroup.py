"""Cgroups of runs: a real hierarchy of version 2, which every kernel that the tests use has.

The controllers `memory` and `pids` may belong to version 1 on the machine, so the limits that are
written for the kernel are checked in a directory that looks like a cgroup. That the kernel enforces
them is not tested.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from detent.app.program_options import ProgramLimits
from detent.errors import Misconfigured
from detent.settings import Settings
from detent.worker import cgroup
from detent.worker.cgroup import RunCgroup
from detent.worker.runners.process_group import Group, Records
from tests.worker.waiting import DEADLINE_S, installation, until, working


@pytest.fixture
def parent() -> Iterator[Path]:
    """A cgroup below that of the tests themselves, without processes."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    root = Path(next(fields[1] for fields in mounts if fields[2] == "cgroup2"))
    own = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    made = root / own / f"detent-tests-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


#: They leave the session and lose the mark of the run: only the cgroup knows them.
ESCAPE = """
import os, sys, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os._exit(0)
    os.wait()
time.sleep(600 if sys.argv[1] == "stay" else 0)
"""


def sleeping() -> set[int]:
    """Processes that the program above has left."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if (
                path.read_bytes() == b"sleep\x00600\x00"
                and not path.with_name("environ").read_bytes()
            ):
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


def test_no_process_leaves_the_cgroup_of_its_run(parent: Path, tmp_path: Path) -> None:
    app, before = App(), sleeping()
    limits = {"processes": 15}
    app.command("many", [sys.executable, "-c", ESCAPE, "stay"], limits=limits)
    app.command("daemon", [sys.executable, "-c", ESCAPE, "end"])
    settings = {"worker_grace_ms": 200, "worker_cgroup": str(parent)}
    with installation(tmp_path, **settings) as core, working(core, app):  # type: ignore[arg-type]
        with pytest.raises(JobFailed, match=r"processes and threads: \d+ used, 15") as failed:
            app.submit("many").result(timeout=DEADLINE_S)
        app.submit("daemon").result(timeout=DEADLINE_S)
    assert failed.value.error_class == "resource_limit"
    assert sleeping() <= before
    assert [each.name for each in parent.iterdir() if each.is_dir()] == []


def test_limits_are_written_for_the_controllers_that_are_there(tmp_path: Path) -> None:
    made = RunCgroup(tmp_path, "run-1")
    made.path.mkdir()
    for name in ("memory.max", "memory.swap.max", "memory.events"):
        (made.path / name).write_text("")
    made.create(ProgramLimits(memory_mb=64, processes=10))
    found = {each.name: each.read_text() for each in made.path.iterdir()}
    assert found == {"memory.max": "67108864", "memory.swap.max": "0", "memory.events": ""}
    assert not made.ran_out_of_memory()
    (made.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    assert made.ran_out_of_memory()


def test_a_directory_that_is_no_cgroup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"no cgroup can be made there: .*cgroup\.procs"):
        cgroup.check(Settings(worker_cgroup=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_the_processes_of_a_lost_worker_are_ended_with_their_cgroup(
    parent: Path, tmp_path: Path
) -> None:
    """Though nothing but the cgroup shows to which run the process belongs."""
    lost = RunCgroup(parent, "lost-r1")
    lost.create(ProgramLimits())
    with subprocess.Popen(["sleep", "600"], env={}, start_new_session=True) as process:
        lost.procs.write_text(str(process.pid))
        Records(tmp_path).write(Group("lost-r1"))
        record = tmp_path / "processes" / "lost-r1.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "worker_started": 1}))
        with (
            installation(tmp_path, worker_cgroup=str(parent)) as core,
            working(core, App()),
        ):
            until(lambda: not lost.path.exists())
        assert process.wait() == -signal.SIGKILL
