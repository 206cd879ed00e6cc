"""A leader service: a thread that works while this process is the elected leader for its role."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from detent import feed
from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection

log = logging.getLogger("detent.integrations")


class LeadershipLost(DetentError):
    """Another process is the leader now."""

    default_code = "refused"


class LeaderService:
    """Calls `work` whenever the log has grown, and at least every `poll_s` seconds.

    `work` does a bounded amount of work. If it returns True, there is more to do, and it is called
    again without a pause.
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
        self._failures = FailureLog(log, election.role, f"{election.role}: working again", poll_s)
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=election.role, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current call of `work`, and resign so that another process can lead."""
        self.stopping.set()
        self.core.store.notify()
        self._thread.join()
        with suppress(DetentError):  # if the store is unavailable, the term expires
            self.election.resign()

    def run_once(self) -> bool:
        """Call `work` once if this process leads; returns whether there is more to do."""
        now = self.election.acquire()
        return now is not None and bool(self.work(now))

    def _loop(self) -> None:
        while not self.stopping.is_set():
            try:
                head = feed.head(self.core.store)
                more = self.run_once()
                self._failures.worked()
                if more:
                    continue
                if not self.stopping.wait(self.pause_s):
                    self.core.store.wait(head, self.poll_s)
            except DetentError as error:
                self._failures.failed(error)
                self.stopping.wait(self._failures.pause_s)
            except Exception:
                log.exception("%s failed; it will be retried", self.election.role)
                self.stopping.wait(self.poll_s)
