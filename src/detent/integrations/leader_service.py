"""An errand: work on a thread of its own, done while this process holds the office for it."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from detent import feed
from detent.errors import DetentError
from detent.operations.context import Core
from detent.operations.leader_election import Office

log = logging.getLogger("detent.integrations")


class Errand:
    """Runs a bounded piece of work whenever the log has grown, and from time to time.

    Work that answers True has more to do and is not made to wait.
    """

    def __init__(
        self,
        core: Core,
        office: Office,
        work: Callable[[int], bool | None],
        *,
        pause_s: float,
        poll_s: float = 1.0,
    ) -> None:
        self.core = core
        self.office = office
        self.work = work
        self.pause_s, self.poll_s = pause_s, poll_s
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=office.office, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the piece at hand, and let another process go on."""
        self.stopping.set()
        self.core.store.notify()
        self._thread.join()
        with suppress(DetentError):  # a store that is away lets the term run out
            self.office.resign()

    def pass_once(self) -> bool:
        """One piece of work, if this process is the elected one; whether there is more."""
        now = self.office.take()
        return now is not None and bool(self.work(now))

    def _loop(self) -> None:
        while not self.stopping.is_set():
            try:
                head = feed.head(self.core.store)
                if self.pass_once():
                    continue
                if not self.stopping.wait(self.pause_s):
                    self.core.store.wait(head, self.poll_s)
            except DetentError as error:
                log.warning("%s: %s", self.office.office, error)
                self.stopping.wait(self.poll_s)
            except Exception:
                log.exception("%s failed; it is tried again", self.office.office)
                self.stopping.wait(self.poll_s)
