"""The clock of a store: follows the wall clock and never goes back.

The store's time is never before a time that was written. While the wall clock is behind it, the
store's time advances one percent slower than real time until the wall clock has caught up. All
processes share the offset, because each reads the times that the others have written.
"""

import time
from threading import Lock
from typing import NamedTuple, Protocol

from detent.boot_time import SINCE_BOOT
from detent.store.codec import from_json, to_json

#: The row of `system_state` with the latest time that was written, and the last reset.
CLOCK = "clock"
#: While it is ahead, the store's time is slower than real time by one part in this many.
SLEW = 100
#: A smaller backward step of the wall clock comes from two concurrent transactions.
OVERLAP_US = 1_000_000
#: A write without an event renews the row only if it is older than this.
COARSE_US = 1_000_000


class TimeSource(Protocol):
    """A wall clock, which may jump, and a clock that measures how much time has passed."""

    def __call__(self) -> int:
        """Microseconds since the epoch."""

    def elapsed(self) -> int:
        """Microseconds since some moment; never goes back, never jumps."""


class HostClock:
    """The wall-clock time of this machine in microseconds, and the time since boot."""

    def __call__(self) -> int:
        return time.time_ns() // 1_000

    def elapsed(self) -> int:
        """Microseconds since boot, suspended time included."""
        return time.clock_gettime_ns(SINCE_BOOT) // 1_000


class Written(NamedTuple):
    """The time in the database: the latest that was written, and the number of resets.

    Only the times of events after `position` count. `row` is the JSON text of the row.
    """

    at: int = 0
    position: int = 0
    resets: int = 0
    row: str | None = None


class Moment(NamedTuple):
    """The store's time, how far it is ahead of the wall clock, and the time in the database."""

    now: int
    ahead: int
    written: Written


class Bound(NamedTuple):
    """What a process knows of the time before it reads the database.

    `wall` is the wall clock if it is not that of the database server. `least` is the earliest time
    of the next transaction, unless the number of resets has changed. `now` is about the time.
    """

    wall: int | None
    least: int
    resets: int
    now: int


#: The value for a database without the row.
NEVER = Written()


class StoreClock:
    """The clock of a store in one process. Thread-safe."""

    def __init__(self, source: TimeSource) -> None:
        self._source = source
        self._guard = Lock()
        self._last = self._wall = self._elapsed = self._resets = 0
        self._read = NEVER

    def written(self, row: str | None, last_at: int | None, head: int | None) -> Written:
        """The time in the database, from the row of `system_state` and the last event."""
        found = self._read
        if row != found.row:
            found = self._read = NEVER if row is None else _decoded(row)
        if last_at is not None and head is not None and head > found.position:
            return found._replace(at=max(found.at, last_at))
        return found

    def moment(self, written: Written, wall: int | None = None) -> Moment:
        """The time of a transaction; `wall` is the time of the database server, if there is one."""
        with self._guard:
            wall = self._source() if wall is None else wall
            elapsed = self._source.elapsed()
            if written.resets != self._resets:
                self._last, self._resets = 0, written.resets
            now = max(wall, self._last + self._passed(wall, elapsed), written.at)
            self._last = now
            self._elapsed = elapsed
            if not self._wall - OVERLAP_US < wall < self._wall:
                self._wall = wall
            return Moment(now, now - wall, written)

    def bound(self, *, own_wall: bool) -> Bound:
        """The time before the database is read; `own_wall` if it has no clock of its own."""
        with self._guard:
            elapsed = self._source.elapsed()
            wall = self._source() if own_wall else self._wall + elapsed - self._elapsed
            least = self._last + self._passed(wall, elapsed)
            return Bound(wall if own_wall else None, least, self._resets, max(wall, least))

    def _passed(self, wall: int, elapsed: int) -> int:
        """The time since the last reading: the smaller difference of both clocks, because the wall
        clock may jump and the response of a server may be late.
        """
        passed = max(0, min(wall - self._wall, elapsed - self._elapsed))
        return passed - passed // SLEW


# ---- the row -------------------------------------------------------------------------------


def renewed(moment: Moment) -> str | None:
    """The row for a write without an event; None if a time close to this one was written."""
    now, _, written = moment
    if now - written.at <= COARSE_US:
        return None
    return to_json({"at": now, "position": written.position, "resets": written.resets})


def reset(moment: Moment, head: int) -> dict[str, int]:
    """The row that sets the store's time back to the wall clock, independent of the log."""
    now, ahead, written = moment
    return {"at": now - ahead, "position": head, "resets": written.resets + 1}


def _decoded(row: str) -> Written:
    return Written(**from_json(row), row=row)
