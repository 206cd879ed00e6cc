"""The clocks of this machine: wall-clock time, and time since boot, which cannot be set."""

import time

#: A clock that also counts while the machine is suspended: CLOCK_BOOTTIME on Linux, elsewhere
#: CLOCK_MONOTONIC.
SINCE_BOOT: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_s() -> float:
    """Seconds since boot, suspended time included. Never goes back and never jumps."""
    return time.clock_gettime_ns(SINCE_BOOT) / 1_000_000_000


class HostClock:
    """The wall-clock time of this machine in microseconds, and the time since boot."""

    def __call__(self) -> int:
        return time.time_ns() // 1_000

    def elapsed(self) -> int:
        """Microseconds since boot, suspended time included."""
        return time.clock_gettime_ns(SINCE_BOOT) // 1_000
