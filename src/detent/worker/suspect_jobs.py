"""Suspects run alone: a job that was lost with its worker again and again may be what kills it.

Without this, whatever runs beside such a job is lost with it each time, and quarantined with it.
"""

import time
from collections.abc import Callable

from detent.kernel.entities import Job
from detent.worker.active_run import Hold
from detent.worker.held_jobs import Holds

#: Losses without progress that make a job a suspect; the first ones may be anybody's fault.
SUSPECT_LOSSES = 2
#: How long a suspect waits for what runs beside it; longer runs take the risk.
PATIENCE_S = 5.0


def is_suspect(job: Job) -> bool:
    return job.lost >= SUSPECT_LOSSES


class Isolation:
    """The one suspect that a worker holds, if it holds one. Nothing is claimed meanwhile."""

    def __init__(self, holds: Holds) -> None:
        self.holds = holds
        #: Suspects stand together in the queue: after one, jobs are claimed one by one.
        self.careful = False
        self._hold: Hold | None = None
        self._begin: Callable[[], None] | None = None
        self._since_s = 0.0

    def on(self) -> bool:
        """A suspect is held: it runs, or waits to be alone."""
        hold = self._hold
        return hold is not None and self.holds.find(*hold.grant[:2]) is hold

    def take(self, hold: Hold, begin: Callable[[], None]) -> None:
        """Let it begin once nothing else runs."""
        self.careful = True
        self._hold, self._begin, self._since_s = hold, begin, time.monotonic()
        self.look(self._since_s)

    def withdraw(self) -> Hold | None:
        """A suspect that has not begun and will not: the worker stops."""
        waiting = self._hold if self._begin is not None else None
        self._begin = None
        return waiting

    def look(self, now_s: float) -> None:
        """Begin if it is alone now, or has waited long enough."""
        begin = self._begin
        alone = len(self.holds) <= 1
        if begin is not None and (alone or now_s - self._since_s > PATIENCE_S):
            self._begin = None
            begin()
