"""Ends sessions of PostgreSQL 15 and 16 whose client has stopped during a round trip.

Such a session is active and waits for the rest of what its client sends, with all its locks; no
timeout of these versions covers that state. Uses its own short connection.
"""

import threading

import psycopg

from detent.errors import DetentError
from detent.store.postgres.address import Address
from detent.store.postgres.connection import Connection, Failed
from detent.store.postgres.reader import READY


def silent_ms(hold_s: float) -> int:
    """The silence after which a client counts as stopped: half of the time limit for locks."""
    return round(hold_s * 500)


class SilentSessions:
    """Ends silent sessions; threads that wait for the server call it, one at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._busy = threading.Lock()

    def end(self) -> None:
        """End silent sessions; after a failure, the next call tries again."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            connection = Connection(self._address)
            try:
                query = READY["end_silent"](silent_ms=silent_ms(self._address.max_hold_s))
                connection.run([query])
            finally:
                connection.close()
        except (psycopg.Error, Failed, DetentError):
            pass
        finally:
            self._busy.release()
