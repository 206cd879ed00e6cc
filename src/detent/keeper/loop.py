"""The keeper's loop: elected through the store, it runs each duty when its time has come."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detent.errors import DetentError
from detent.operations.core import Core
from detent.store.port import Writing

log = logging.getLogger("detent.keeper")

#: A keeper that has not said anything for this long is replaced.
TERM_US = 15_000_000


@dataclass(frozen=True, slots=True)
class Duty:
    """A bounded pass that is safe to repeat; the answer is how much it did."""

    name: str
    every_ms: int
    run: Callable[[Core], int]


class Keeper:
    """Runs the duties while it is the elected one, and stands by otherwise."""

    def __init__(self, core: Core, name: str, duties: Sequence[Duty]) -> None:
        self.core = core
        self.name = name
        self.duties = duties
        self.next_at = dict.fromkeys((duty.name for duty in duties), 0)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name="keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the duty at hand, and let the next keeper in at once."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.core.engine.within(self._resign)

    def pass_once(self) -> int:
        """One pass over the duties that are due, if this keeper is the elected one."""
        now = self.core.engine.within(self._elect)
        if now is None:
            return 0
        done = 0
        for duty in self.duties:
            if self.next_at[duty.name] <= now:
                self.next_at[duty.name] = now + duty.every_ms * 1_000
                done += self._run(duty)
        return done

    def _run(self, duty: Duty) -> int:
        try:
            return duty.run(self.core)
        except DetentError as error:
            log.warning("duty %s: %s", duty.name, error)
            return 0

    def _loop(self) -> None:
        pause_s = self.core.settings.keeper_interval_ms / 1_000
        while not self._stop.is_set():
            try:
                self.pass_once()
            except DetentError as error:
                log.warning("the keeper cannot work now: %s", error)
            self._stop.wait(pause_s)

    def _elect(self, tx: Writing) -> int | None:
        """Take or keep the office; None if somebody else holds it."""
        now = tx.now()
        holder = tx.rows("system_state").get("keeper") or {}
        if holder.get("name") != self.name and holder.get("until", 0) > now:
            return None
        tx.put_rows("system_state", {"keeper": {"name": self.name, "until": now + TERM_US}})
        return now

    def _resign(self, tx: Writing) -> None:
        holder = tx.rows("system_state").get("keeper") or {}
        if holder.get("name") == self.name:
            tx.put_rows("system_state", {"keeper": None})
