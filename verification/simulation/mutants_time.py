"""Broken variants of time: a store's clock that stops or goes back, endless leases."""

from collections.abc import Callable
from unittest.mock import patch

from detent.store.clock import Moment, StoreClock, Written
from detent.worker.active_run import HeldJob
from verification.mutant import Patches
from verification.simulation import time_records


def store_clock_stops() -> Patches:
    """After a write with a fast clock, the store's time waits for the wall clock."""
    yield patch.object(StoreClock, "_passed", lambda *_: 0)


def store_clock_goes_back() -> Patches:
    """The store's time is the wall clock's, whatever was written before."""

    def moment(self: StoreClock, written: Written, wall: int | None = None) -> Moment:
        now = self._source() if wall is None else wall
        return Moment(now, 0, written)

    yield patch.object(StoreClock, "moment", moment)


def worker_never_gives_up_leases() -> Patches:
    """A worker goes on until the store refuses what it writes."""
    yield patch.object(HeldJob, "expired", lambda _: False)


def lease_is_judged_by_the_wall_clock() -> Patches:
    """A worker takes the end of its lease from a clock that can be set."""
    yield patch.object(time_records, "own_s", lambda clock: clock() / 1_000_000)


TIME: tuple[Callable[[], Patches], ...] = (
    store_clock_stops,
    store_clock_goes_back,
    worker_never_gives_up_leases,
    lease_is_judged_by_the_wall_clock,
)
