"""Alarms: the times at which a worker expects that something of its jobs is due."""

import heapq
import threading


class Alarms:
    """Times by the store's clock. Safe to use from any thread."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._lock = threading.Lock()

    def add(self, at: int) -> None:
        with self._lock:
            heapq.heappush(self._times, at)

    def due(self, now: int) -> bool:
        """Whether a time has come. Times that have come are removed."""
        any_due = False
        with self._lock:
            while self._times and self._times[0] <= now:
                heapq.heappop(self._times)
                any_due = True
        return any_due

    def next_s(self, now: int) -> float:
        """Seconds until the next time."""
        with self._lock:
            return max(0.0, (self._times[0] - now) / 1_000_000) if self._times else float("inf")
