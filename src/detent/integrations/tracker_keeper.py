"""Runs a tracker in the keeper's process: GitHub, GitLab, Notion or another system with issues.

`Tracker` is the interface that all of them have. One process at a time works with a tracker.
"""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from detent import views
from detent.errors import DetentError, Misconfigured, TooMany, Unavailable
from detent.integrations.leader_service import LeaderService, LeadershipLost
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection
from detent.store.table_names import status_row

log = logging.getLogger("detent.integrations")

#: At least half of the term is left when a request that changes something begins: longer than its
#: timeout, because the leader should not change during a request. After a process was killed, the
#: next one waits for the end of the term.
TERM_US = 60_000_000
LONGEST_REST_S = 10.0
#: The pause after an error that names no other one, such as a token that is refused.
REST_S = 30


class Tracker(Protocol):
    """A tracker that is connected: Notion, an issue tracker, or a forge with pull requests."""

    #: Why a part of it does not work, while the rest does.
    fault: DetentError | None

    def run(self, now: int, /, *, fresh: bool) -> bool:
        """Bring the log and the tracker into agreement; returns whether there is more to do.

        A pass does a bounded amount of work. `now` is the time of the store. With `fresh`, another
        process may have worked with the tracker meanwhile: what was cached is not valid any more.
        """

    def close(self) -> None:
        """Close the connections."""


class TrackerKeeper:
    """Calls a tracker on its own thread while this process leads, and records its last error."""

    def __init__(
        self,
        core: Core,
        role: str,
        name: str,
        connect: Callable[["TrackerKeeper"], Tracker],
        *,
        pause_s: float,
    ) -> None:
        self.core = core
        self._connect = connect
        self._tracker: Tracker | None = None
        #: The term of the leader in which the last pass succeeded.
        self._term = 0
        self._rest_until = 0
        self._status: object = None
        self.election = LeaderElection(core, role, name, TERM_US)
        self.service = LeaderService(core, self.election, self.work, pause_s=pause_s)

    def start(self) -> None:
        self.service.start()

    def stop(self) -> None:
        self.service.stop()
        if self._tracker is not None:
            self._tracker.close()

    def work(self, now: int) -> bool:
        """Run one pass; returns whether there is more to do."""
        if now < self._rest_until:
            return False
        fresh, self._term = self._term != self.election.term, self.election.term
        try:
            if self._tracker is None:
                self._tracker = self._connect(self)
            more = self._tracker.run(now, fresh=fresh)
        except DetentError as error:
            self._failed(now, error)
            return False
        self._note(now, self._tracker.fault)
        return more

    def _failed(self, now: int, error: DetentError) -> None:
        self._term = 0  # the next pass reads everything again
        if isinstance(error, LeadershipLost):
            log.info("%s: %s", self.election.role, error)
            return
        log.warning("%s: %s", self.election.role, error)
        rest_s = error.retry_after_s if isinstance(error, Unavailable | TooMany) else REST_S
        self._rest_until = now + rest_s * 1_000_000
        if isinstance(error, Misconfigured) and self._tracker is not None:
            self._tracker.close()
            self._tracker = None  # the next pass reads the token again
        self._note(now, error)

    def _note(self, now: int, error: DetentError | None) -> None:
        """Record whether the tracker works, if that has changed."""
        status = (None, None) if error is None else (error.message, error.hint)
        if status == self._status:
            return
        self._status = status
        row = {"error": status[0], "hint": status[1], "since": views.utc(now)}
        name = status_row(self.election.role)
        self.core.engine.transaction(lambda tx: tx.put_rows("system_state", {name: row}))

    def check_leader(self) -> None:
        held = self.election.acquire() is not None
        other_term = self._term not in (0, self.election.term)
        if self.service.stopping.is_set() or not held or other_term:
            raise LeadershipLost(
                f"Another process works with {self.election.role} now, or this one is stopping."
            )

    def sleep(self, seconds: float) -> None:
        """Sleep, and renew the term meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.service.stopping.wait(min(left, LONGEST_REST_S))
            self.check_leader()
