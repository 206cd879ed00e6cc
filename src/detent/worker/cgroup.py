"""Control groups (version 2): one for each run, in the directory that `worker.cgroup` names.

A process cannot leave the cgroup of its run, whatever it forks, and all of them are killed in one
step. If the directory has the controllers `memory` and `pids`, the kernel also enforces the limits.
"""

import time
from contextlib import suppress
from pathlib import Path

from detent.app.program_options import ProgramLimits
from detent.errors import Misconfigured
from detent.settings import Settings

PREFIX = "detent-"
PROCS, KILL, SUBTREE = "cgroup.procs", "cgroup.kill", "cgroup.subtree_control"
CONTROLLERS = ("memory", "pids")
MB = 1_048_576
#: How long killed processes may take to leave a cgroup.
REMOVE_S, POLL_S = 5.0, 0.01


def parent_of(settings: Settings) -> Path | None:
    """The directory of the runs' cgroups; None if none is configured."""
    return Path(settings.worker_cgroup) if settings.worker_cgroup else None


def check(settings: Settings) -> None:
    """Enable the controllers, and raise if no cgroup can be made, so that no worker starts."""
    parent = parent_of(settings)
    if parent is None:
        return
    probe = RunCgroup(parent, "probe")
    try:
        if not (parent / PROCS).exists():
            raise FileNotFoundError(f"there is no file {PROCS} in it")
        for each in CONTROLLERS:
            with suppress(OSError):  # not all of them are available everywhere
                (parent / SUBTREE).write_text(f"+{each}")
        probe.create(ProgramLimits())
        probe.remove()
    except OSError as error:
        raise Misconfigured(
            f"worker.cgroup is {str(parent)!r}, and no cgroup can be made there: {error}.",
            setting="worker.cgroup",
            hint="Name a directory of cgroups v2 that this user may write to, without processes "
            "of its own (systemd: Delegate=yes), or leave it empty.",
        ) from None


class RunCgroup:
    """The cgroup of one run."""

    def __init__(self, parent: Path, run_id: str) -> None:
        self.path = parent / f"{PREFIX}{run_id.replace('/', '-')}"

    @property
    def procs(self) -> Path:
        """The file that a process writes itself into."""
        return self.path / PROCS

    def create(self, limits: ProgramLimits) -> None:
        """Make it, with the limits for which the kernel has a controller here."""
        self.path.mkdir(exist_ok=True)
        if limits.memory_mb:
            self._set("memory.max", limits.memory_mb * MB)
            self._set("memory.swap.max", 0)
        if limits.processes:
            # The worker measures the limit itself; this one stops what forks faster.
            self._set("pids.max", limits.processes * 2)

    def _set(self, name: str, value: int) -> None:
        if (self.path / name).exists():
            (self.path / name).write_text(str(value))

    def pids(self) -> tuple[int, ...]:
        """All processes of the run, whatever they have left."""
        with suppress(OSError):
            return tuple(map(int, self.procs.read_text().split()))
        return ()

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed a process because of the limit of memory."""
        with suppress(OSError):
            events = (self.path / "memory.events").read_text().split()
            return int(dict(zip(events[::2], events[1::2], strict=True)).get("oom_kill", 0)) > 0
        return False

    def kill(self) -> None:
        """Kill all processes in one step."""
        with suppress(OSError):
            (self.path / KILL).write_text("1")

    def remove(self) -> None:
        """Kill what is left, and remove the cgroup when it is empty."""
        until_s = time.monotonic() + REMOVE_S
        while self.path.is_dir():
            try:
                self.path.rmdir()
            except OSError:
                if time.monotonic() > until_s:
                    return
                self.kill()
                time.sleep(POLL_S)
