"""Waiting until the log may have grown.

This process rings; for the commits of others somebody looks every few milliseconds.
"""

import threading
import time

from detent.store.sqlite.connection import Connection
from detent.store.sqlite.reading import HEAD

LOOK_EVERY_S = 0.003


class Doorbell:
    """However many threads wait, one of them looks. It has a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._looking = False
        self._seen = -1
        self._head = 0
        self._closed = False

    def wait(self, after: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._look()
            while self._head <= after:
                left = deadline - time.monotonic()
                if left <= 0 or self._closed:
                    return False
                self._wait_or_look(left)
            return True

    def _wait_or_look(self, left: float) -> None:
        if self._looking:
            self._changed.wait(left)
            return
        self._looking = True
        try:
            self._changed.wait(min(left, LOOK_EVERY_S))
            self._look()
        finally:
            self._looking = False
            # Somebody else may have to look on in our place.
            self._changed.notify()

    def _look(self) -> None:
        """`data_version` changes with every commit of another connection; reading it is cheap."""
        if self._closed:
            return
        [(version,)] = self._connection.all("PRAGMA data_version")
        if version != self._seen:
            self._seen = version
            self._head = self._connection.all(HEAD)[0][0]
            self._changed.notify_all()

    def ring(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Whoever waits is told that nothing came."""
        with self._changed:
            self._closed = True
            self._connection.close()
            self._changed.notify_all()
