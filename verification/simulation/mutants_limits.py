"""Broken variants of pauses, rates and schedules: one omission each."""

import itertools
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from detent import schedule_times
from detent.engine import concurrency_limits
from detent.engine.concurrency_limits import ConcurrencyLimits
from detent.ids import new_id
from detent.keeper import scheduler as firing
from detent.operations import schedules as operations
from detent.operations.context import Core
from detent.schedule_times import Schedule
from verification.mutant import Patches


def pause_is_ignored_by_claims() -> Patches:
    """A claim checks how many jobs may run, and ignores pauses."""
    made = ConcurrencyLimits.__init__

    def blind(self: ConcurrencyLimits, tx: Any, worker: str) -> None:
        made(self, tx, worker)
        self.paused = False
        self.rows = {name: {**row, "paused": False} for name, row in self.rows.items()}

    yield patch.object(ConcurrencyLimits, "__init__", blind)


def pause_ends_without_an_event() -> Patches:
    """A pause whose time is over holds nothing back, and its end is not written before."""
    made = ConcurrencyLimits.__init__

    def silent(self: ConcurrencyLimits, tx: Any, worker: str) -> None:
        made(self, tx, worker)
        over = concurrency_limits.expired(self.rows, tx.now())
        self.over = False
        self.rows = {name: row for name, row in self.rows.items() if name not in over}
        self.paused = self.paused and "all" not in over

    yield patch.object(ConcurrencyLimits, "__init__", silent)


def rate_is_not_kept() -> Patches:
    """How many have started is forgotten after each claim."""
    yield patch.object(ConcurrencyLimits, "save_rates", lambda _: None)


def schedule_fires_twice() -> Patches:
    """A time that was submitted before the keeper died is submitted again."""
    submit = operations.submit

    def again(core: Core, schedule: Schedule, key: str) -> str:
        return submit(core, schedule, f"{key}:{new_id()}")

    yield patch.object(firing, "submit", again)


def interval_drifts() -> Patches:
    """The next time is counted from when the last one was acted on."""
    record = operations.record_firing

    def from_now(core: Core, schedule: Schedule, **row: Any) -> None:
        with core.store.read() as view:
            row["next_at"] = view.now() + (schedule.every_s or 1) * schedule_times.S_US
        record(core, schedule, **row)

    def from_last(schedule: Schedule, after: int) -> Iterator[int]:
        step = (schedule.every_s or 1) * schedule_times.S_US
        return itertools.count(after + step, step)

    yield patch.object(firing, "record_firing", from_now)
    yield patch.object(schedule_times, "times", from_last)


LIMITS = (
    *(pause_is_ignored_by_claims, pause_ends_without_an_event, rate_is_not_kept),
    *(schedule_fires_twice, interval_drifts),
)
