"""The keeper: the elected scheduler and maintenance process; it runs each duty when it is due."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detent import failpoints
from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection
from detent.periodic_thread import PeriodicThread

log = logging.getLogger("detent.keeper")


@dataclass(frozen=True, slots=True)
class Duty:
    """A periodic maintenance job: `run` is bounded, idempotent, and returns how much it did."""

    name: str
    every_ms: int
    run: Callable[[Core], int]
    #: The maximum share of time that the duty may take; None for no maximum.
    share: float | None = None
    #: A pass that did this much has more to do: the share does not delay the next one.
    full: int | None = None
    #: The share delays a pass no longer than this.
    max_ms: int | None = None


class Keeper(PeriodicThread):
    """Runs the duties while this process is the leader; otherwise it is on standby."""

    def __init__(self, core: Core, name: str, duties: Sequence[Duty]) -> None:
        super().__init__("detent-keeper", self._pass)
        self.core = core
        self.election = LeaderElection(core, "keeper", name)
        self.duties = duties
        self.next_at = dict.fromkeys((duty.name for duty in duties), 0)
        self._now = 0
        self._failures = FailureLog(log, "the keeper's pass failed", "the keeper works again")
        #: The number of passes of each duty, for the metrics.
        self.passes: Counter[str] = Counter()

    def stop(self) -> None:
        """Stop after the current pass, and resign so that another keeper can lead immediately."""
        super().stop()
        self.election.resign()

    def run_once(self) -> int:
        """Run the duties that are due, if this keeper is the leader."""
        now = self.election.acquire()
        if now is None:
            return 0
        failpoints.hit("keeper.elected")
        if now < self._now:  # the store's time was reset
            self.next_at = dict.fromkeys(self.next_at, now)
        self._now = now
        done = 0
        for duty in self.duties:
            if self.next_at[duty.name] <= now:
                begun_s = time.monotonic()
                did = self._run(duty)
                pause_us = _pause_us(duty, time.monotonic() - begun_s, did)
                self.next_at[duty.name] = now + pause_us
                done += did
        return done

    def _run(self, duty: Duty) -> int:
        self.passes[duty.name] += 1
        try:
            failpoints.hit("keeper.duty")
            return duty.run(self.core)
        except DetentError as error:
            log.warning("duty %s: %s", duty.name, error)
        except Exception:  # the other duties must still run
            log.exception("duty %s failed; it will be retried", duty.name)
        return 0

    def _pass(self) -> float:
        try:
            self.run_once()
            self._failures.worked()
        except DetentError as error:
            self._failures.failed(error)
        except Exception:
            log.exception("the keeper's pass failed; it will be retried")
        return self.core.settings.keeper_interval_ms / 1_000


def _pause_us(duty: Duty, took_s: float, did: int) -> int:
    """The minimum time from the begin of a pass of a duty to the next."""
    least = duty.every_ms * 1_000
    if duty.share is None or (duty.full is not None and did >= duty.full):
        return least
    pause = round(took_s / duty.share * 1_000_000)
    return max(least, pause if duty.max_ms is None else min(pause, duty.max_ms * 1_000))
