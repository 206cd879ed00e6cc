"""Calls of a command that waits for work: a short outage of the gateway does not end it."""

import math
import time
from collections.abc import Callable
from typing import Any

from detent.cli.connection import Connection
from detent.errors import Unavailable
from detent.outage import Outage

#: How often an unavailable gateway is asked again.
AGAIN_S = 1.0


class WaitingCalls:
    """A connection whose calls are repeated while the gateway is unavailable, as `Outage` says.

    `note` gets one line for each outage. No call is repeated after `until_s`.
    """

    def __init__(
        self, detent: Connection, note: Callable[[str], None], until_s: float = math.inf
    ) -> None:
        self._detent, self._note, self._until_s = detent, note, until_s
        self._outage = Outage()

    def call(self, operation: str, /, **arguments: Any) -> Any:
        while True:
            try:
                found = self._detent.call(operation, **arguments)
            except Unavailable as error:
                if self._outage.endure(error):
                    self._note(f"{error.message} Waiting for it.")
                if time.monotonic() >= self._until_s:
                    raise
                time.sleep(AGAIN_S)
            else:
                self._outage.end()
                return found
