"""A thread that calls a function periodically until it is stopped."""

import threading
from collections.abc import Callable


class PeriodicThread:
    """Calls `act` after `first_s` seconds, then again after the seconds that it returns.

    An exception of `act` ends the thread.
    """

    def __init__(self, name: str, act: Callable[[], float], first_s: float = 0.0) -> None:
        self._act = act
        self._first_s = first_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread: immediately during a pause, otherwise when `act` returns."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        pause_s = self._first_s
        while not self._stop.wait(pause_s):
            pause_s = self._act()
