"""The time since the boot of this machine, which cannot be set."""

import time

#: A clock that also counts while the machine is suspended: CLOCK_BOOTTIME on Linux, elsewhere
#: CLOCK_MONOTONIC.
SINCE_BOOT: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_s() -> float:
    """Seconds since boot, suspended time included. Never goes back and never jumps."""
    return time.clock_gettime(SINCE_BOOT)
