"""An errand: work on a thread of its own, done while this process holds the office for it."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from detent import feed
from detent.errors import DetentError
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection

log = logging.getLogger("detent.integrations")


class LeaderService:
    """Runs a bounded piece of work whenever the log has grown, and from time to time.

    Work that answers True has more to do and is not made to wait.
    """

    def __init__(
        self,
        core: Core,
        election: LeaderElection,
        work: Callable[[int], bool | None],
        *,
        pause_s: float,
        poll_s: float = 1.0,
    ) -> None:
        self.core = core
        self.election = election
        self.work = work
        self.pause_s, self.poll_s = pause_s, poll_s
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=election.role, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the piece at hand, and let another process go on."""
        self.stopping.set()
        self.core.store.ring()
        self._thread.join()
        with suppress(DetentError):  # a store that is away lets the term run out
            self.election.resign()

    def run_once(self) -> bool:
        """One piece of work, if this process is the elected one; whether there is more."""
        now = self.election.acquire()
        return now is not None and bool(self.work(now))

    def _loop(self) -> None:
        while not self.stopping.is_set():
            try:
                head = feed.head(self.core.store)
                if self.run_once():
                    continue
                if not self.stopping.wait(self.pause_s):
                    self.core.store.wait(head, self.poll_s)
            except DetentError as error:
                log.warning("%s: %s", self.election.role, error)
                self.stopping.wait(self.poll_s)
            except Exception:
                log.exception("%s failed; it is tried again", self.election.role)
                self.stopping.wait(self.poll_s)
