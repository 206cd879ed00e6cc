"""Suspect jobs run alone: a job that was lost with its worker several times may crash the worker.

Without this, the jobs that run at the same time are lost too each time, and are quarantined too.
"""

import time
from collections.abc import Callable

from detent.kernel.entities import Job
from detent.worker.active_run import HeldJob
from detent.worker.held_jobs import HeldJobs

#: After how many losses without progress a job is a suspect; other jobs may cause the first.
SUSPECT_LOSSES = 2
#: How long a suspect waits for the other runs of the worker; then it starts beside them.
MAX_WAIT_S = 5.0


def is_suspect(job: Job) -> bool:
    return job.lost >= SUSPECT_LOSSES


class Isolation:
    """The suspect job that a worker holds, if it holds one. Nothing is claimed meanwhile."""

    def __init__(self, held_jobs: HeldJobs) -> None:
        self.held_jobs = held_jobs
        #: Suspects are often next to each other in the queue: after one, claim jobs one by one.
        self.careful = False
        self._hold: HeldJob | None = None
        self._begin: Callable[[], None] | None = None
        self._since_s = 0.0

    def is_active(self) -> bool:
        """Whether a suspect is held: it runs, or waits until it is alone."""
        held = self._hold
        return held is not None and self.held_jobs.find(*held.grant[:2]) is held

    def take(self, held: HeldJob, begin: Callable[[], None]) -> None:
        """Hold a suspect, and begin it when nothing else runs."""
        self.careful = True
        self._hold, self._begin, self._since_s = held, begin, time.monotonic()
        self.check(self._since_s)

    def withdraw(self) -> HeldJob | None:
        """The suspect that has not begun; it will not begin, because the worker stops."""
        waiting = self._hold if self._begin is not None else None
        self._begin = None
        return waiting

    def check(self, now_s: float) -> None:
        """Begin the suspect if nothing else runs, or if it has waited long enough."""
        begin = self._begin
        alone = len(self.held_jobs) <= 1
        if begin is not None and (alone or now_s - self._since_s > MAX_WAIT_S):
            self._begin = None
            begin()
