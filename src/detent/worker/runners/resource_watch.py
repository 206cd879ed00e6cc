"""Watches what the processes of a run use, and recognises the limit that has ended a program.

The worker measures all processes of the run together. The kernel's own limits of single processes
(`rlimits`) hold between two measurements; they do not apply to the sum.
"""

import signal
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from detent.app.program_options import ProgramLimits
from detent.kernel.retry import FailureClass
from detent.redaction import redact
from detent.worker.cgroup import RunCgroup
from detent.worker.process_usage import MACHINE, proportional_bytes
from detent.worker.run_outcome import LONGEST_ERROR, Failed
from detent.worker.workspaces import used_bytes

MB = 1_048_576
#: How often processes are measured, and directories; a slow measurement is made less often.
SAMPLE_S, DISK_S = 0.25, 1.0
SLOW = 20
#: How much more CPU time a single process gets, so that the sum of all is seen first.
CPU_MORE_S = (2, 5)
#: Memory that one process may map for data: reserved memory counts here, so it is more.
DATA_FACTOR = 2
#: What programs write when they get no memory.
NO_MEMORY = ("MemoryError", "Cannot allocate memory", "out of memory", "bad_alloc", "OutOfMemory")


class Limit(StrEnum):
    """The limits, by their names in the table `limits`."""

    MEMORY = "memory_mb"
    CPU = "cpu_s"
    PROCESSES = "processes"
    DISK = "disk_mb"


#: Signals of the kernel's own limits. A shell adds 128 to the number.
BY_SIGNAL: Mapping[int, Limit] = {signal.SIGXCPU: Limit.CPU, signal.SIGXFSZ: Limit.DISK}
WORDS = {
    Limit.MEMORY: ("memory", "MB"),
    Limit.CPU: ("CPU time", "s"),
    Limit.PROCESSES: ("processes and threads", ""),
    Limit.DISK: ("disk space", "MB"),
}


class Exceeded(NamedTuple):
    """The limit that a run has exceeded."""

    limit: Limit
    allowed: int
    #: What was measured; None if the kernel has refused more.
    used: int | None = None

    def failed(self, intent: str, code: int | None = None, tail: str = "") -> Failed:
        what, unit = WORDS[self.limit]
        allowed = f"{self.allowed:,} {unit}".strip()
        used = "" if self.used is None else f"{f'{self.used:,} {unit}'.strip()} used, "
        text = (
            f"the run exceeded its limit of {what}: {used}{allowed} allowed. Raise "
            f"limits.{self.limit} of intent {intent} or worker.limit_{self.limit}, or make the "
            "work smaller."
        )
        error = redact(f"{text} The end of its output: {tail}" if tail else text)
        return Failed(FailureClass.RESOURCE_LIMIT, error[:LONGEST_ERROR], code)


def rlimits(limits: ProgramLimits, *, own_users: bool) -> Mapping[str, Sequence[int]]:
    """The limits of single processes, for `program_entry`.

    The kernel counts processes by user. Only a sandbox has users of its own (`own_users`).
    """
    made: dict[str, Sequence[int]] = {}
    if limits.cpu_s:
        made["RLIMIT_CPU"] = [limits.cpu_s + more for more in CPU_MORE_S]
    if limits.memory_mb:
        made["RLIMIT_DATA"] = [limits.memory_mb * MB * DATA_FACTOR] * 2
    if limits.disk_mb:
        made["RLIMIT_FSIZE"] = [limits.disk_mb * MB] * 2
    if limits.processes and own_users:
        made["RLIMIT_NPROC"] = [limits.processes] * 2
    return made


class ResourceWatch:
    """Measures one run from its start to its end."""

    def __init__(
        self,
        limits: ProgramLimits,
        first: int,
        directories: Sequence[Path],
        cgroup: RunCgroup | None = None,
    ) -> None:
        self.limits, self.first, self.directories = limits, first, directories
        #: It knows all processes of the run, if there is one.
        self.cgroup = cgroup
        self._next_s = self._next_disk_s = time.monotonic() + SAMPLE_S

    @property
    def wait_s(self) -> float | None:
        """How long the caller may wait before it measures again; None: nothing is limited."""
        return SAMPLE_S if any(getattr(self.limits, each) for each in Limit) else None

    def measure(self) -> Exceeded | None:
        """Measure what is due; the limit that is exceeded, if one is."""
        now_s = time.monotonic()
        if self.wait_s is None or now_s < self._next_s:
            return None
        found = self._processes()
        self._next_s = _next(now_s, SAMPLE_S)
        if found is None and self.limits.disk_mb and now_s >= self._next_disk_s:
            found = self._disk(self.limits.disk_mb)
            self._next_disk_s = _next(now_s, DISK_S)
        return found

    def _processes(self) -> Exceeded | None:
        limits, cgroup = self.limits, self.cgroup
        used = MACHINE.usage(self.first) if cgroup is None else MACHINE.usage_of(cgroup.pids())
        if limits.processes and used.tasks > limits.processes:
            return Exceeded(Limit.PROCESSES, limits.processes, used.tasks)
        if limits.cpu_s and used.cpu_s > limits.cpu_s:
            return Exceeded(Limit.CPU, limits.cpu_s, round(used.cpu_s))
        most = (limits.memory_mb or 0) * MB
        if most and used.resident > most:
            exact = proportional_bytes(used.pids)
            if exact > most:
                return Exceeded(Limit.MEMORY, limits.memory_mb or 0, exact // MB)
        return None

    def _disk(self, allowed_mb: int, *, reached: bool = False) -> Exceeded | None:
        """With `reached`, a program that has filled the allowed space exactly counts too."""
        most = allowed_mb * MB
        used = sum(used_bytes(each, most) for each in self.directories)
        if used > most or (reached and used >= most):
            return Exceeded(Limit.DISK, allowed_mb, -(-used // MB))
        return None

    def of_exit(self, code: int, tail: str) -> Exceeded | None:
        """The kernel's own limit that has ended the program, if one has."""
        if code == 0:
            return None
        if self.limits.memory_mb and self.cgroup is not None and self.cgroup.ran_out_of_memory():
            return Exceeded(Limit.MEMORY, self.limits.memory_mb)
        limit = BY_SIGNAL.get(-code if code < 0 else code - 128)
        if limit is not None and (allowed := getattr(self.limits, limit)):
            return Exceeded(limit, allowed)
        if self.limits.memory_mb and any(each in tail for each in NO_MEMORY):
            return Exceeded(Limit.MEMORY, self.limits.memory_mb)
        return self._disk(self.limits.disk_mb, reached=True) if self.limits.disk_mb else None


def _next(began_s: float, interval_s: float) -> float:
    """When to measure again: later if this measurement, begun then, took long."""
    now_s = time.monotonic()
    return now_s + max(interval_s, (now_s - began_s) * SLOW)
