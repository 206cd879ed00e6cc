"""Outages of a gateway while a caller waits for work: a short one does not end the wait."""

import time

from detent.errors import Unavailable

#: How long a gateway may be unavailable: longer than its restart, or than a failover of its
#: database, takes.
LONGEST_S = 300.0


class Outage:
    """Whether a caller that waits goes on although the gateway is unavailable."""

    def __init__(self) -> None:
        #: Whether the gateway has answered before: if not, its address may be wrong.
        self._answered = False
        self._since_s: float | None = None

    def end(self) -> None:
        """Note that the gateway has answered."""
        self._answered, self._since_s = True, None

    def endure(self, error: Unavailable) -> bool:
        """Return if the wait goes on: True for the first error of an outage. Raise it otherwise."""
        now, began = time.monotonic(), self._since_s is None
        if self._since_s is None:
            self._since_s = now
        if not self._answered or now - self._since_s >= LONGEST_S:
            raise error
        return began
