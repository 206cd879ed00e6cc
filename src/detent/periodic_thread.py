"""A thread that does something again and again, with pauses between, until it is stopped."""

import threading
from collections.abc import Callable


class PeriodicThread:
    """`act` answers for how many seconds to pause; `first_s` pass before the first time.

    What `act` raises ends the thread: whoever wants to go on after a fault catches it there.
    """

    def __init__(self, name: str, act: Callable[[], float], first_s: float = 0.0) -> None:
        self._act = act
        self._first_s = first_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End a pause at once, an act when it is done."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _loop(self) -> None:
        pause_s = self._first_s
        while not self._stop.wait(pause_s):
            pause_s = self._act()
