"""What is checked about time: the store's goes on and never back, and no lease is outlived.

The simulation knows how much time has really passed, whatever the wall clock says.
"""

from collections.abc import Iterable
from typing import NamedTuple

from detent.kernel import commands as c
from detent.store.clock import OVERLAP_US, SLEW
from detent.testing.clock import VirtualClock
from verification.simulation.injected_faults import Violation
from verification.simulation.run_records import LEASE_US


class TimeReading(NamedTuple):
    """The store's time in a transaction, the time that has passed, and how often the wall clock
    had jumped by then.
    """

    now: int
    elapsed: int
    jumps: int


class TimeRecord:
    """The store's time as all processes have read it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.jumps = 0
        self._latest = 0

    def jump(self, us: int) -> None:
        """The wall clock is set; no time passes."""
        self.jumps += 1
        self.clock.set(self.clock.now + us)

    def begun(self, now: int, before: TimeReading | None) -> TimeReading:
        """A write transaction has begun; `before` is the last one of the same process."""
        if now < self._latest:
            raise Violation(f"P14: the store's time went back by {self._latest - now} us")
        reading = TimeReading(now, self.clock.elapsed(), self.jumps)
        if before is not None and before.jumps == self.jumps:
            passed, seen = reading.elapsed - before.elapsed, now - before.now
            if seen < passed - 2 * passed // SLEW - OVERLAP_US:
                raise Violation(f"P14: {passed} us have passed, and the store's time went {seen}")
        return reading

    def committed(self, now: int) -> None:
        """Events were written at that time."""
        self._latest = max(self._latest, now)


def own_s(clock: VirtualClock) -> float:
    """What a process reads to see whether its leases are over."""
    return clock.elapsed() / 1_000_000


class Leases:
    """When a worker's leases end: by the clock that it reads, and in truth."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._own: dict[tuple[str, int], float] = {}
        self._true: dict[tuple[str, int], int] = {}

    def begin(self) -> tuple[float, int]:
        """Read before a claim or a renewal: leases last from here."""
        return own_s(self.clock), self.clock.elapsed()

    def given(self, begun: tuple[float, int], grants: Iterable[tuple[str, int]]) -> None:
        for grant in grants:
            self._own[grant] = begun[0] + LEASE_US / 1_000_000
            self._true[grant] = begun[1] + LEASE_US

    def ends_s(self, grant: c.Grant) -> float:
        return self._own[grant[:2]]

    def require(self, grant: c.Grant, what: str) -> None:
        """Nothing may be started under a lease that is over."""
        over = self.clock.elapsed() - self._true[grant[:2]]
        if over >= 0:
            raise Violation(f"P14: {what} of {grant.job_id} {over} us after the end of its lease")
