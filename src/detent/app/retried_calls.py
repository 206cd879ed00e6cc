"""Calls of a run that are retried while the store is unavailable, so that the run does not fail.

A call is retried until the lease of the run has ended. Without a lease, and for other services such
as a bucket, which the lease may outlast by far, it is retried for 30 seconds.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from detent.errors import Refused, StoreUnavailable, Unavailable

T = TypeVar("T")

#: How long a call is retried that is not retried until its lease has ended.
RETRY_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0


def never() -> bool:
    """The default of `lease_over`, for callers without a lease: it never expires."""
    return False


class Backoff:
    """How long and how often a call is retried while the store is unavailable."""

    def __init__(self, lease_over: Callable[[], bool]) -> None:
        self.until_s = time.monotonic() + RETRY_S
        self.lease_over = lease_over
        self.next_s = FIRST_PAUSE_S
        self.retried = False

    def is_exhausted(self, error: Unavailable) -> bool:
        """Whether the call must fail now, after this error."""
        if self.lease_over():
            return True
        if isinstance(error, StoreUnavailable) and self.lease_over is not never:
            return False  # a store that is unavailable renews no lease, so the lease ends
        return time.monotonic() >= self.until_s

    def pause_s(self) -> float:
        """The pause before the next try, twice as long as the one before."""
        pause_s, self.retried = self.next_s, True
        self.next_s = min(self.next_s * 2, LONGEST_PAUSE_S)
        return pause_s

    def was_recorded(self, refusal: Refused) -> bool:
        """Whether an earlier try has recorded the name, and only its answer was lost."""
        return self.retried and refusal.code == "name_used_twice"


def retried(call: Callable[[], T], lease_over: Callable[[], bool] = never) -> T:
    """The result of a call that is repeated while the store is unavailable."""
    backoff = Backoff(lease_over)
    while True:
        try:
            return call()
        except Unavailable as error:
            if backoff.is_exhausted(error):
                raise
        time.sleep(backoff.pause_s())
