"""The lease guard: a thread that gives up leases which are over by this machine's own clock.

It never waits for the store, so that a worker which cannot reach it stops its work in time.
"""

import logging
from collections.abc import Callable
from typing import Any

from detent.periodic_thread import PeriodicThread
from detent.worker.active_run import Hold, Stop
from detent.worker.held_jobs import Holds

log = logging.getLogger("detent.worker")

TICK_S = 0.1


class LeaseGuard(PeriodicThread):
    """Stops everything that runs under a lease that was not renewed in time."""

    def __init__(self, holds: Holds, chore: Callable[[Any, Callable[[], Any]], None]) -> None:
        super().__init__("detent-lease-guard", self._look, first_s=TICK_S)
        self.holds, self.chore = holds, chore
        self._given_up: set[Hold] = set()

    def _look(self) -> float:
        expired = {hold for hold in self.holds if hold.expired()}
        for hold in expired - self._given_up:
            self._give_up(hold)
        self._given_up = expired
        return TICK_S

    def _give_up(self, hold: Hold) -> None:
        job_id = hold.grant.job_id
        log.warning("the lease on job %s was not renewed in time: its work is stopped", job_id)
        hold.stop(Stop.LOST)
        if hold.plan is not None and not hold.attempts:
            self.chore(hold.plan, hold.plan.advance)
