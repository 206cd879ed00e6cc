"""Waiting until the log may have grown.

This process rings. Others are heard when they write to the write-ahead file, where the system tells
of that; elsewhere somebody looks every few milliseconds.
"""

import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path

from detent.store.sqlite import file_watch
from detent.store.sqlite.connection import Connection
from detent.store.sqlite.reader import HEAD

#: How often somebody looks where nothing is heard of others, and where it is: to make good what was
#: not heard.
LOOK_EVERY_S, LOOK_ANYWAY_S = 0.003, 0.05
#: What is heard is a commit on its way to the disk: it can be read a moment later. For how long it
#: is looked for, and how often.
SOON_S, LOOK_SOON_S = 0.05, 0.0003


class Doorbell:
    """However many threads wait, one of them looks. It has a connection of its own."""

    def __init__(self, connection: Connection, written: Path) -> None:
        self._connection = connection
        self._signs = Signs(written)
        self._changed = threading.Condition()
        self._looking = False
        self._seen = -1
        self._head = 0
        #: How often this process has rung: it ends every wait that had begun before.
        self._rings = 0
        self._closed = False

    def wait(self, after: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            try:
                rings = self._rings
                self._look()
                while self._head <= after:
                    left = deadline - time.monotonic()
                    if left <= 0 or self._closed:
                        return False
                    if self._rings != rings:
                        self._look()
                        return self._head > after
                    if self._looking:
                        self._changed.wait(left)
                    else:
                        self._look_out(left)
                return True
            finally:
                self._changed.notify()  # somebody else may have to look out in our place

    def _look_out(self, left: float) -> None:
        """On behalf of all who wait, until there is a sign."""
        self._looking = True
        self._changed.release()
        try:
            self._signs.wait(left)
        finally:
            self._changed.acquire()
            self._looking = False
        self._look()

    def _look(self) -> None:
        """`data_version` changes with every commit of another connection; reading it is cheap."""
        if self._closed:
            self._changed.notify_all()
            return
        [(version,)] = self._connection.all("PRAGMA data_version")
        if version != self._seen:
            self._seen = version
            self._head = self._connection.all(HEAD)[0][0]
            self._signs.seen()
            self._changed.notify_all()

    def ring(self) -> None:
        with self._changed:
            self._rings += 1
            if self._looking:
                self._signs.give()
            self._changed.notify_all()

    def close(self) -> None:
        """Whoever waits is told that nothing came."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if self._looking:
                self._signs.give()
            self._changed.wait_for(lambda: not self._looking)
            self._changed.notify_all()
            self._connection.close()
            self._signs.close()


class Signs:
    """That a commit can be read, told by this process, or will be soon, told by the system."""

    def __init__(self, written: Path) -> None:
        self._written = written
        # From the beginning: a ring may come before anybody has waited.
        self._given, self._give = os.pipe()
        os.set_blocking(self._give, False)
        self._poll = select.poll()
        self._poll.register(self._given, select.POLLIN)
        self._watching = False
        self._growth: int | None = None
        #: Until when a commit is looked for, and whether the file was written to since the last
        #: look: then one more may be on its way.
        self._soon_until_s = 0.0
        self._fresh = False

    def wait(self, left_s: float) -> None:
        """Until a sign, or until it is time to look without one."""
        if not self._watching:
            self._watch()  # what came before is heard by nobody: look once more
            return
        if time.monotonic() < self._soon_until_s:
            time.sleep(LOOK_SOON_S)
        else:
            every_s = LOOK_EVERY_S if self._growth is None else LOOK_ANYWAY_S
            for descriptor, _ in self._poll.poll(min(left_s, every_s) * 1_000):
                if descriptor == self._given:
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

    def give(self) -> None:
        """A commit can be read: whoever waits looks now. A full pipe is sign enough."""
        with suppress(BlockingIOError):
            os.write(self._give, b".")

    def seen(self) -> None:
        """A commit was read. It is the one that was looked for, unless the file grew again."""
        if not self._fresh:
            self._soon_until_s = 0.0

    def close(self) -> None:
        for descriptor in (self._given, self._give, self._growth):
            if descriptor is not None:
                os.close(descriptor)
