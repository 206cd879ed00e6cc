"""The keeper's loop: elected through the store, it runs each duty when its time has come."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detent import failpoints
from detent.errors import DetentError
from detent.operations.context import Core
from detent.operations.leader_election import Office
from detent.periodic_thread import PeriodicThread

log = logging.getLogger("detent.keeper")


@dataclass(frozen=True, slots=True)
class Duty:
    """A bounded pass that is safe to repeat; the answer is how much it did."""

    name: str
    every_ms: int
    run: Callable[[Core], int]
    #: It counts, and nobody waits for the count: it may take this share of the time, and no more.
    share: float | None = None


class Keeper(PeriodicThread):
    """Runs the duties while it is the elected one, and stands by otherwise."""

    def __init__(self, core: Core, name: str, duties: Sequence[Duty]) -> None:
        super().__init__("detent-keeper", self._pass)
        self.core = core
        self.office = Office(core, "keeper", name)
        self.duties = duties
        self.next_at = dict.fromkeys((duty.name for duty in duties), 0)
        self._now = 0
        #: How often each duty was done; for whoever watches.
        self.passes: Counter[str] = Counter()

    def stop(self) -> None:
        """End after the pass at hand, and let the next keeper in at once."""
        super().stop()
        self.office.resign()

    def pass_once(self) -> int:
        """One pass over the duties that are due, if this keeper is the elected one."""
        now = self.office.take()
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
                done += self._run(duty)
                self.next_at[duty.name] = now + _pause_us(duty, time.monotonic() - begun_s)
        return done

    def _run(self, duty: Duty) -> int:
        self.passes[duty.name] += 1
        try:
            failpoints.hit("keeper.duty")
            return duty.run(self.core)
        except DetentError as error:
            log.warning("duty %s: %s", duty.name, error)
            return 0

    def _pass(self) -> float:
        try:
            self.pass_once()
        except DetentError as error:
            log.warning("the keeper cannot work now: %s", error)
        except Exception:
            log.exception("a pass of the keeper failed; the next one begins anew")
        return self.core.settings.keeper_interval_ms / 1_000


def _pause_us(duty: Duty, took_s: float) -> int:
    """How long after the beginning of a pass the next one may begin."""
    least = duty.every_ms * 1_000
    return least if duty.share is None else max(least, round(took_s / duty.share * 1_000_000))
