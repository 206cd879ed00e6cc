"""Waiting until the log may have grown: woken by this process, and by others through LISTEN and
NOTIFY.

One thread with a connection of its own does both, from the first wait or ring on. All of it is a
hint: when the connection fails, or the URL says that there is none, waiting takes a little longer
and nothing else.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial

import psycopg

from detent.store.postgres.address import Address

#: At most one notification is sent in this time: whoever hears it reads all that is there.
RING_EVERY_S = 0.002
#: While nobody listens to the server, the log is looked at this often.
LOOK_EVERY_S = 0.05
RECONNECT_AFTER_S = 1.0
CLOSE_WITHIN_S = 2.0

LISTEN = "LISTEN detent"
#: A notification is a transaction; this one need not reach the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('detent', '')"


class Doorbell:
    """However many threads wait, one connection listens for all of them."""

    def __init__(self, address: Address, head: Callable[[], int]) -> None:
        self._address = address
        self._head = head
        self._changed = threading.Condition()
        self._rings = 0
        self._listening = False
        self._closed = False
        #: A commit has told others by itself: the next ring is for this process alone. (If somebody
        #: else's ring comes in between, others hear of that one by the ring that follows.)
        self.told = False
        #: A ring that others have not been told of, and a pipe that wakes the thread to do so.
        self._to_tell = False
        self._nudged, self._nudge = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="detent-doorbell", daemon=True)
        self._started = not address.doorbell

    def wait(self, after: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        self._start()
        began = self._rings
        while True:
            rings = self._rings
            if self._head() > after:
                return True
            with self._changed:
                left = deadline - time.monotonic()
                if left <= 0 or self._closed or rings != began:
                    return False
                patience = left if self._listening else min(left, LOOK_EVERY_S)
                self._changed.wait_for(partial(self._news, rings), patience)

    def _news(self, rings: int) -> bool:
        return self._rings != rings or self._closed

    def ring(self) -> None:
        self._wake()
        told, self.told = self.told, False
        if self._address.doorbell and not told and not self._to_tell and not self._closed:
            self._to_tell = True
            self._start()
            os.write(self._nudge, b".")

    def close(self) -> None:
        """Whoever waits is told that nothing came; a ring that was asked for is still sent."""
        if self._closed:
            return
        self._closed = True
        self._wake()
        if self._thread.is_alive():
            os.write(self._nudge, b".")
            self._thread.join(CLOSE_WITHIN_S)
        if not self._thread.is_alive():
            os.close(self._nudge)
            os.close(self._nudged)

    def _wake(self) -> None:
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    # -- the thread ------------------------------------------------------------------------

    def _start(self) -> None:
        with self._changed:
            if not self._started:
                self._started = True
                self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                with psycopg.connect(self._address.conninfo, autocommit=True) as connection:
                    self._listen(connection)
            except psycopg.Error:
                pass  # whoever waits looks at the log by itself until there is a connection again
            self._listening = False
            if self._closed:
                return
            time.sleep(RECONNECT_AFTER_S)

    def _listen(self, connection: psycopg.Connection) -> None:
        connection.add_notify_handler(lambda _: self._wake())
        connection.execute(LISTEN)
        self._listening = True
        self._wake()  # what came before is heard by nobody: everyone looks once
        while True:
            if self._to_tell:
                self._to_tell = False
                connection.execute(NOTIFY)
                time.sleep(RING_EVERY_S)
            if self._closed:
                return
            ready, _, _ = select.select([connection.fileno(), self._nudged], [], [])
            if self._nudged in ready:
                os.read(self._nudged, 4_096)
            if connection.fileno() in ready:
                self._hear(connection)

    def _hear(self, connection: psycopg.Connection) -> None:
        """Take in what the server has sent; a notification of our own tells nothing new."""
        line = connection.pgconn
        line.consume_input()
        others = False
        while (notify := line.notifies()) is not None:
            others = others or notify.be_pid != line.backend_pid
        if others:
            self._wake()
