"""The heartbeat: one renewal of all leases of a worker at a time, from a thread of its own.

A lease that the store says is lost stops the work under it. One that is over by this machine's own
clock is not renewed: the lease guard stops that work, also while this thread waits for the store.
"""

import logging
from collections.abc import Callable

from detent import failpoints
from detent.clock import since_boot_s
from detent.engine import Engine
from detent.errors import DetentError
from detent.periodic_thread import PeriodicThread
from detent.worker.active_run import Hold, Stop
from detent.worker.held_jobs import Holds

log = logging.getLogger("detent.worker")

#: How soon a beat that failed is tried again.
AGAIN_S = 1.0


class Heartbeat(PeriodicThread):
    """Renews every `beat_s`; `also` is called after each beat."""

    def __init__(
        self, engine: Engine, worker: str, holds: Holds, beat_s: float, also: Callable[[], None]
    ) -> None:
        super().__init__("detent-heartbeat", self._beat, first_s=beat_s)
        self.engine, self.worker, self.holds = engine, worker, holds
        self.beat_s, self.also = beat_s, also
        self.lease_s = engine.lifetimes.lease_us / 1_000_000

    def _beat(self) -> float:
        return self.beat_s if self.beat() else min(AGAIN_S, self.beat_s)

    def beat(self) -> bool:
        """One renewal; False if the store was away."""
        begun_s = since_boot_s()
        holds = [hold for hold in self.holds if not hold.expired()]
        try:
            self._renew(holds, begun_s)
            self.also()
        except DetentError as error:
            log.warning("leases could not be renewed: %s", error)
            return False
        except Exception:
            log.exception("a heartbeat failed")
            return False
        return True

    def _renew(self, holds: list[Hold], begun_s: float) -> None:
        grants = [(hold.grant.job_id, hold.grant.fence) for hold in holds]
        kept: set[tuple[str, int]] = set()
        if grants:
            failpoints.hit("renew.before")
            kept = self.engine.renew(self.worker, grants)
            failpoints.hit("renew.after")
        for hold in holds:
            if hold.grant[:2] in kept:
                hold.ends_s = begun_s + self.lease_s
            elif self.holds.find(*hold.grant[:2]) is hold and hold.is_live():
                log.warning("the lease on job %s is lost", hold.grant.job_id)
                hold.stop(Stop.LOST)
