"""Days of work that lie behind an installation, so that charts in pictures have something to show.

Written through the engine by a store whose clock is moved by hand; every event is a real one.
"""

import random
import time
from pathlib import Path

from detent.engine import Engine
from detent.engine.claims import ClaimRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.settings import Settings
from detent.store.store_url import open_store
from detent.testing.clock import VirtualClock

DAYS = 7
SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
WORKER = c.Actor("worker:night-shift")
OWNER = c.Actor("owner")
ONE_ATTEMPT = {"retry": {"max_attempts": 1}}
#: Work comes by day; the share of an hour's most, from midnight.
SHARES = (1, 1, 1, 2, 2, 3, 5, 8, 11, 12, 11, 9, 8, 10, 12, 12, 11, 9, 7, 5, 4, 3, 2, 2)


class Past:
    """A clock that is moved by hand, and an engine that takes it for the time."""

    def __init__(self, url: str, now_us: int) -> None:
        self.clock = VirtualClock(now_us)
        self.chance = random.Random(2)
        self.store = open_store(url, self.clock)
        self.engine = Engine(self.store)

    def run_one(self) -> None:
        """One task or job: it waits, runs, costs something, and mostly succeeds."""
        fails = self.chance.random() < 0.035
        self._submit(alone=fails)
        self.clock.now += int(self.chance.expovariate(1 / 4) * SECOND_US)
        (claimed,) = self.engine.claim(ClaimRequest("night-shift", "past", 1))
        grant, run_id = claimed.grant, claimed.job.run_id
        assert run_id is not None
        self.clock.now += int(self.chance.lognormvariate(3.2, 0.8) * SECOND_US)
        cost = int(self.chance.lognormvariate(-2.6, 0.7) * 1_000_000)
        self.engine.do(c.ChargeRun(grant, run_id, cost, 4_000, 700), WORKER)
        if fails:
            refused = c.FailRun(grant, run_id, "error", "the price list has no such row", 1)
            self.engine.do(refused, WORKER)
        else:
            self.engine.do(c.CompleteRun(grant, run_id, {"rows": 12}, 0), WORKER)

    def _submit(self, *, alone: bool) -> None:
        """A failed task would wait for a person to this day; a failed job alone does not."""
        if alone:
            self.engine.do(c.SubmitJob(new_id(), "shop", "change", options=ONE_ATTEMPT), OWNER)
        else:
            title = "Nightly import"
            task = c.SubmitTask(
                new_id(), "shop", "board", "change", "schedule", title=title, queue=True
            )
            self.engine.do(task, OWNER)


def live_through(directory: Path) -> None:
    """A week of work in the store of this data directory, up to the hour that has begun."""
    now_us = time.time_ns() // 1_000
    first_us = now_us - now_us % HOUR_US - DAYS * 24 * HOUR_US
    directory.mkdir(parents=True, exist_ok=True)
    past = Past(Settings(store_data_dir=str(directory)).url, first_us)
    for hour in range(DAYS * 24):
        past.clock.now = max(past.clock.now, first_us + hour * HOUR_US)
        share = SHARES[time.gmtime(past.clock.now // SECOND_US).tm_hour]
        for _ in range(past.chance.randint(share // 2, share)):
            past.run_one()
            past.clock.now += int(past.chance.expovariate(1 / 150) * SECOND_US)
    past.store.close()
