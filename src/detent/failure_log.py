"""Logs failures of a repeated action: one line when they begin, one when they end.

Without it, a process writes hundreds of equal lines while its database is unavailable.
"""

import logging
import time

from detent.errors import DetentError

LONGEST_PAUSE_S = 2.0


class FailureLog:
    """Counts the failures of one action, and says how long to wait before the next attempt.

    `fails` and `works` begin the two lines. An error of another kind is logged too.
    """

    def __init__(
        self, log: logging.Logger, fails: str, works: str, pause_s: float = LONGEST_PAUSE_S
    ) -> None:
        self._log, self._fails, self._works = log, fails, works
        self._first_pause_s = pause_s
        self._since_s = 0.0
        self._failures = 0
        self._kind: str | None = None

    def failed(self, error: Exception) -> None:
        """Log the error if it is the first of its kind since the action worked."""
        if not self._failures:
            self._since_s = time.monotonic()
        self._failures += 1
        kind = error.code if isinstance(error, DetentError) else repr(error)
        if kind != self._kind:
            self._kind = kind
            unexpected = not isinstance(error, DetentError | OSError)
            self._log.warning("%s: %s", self._fails, error, exc_info=error if unexpected else None)

    def worked(self) -> None:
        """Log the end of the failures."""
        if self._failures:
            lasted_s = time.monotonic() - self._since_s
            self._log.info("%s, after %.0f s of failures", self._works, lasted_s)
            self._failures, self._kind = 0, None

    @property
    def pause_s(self) -> float:
        """The pause before the next attempt: longer after each failure, up to a limit."""
        pause_s: float = self._first_pause_s * 2 ** min(max(self._failures - 1, 0), 10)
        return min(pause_s, max(self._first_pause_s, LONGEST_PAUSE_S))
