"""The lease guard: a thread that stops runs whose lease has expired by this machine's clock.

It never waits for the store, so a worker that cannot reach the store stops its runs in time.
"""

import logging
from collections.abc import Callable

from detent.app.run_interface import Stop
from detent.periodic_thread import PeriodicThread
from detent.worker.active_run import HeldJob, HeldPlan
from detent.worker.held_jobs import HeldJobs

log = logging.getLogger("detent.worker")

TICK_S = 0.1


class LeaseGuard(PeriodicThread):
    """Stops the runs of jobs whose leases were not renewed in time."""

    def __init__(self, held_jobs: HeldJobs, advance_plan: Callable[[HeldPlan], None]) -> None:
        super().__init__("detent-lease-guard", self._check, first_s=TICK_S)
        self.held_jobs, self.advance_plan = held_jobs, advance_plan
        self._given_up: set[HeldJob] = set()

    def _check(self) -> float:
        expired = {held for held in self.held_jobs if held.expired()}
        for held in expired - self._given_up:
            self._give_up(held)
        self._given_up = expired
        return TICK_S

    def _give_up(self, held: HeldJob) -> None:
        job_id = held.grant.job_id
        log.warning("the lease on job %s was not renewed in time: its runs are stopped", job_id)
        held.stop(Stop.LOST)
        if held.plan is not None and not held.runs:
            self.advance_plan(held.plan)
