"""Time that a test sets: a clock to give to a store instead of the machine's."""

#: Where a virtual clock starts: noon on the first day of 2030, UTC, in microseconds.
START = 1_893_499_200_000_000


class VirtualClock:
    """Stands still until it is moved. Calling it tells the time in microseconds since the epoch."""

    def __init__(self, now: int = START) -> None:
        self.now = now
        self._passed = 0

    def __call__(self) -> int:
        return self.now

    def elapsed(self) -> int:
        """Microseconds that have passed, whatever the clock was set to."""
        return self._passed

    def set(self, now: int) -> None:
        """Jump to a time, also back: what stores make of a clock that does is worth a test."""
        self.now = now

    def advance(self, *, seconds: float = 0, us: int = 0) -> int:
        """Let time pass; the answer is the new time. A negative amount sets the clock back."""
        by = round(seconds * 1_000_000) + us
        self.now += by
        self._passed += max(0, by)
        return self.now
