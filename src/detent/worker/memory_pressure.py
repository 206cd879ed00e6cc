"""Memory pressure: a worker runs fewer jobs at the same time while the machine is short of memory.

Memory is short if too little of it is available, or if all tasks have waited for it (PSI) for a
part of the last ten seconds. Runs that have started go on. One job can run in any case.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MEMINFO, PRESSURE = Path("/proc/meminfo"), Path("/proc/pressure/memory")
#: How often memory is read: the slots change by one each time.
INTERVAL_S = 1.0
#: Stalls of all tasks, in percent of the last ten seconds, from which memory is short.
MAX_STALLED = 10.0
#: How much more memory than the reserve must be available before the slots are raised.
EASE = 1.5


class Memory(NamedTuple):
    """The state of the machine's memory."""

    available_percent: float
    #: For how much of the last ten seconds all tasks have waited for memory.
    stalled_percent: float = 0.0


def read_memory() -> Memory:
    """Read the state of the memory; kernels without PSI report no stalls."""
    fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    total, available = (int(fields[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    return Memory(available / total * 100, _stalled())


def _stalled() -> float:
    try:
        lines = PRESSURE.read_text().splitlines()
    except OSError:
        return 0.0
    full = next((line for line in lines if line.startswith("full")), "full avg10=0")
    return float(full.split("avg10=")[1].split()[0])


class MemoryPressure:
    """The number of jobs that a worker may hold: all its slots, fewer while memory is short."""

    def __init__(
        self,
        size: int,
        reserve_percent: int,
        read: Callable[[], Memory] = read_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size, self.slots = size, size
        self._reserve, self._read, self._clock = reserve_percent, read, clock
        self._next_s = float("-inf")

    @property
    def is_lowered(self) -> bool:
        return self.slots < self.size

    def check(self, held: int) -> bool:
        """Adapt the slots if it is time for that. True if memory has just become short."""
        now_s = self._clock()
        if not self._reserve or now_s < self._next_s:
            return False
        self._next_s = now_s + INTERVAL_S
        memory, before = self._read(), self.is_lowered
        if memory.available_percent < self._reserve or memory.stalled_percent > MAX_STALLED:
            # Below what runs now, so that the next run that ends is not replaced.
            self.slots = max(1, min(self.slots, held) - 1)
        elif memory.available_percent >= min(self._reserve * EASE, 100.0):
            self.slots = min(self.size, self.slots + 1)
        return self.is_lowered and not before
