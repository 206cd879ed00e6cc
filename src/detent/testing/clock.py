"""A clock that a test sets, for a store."""

#: The initial time of a virtual clock: 2030-01-01 12:00 UTC in microseconds.
START = 1_893_499_200_000_000


class VirtualClock:
    """A clock that only the test moves. Calling it returns microseconds since the epoch."""

    def __init__(self, now: int = START) -> None:
        self.now = now
        self._passed = 0

    def __call__(self) -> int:
        return self.now

    def elapsed(self) -> int:
        """Microseconds that have passed, independent of `set`."""
        return self._passed

    def set(self, now: int) -> None:
        """Set the clock to a time, which may be in the past."""
        self.now = now

    def advance(self, *, seconds: float = 0, us: int = 0) -> int:
        """Move the clock forward and return the new time. A negative amount sets it back."""
        by = round(seconds * 1_000_000) + us
        self.now += by
        self._passed += max(0, by)
        return self.now
