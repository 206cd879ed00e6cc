"""The time of a store: a wall clock that never goes back, and never stands still for long.

A time that was written is never undercut. While the wall clock is behind it, the store's time goes
on from there, one percent slower than real time, until the wall clock has caught up. Such an offset
stays with every process, because each reads what the others have written.
"""

from threading import Lock
from typing import NamedTuple, Protocol

from detent.store.codec import from_json, to_json

#: The row of `system_state` with the latest time that was written, and the last reset.
CLOCK = "clock"
#: While it is ahead, the store's time is slower than real time by one part in this many.
SLEW = 100
#: A wall clock that is behind the last reading by less was read by two transactions at once.
OVERLAP_US = 1_000_000
#: A write without an event renews the row only if it is older than this.
COARSE_US = 1_000_000


class TimeSource(Protocol):
    """A wall clock, which may jump, and a clock that measures how much time has passed."""

    def __call__(self) -> int:
        """Microseconds since the epoch."""

    def elapsed(self) -> int:
        """Microseconds since some moment; never goes back, never jumps."""


class Written(NamedTuple):
    """What the database says about time: the latest that was written, and how often it was reset.

    Of the events, only those after `position` count. `row` is the text that says so.
    """

    at: int = 0
    position: int = 0
    resets: int = 0
    row: str | None = None


class Moment(NamedTuple):
    """The store's time, how far it is ahead of its wall clock, and what it was computed from."""

    now: int
    ahead: int
    written: Written


#: What a database says that has no such row.
NEVER = Written()


class StoreClock:
    """The store's time as one process has it. Safe to use from any thread."""

    def __init__(self, source: TimeSource) -> None:
        self._source = source
        self._guard = Lock()
        self._told = self._wall = self._elapsed = self._resets = 0
        self._read = NEVER

    def written(self, row: str | None, last_at: int | None, head: int | None) -> Written:
        """From the row of `system_state`, and the time and position of the last event."""
        found = self._read
        if row != found.row:
            found = self._read = NEVER if row is None else _decoded(row)
        if last_at is not None and head is not None and head > found.position:
            return found._replace(at=max(found.at, last_at))
        return found

    def moment(self, written: Written, wall: int | None = None) -> Moment:
        """The time of a transaction; `wall` is the clock of a server, if it has one."""
        with self._guard:
            wall = self._source() if wall is None else wall
            elapsed = self._source.elapsed()
            if written.resets != self._resets:
                self._told, self._resets = 0, written.resets
            now = max(wall, self._told + self._passed(wall, elapsed), written.at)
            self._told = now
            self._elapsed = elapsed
            if not self._wall - OVERLAP_US < wall < self._wall:
                self._wall = wall
            return Moment(now, now - wall, written)

    def _passed(self, wall: int, elapsed: int) -> int:
        """Time since the last reading. Both clocks must agree that it has passed: the wall clock
        jumps, and a server's answer may be late.
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
    """The row by which the store's time is that of the wall clock again, whatever the log says."""
    now, ahead, written = moment
    return {"at": now - ahead, "position": head, "resets": written.resets + 1}


def _decoded(row: str) -> Written:
    return Written(**from_json(row), row=row)
