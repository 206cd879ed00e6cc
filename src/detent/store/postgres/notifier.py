"""Wait until the log may have grown, woken by this process or by others through LISTEN and NOTIFY.

One thread with its own connection listens and notifies; it starts with the first wait or the first
notification. A notification is only a hint: if the connection fails, or the URL turns the notifier
off, waiting threads poll the log instead.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial

import psycopg

from detent.store.postgres.address import Address

#: The minimum interval between two notifications: a listener that is woken reads the whole log.
NOTIFY_EVERY_S = 0.002
#: The interval at which waiting threads poll the log while no connection listens.
POLL_EVERY_S = 0.05
RECONNECT_AFTER_S = 1.0
CLOSE_WITHIN_S = 2.0

LISTEN = "LISTEN detent"
#: A notification is a transaction; this one need not reach the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('detent', '')"


class Notifier:
    """Wakes the threads that wait for the log; one connection listens for all of them."""

    def __init__(self, address: Address, head: Callable[[], int]) -> None:
        self._address = address
        self._head = head
        self._changed = threading.Condition()
        #: How often a thread of this process or another process has notified.
        self.notifications = 0
        self._listening = False
        self._closed = False
        #: Whether a commit has already notified other processes, so that the next call of `notify`
        #: wakes this process only. (If another thread notifies in between, its commit is announced
        #: by the notification that follows.)
        self.others_notified = False
        #: Whether other processes have yet to be notified, and a pipe that wakes the thread for it.
        self._pending = False
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="detent-notifier", daemon=True)
        self._started = not address.notifier

    def wait(self, after: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        self._start()
        began = self.notifications
        while True:
            notifications = self.notifications
            if self._head() > after:
                return True
            with self._changed:
                left = deadline - time.monotonic()
                if left <= 0 or self._closed or notifications != began:
                    return False
                patience = left if self._listening else min(left, POLL_EVERY_S)
                self._changed.wait_for(partial(self._has_changed, notifications), patience)

    def wait_for_notice(self, notifications: int, timeout_s: float) -> bool:
        """Wait for the next notification; without a listening connection only for a moment."""
        self._start()
        with self._changed:
            patience = timeout_s if self._listening else min(timeout_s, POLL_EVERY_S)
            changed = self._changed.wait_for(partial(self._has_changed, notifications), patience)
            return changed or not self._listening

    def _has_changed(self, notifications: int) -> bool:
        return self.notifications != notifications or self._closed

    def notify(self) -> None:
        self._wake()
        already_sent, self.others_notified = self.others_notified, False
        if self._address.notifier and not (already_sent or self._pending or self._closed):
            self._pending = True
            self._start()
            os.write(self._wake_writer, b".")

    def close(self) -> None:
        """End every wait with False. A pending notification is still sent."""
        if self._closed:
            return
        self._closed = True
        self._wake()
        if self._thread.is_alive():
            os.write(self._wake_writer, b".")
            self._thread.join(CLOSE_WITHIN_S)
        if not self._thread.is_alive():
            os.close(self._wake_writer)
            os.close(self._wake_reader)

    def _wake(self) -> None:
        with self._changed:
            self.notifications += 1
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
                pass  # waiting threads poll the log until there is a connection again
            self._listening = False
            if self._closed:
                return
            time.sleep(RECONNECT_AFTER_S)

    def _listen(self, connection: psycopg.Connection) -> None:
        """Receive notifications immediately; send them at most once in an interval."""
        own = connection.pgconn.backend_pid
        connection.add_notify_handler(lambda notify: None if notify.pid == own else self._wake())
        connection.execute(LISTEN)
        self._listening = True
        self._wake()  # earlier notifications were missed: every waiting thread reads the log once
        next_s = 0.0
        while True:
            left_s = next_s - time.monotonic()
            if self._pending and (left_s <= 0 or self._closed):
                self._pending = False
                connection.execute(NOTIFY)
                next_s = time.monotonic() + NOTIFY_EVERY_S
                continue
            if self._closed:
                return
            sources = [connection.fileno(), self._wake_reader]
            ready, _, _ = select.select(sources, [], [], left_s if self._pending else None)
            if self._wake_reader in ready:
                os.read(self._wake_reader, 4_096)
            if connection.fileno() in ready:
                self._receive(connection)

    def _receive(self, connection: psycopg.Connection) -> None:
        """Read the notifications of the server; those of this connection wake no thread."""
        pgconn = connection.pgconn
        pgconn.consume_input()
        others = False
        while (notify := pgconn.notifies()) is not None:
            others = others or notify.be_pid != pgconn.backend_pid
        if others:
            self._wake()
