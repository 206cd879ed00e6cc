"""The heartbeat: a thread that renews all leases of a worker in one statement.

If the store says that a lease is lost, the runs of that job are stopped. A lease that has expired
by this machine's clock is not renewed: the lease guard stops its runs, even while this thread waits
for the store.
"""

import logging
from collections.abc import Callable

from detent import failpoints
from detent.app.run_interface import Stop
from detent.boot_time import since_boot_s
from detent.engine import Engine
from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.periodic_thread import PeriodicThread
from detent.worker.active_run import HeldJob
from detent.worker.held_jobs import HeldJobs

log = logging.getLogger("detent.worker")

#: How soon a failed renewal is tried again.
RETRY_S = 1.0


class Heartbeat(PeriodicThread):
    """Renews every `beat_s` seconds, and calls `after_beat` after each renewal."""

    def __init__(
        self,
        engine: Engine,
        worker: str,
        held_jobs: HeldJobs,
        beat_s: float,
        after_beat: Callable[[], None],
    ) -> None:
        super().__init__("detent-heartbeat", self._beat, first_s=beat_s)
        self.engine, self.worker, self.held_jobs = engine, worker, held_jobs
        self.beat_s, self.after_beat = beat_s, after_beat
        self._failures = FailureLog(log, "leases could not be renewed", "leases are renewed again")
        self.lease_s = engine.lifetimes.lease_us / 1_000_000

    def _beat(self) -> float:
        return self.beat_s if self.beat() else min(RETRY_S, self.beat_s)

    def beat(self) -> bool:
        """Renew all leases once; False if that failed."""
        begun_s = since_boot_s()
        held_jobs = [held for held in self.held_jobs if not held.expired()]
        try:
            self._renew(held_jobs, begun_s)
            self.after_beat()
        except DetentError as error:
            self._failures.failed(error)
            return False
        except Exception:
            log.exception("internal error of the heartbeat")
            return False
        self._failures.worked()
        return True

    def _renew(self, held_jobs: list[HeldJob], begun_s: float) -> None:
        grants = [(held.grant.job_id, held.grant.fence) for held in held_jobs]
        kept: set[tuple[str, int]] = set()
        if grants:
            failpoints.hit("renew.before")
            kept = self.engine.renew(self.worker, grants)
            failpoints.hit("renew.after")
        for held in held_jobs:
            if held.grant[:2] in kept:
                held.ends_s = begun_s + self.lease_s
            elif self.held_jobs.find(*held.grant[:2]) is held and held.is_live():
                log.warning("the lease on job %s is lost", held.grant.job_id)
                held.stop(Stop.LOST)
