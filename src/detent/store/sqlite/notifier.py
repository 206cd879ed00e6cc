"""Wait until the log may have grown.

This process notifies its own threads. A commit of another process is noticed through a watch on the
write-ahead file (inotify); where there is none, one thread polls the database every few
milliseconds.
"""

import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path

from detent.store.sqlite import file_watch
from detent.store.sqlite.commit_log import HEAD
from detent.store.sqlite.connection import Connection

#: The poll interval without a watch on the file, and the longer one with it, which finds a commit
#: that the watch has missed.
POLL_EVERY_S, POLL_WATCHED_S = 0.003, 0.05
#: The watch reports a commit while it is being written; it can be read a moment later. For how long
#: and how often the database is polled for it.
SOON_S, POLL_SOON_S = 0.05, 0.0003


class Notifier:
    """Wakes the threads that wait for the log. One of them polls for all, on its own connection."""

    def __init__(self, connection: Connection, written: Path) -> None:
        self._connection = connection
        self._wakeups = Wakeups(written)
        self._changed = threading.Condition()
        self._polling = False
        self._seen = -1
        #: The end of the log as it was read last.
        self.head = 0
        #: How often this process has notified: a notification ends every wait that began before it.
        self._notifications = 0
        self._closed = False

    def wait(self, after: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            try:
                notifications = self._notifications
                self._read_head()
                while self.head <= after:
                    left = deadline - time.monotonic()
                    if left <= 0 or self._closed:
                        return False
                    if self._notifications != notifications:
                        self._read_head()
                        return self.head > after
                    if self._polling:
                        self._changed.wait(left)
                    else:
                        self._poll_for_all(left)
                return True
            finally:
                self._changed.notify()  # another waiting thread may have to poll now

    def _poll_for_all(self, left: float) -> None:
        """Wait for a wake-up on behalf of all waiting threads, then read the log."""
        self._polling = True
        self._changed.release()
        try:
            self._wakeups.wait(left)
        finally:
            self._changed.acquire()
            self._polling = False
        self._read_head()

    def _read_head(self) -> None:
        """Read the end of the log if `data_version` shows a commit of another connection."""
        if self._closed:
            self._changed.notify_all()
            return
        [(version,)] = self._connection.all("PRAGMA data_version")
        if version != self._seen:
            self._seen = version
            self.head = self._connection.all(HEAD)[0][0]
            self._wakeups.seen()
            self._changed.notify_all()

    def notify(self) -> None:
        with self._changed:
            self._notifications += 1
            if self._polling:
                self._wakeups.wake()
            self._changed.notify_all()

    def close(self) -> None:
        """End every wait with False."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if self._polling:
                self._wakeups.wake()
            self._changed.wait_for(lambda: not self._polling)
            self._changed.notify_all()
            self._connection.close()
            self._wakeups.close()


class Wakeups:
    """Wakes the polling thread: this process has committed, or the write-ahead file was written."""

    def __init__(self, written: Path) -> None:
        self._written = written
        # Made here: a notification may come before the first wait.
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._poll = select.poll()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._watching = False
        self._growth: int | None = None
        #: Until when the database is polled for a commit, and whether the file was written after
        #: the last poll, so that one more commit may follow.
        self._soon_until_s = 0.0
        self._fresh = False

    def wait(self, left_s: float) -> None:
        """Return at a wake-up, or when it is time to poll without one."""
        if not self._watching:
            self._watch()  # earlier commits were not reported: poll once more
            return
        if time.monotonic() < self._soon_until_s:
            time.sleep(POLL_SOON_S)
        else:
            every_s = POLL_EVERY_S if self._growth is None else POLL_WATCHED_S
            for descriptor, _ in self._poll.poll(min(left_s, every_s) * 1_000):
                if descriptor == self._wake_reader:
                    os.read(descriptor, 4_096)
        self._fresh = self._has_grown()
        if self._fresh:
            self._soon_until_s = time.monotonic() + SOON_S

    def _watch(self) -> None:
        self._watching = True
        self._growth = file_watch.watch(self._written)
        if self._growth is not None:
            self._poll.register(self._growth, select.POLLIN)

    def _has_grown(self) -> bool:
        try:
            return self._growth is not None and bool(os.read(self._growth, 4_096))
        except BlockingIOError:
            return False

    def wake(self) -> None:
        """Make the polling thread read the log now. A full pipe wakes it as well."""
        with suppress(BlockingIOError):
            os.write(self._wake_writer, b".")

    def seen(self) -> None:
        """Stop polling for a commit that was read, unless the file was written again."""
        if not self._fresh:
            self._soon_until_s = 0.0

    def close(self) -> None:
        for descriptor in (self._wake_reader, self._wake_writer, self._growth):
            if descriptor is not None:
                os.close(descriptor)
