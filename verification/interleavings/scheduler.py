"""Lets the statements of several writers through a proxy one at a time, in an order of its own.

The next statement passes when every writer has one ready, waits for a lock, or is done. So the
server never does two things at the same time, except when one ends the wait of another.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psycopg

from detent.store.postgres.reader import SEQUENCE
from verification.postgres_proxy import (
    BIND,
    COMPLETE,
    DESCRIBE,
    ERROR,
    EXECUTE,
    FLUSH,
    PARSE,
    READY,
    SYNC,
    Link,
    Message,
    Proxy,
    pass_on,
)

#: A statement that has no answer after this time may be waiting for a lock: the server is asked.
SOON_S = 0.002
#: Nothing takes this long: a writer waits without end.
DEADLINE_S = 60.0
TERMINATE = "X"
WAITING = "SELECT pid, locktype FROM pg_locks WHERE NOT granted AND pid = ANY(%s)"


class Unit(NamedTuple):
    """What is passed on together: a statement with its messages, or the end of a round trip."""

    link: Link
    kind: str
    data: bytes


class Writer:
    """One process, as far as the server can tell: a thread with a store of its own."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        self.work = work
        self.ready: deque[Unit] = deque()
        #: What has passed and has no answer yet, and the lock that it waits for.
        self.passed: Unit | None = None
        self.waits_for = ""
        self.done = False
        self.error: BaseException | None = None


class Scheduler:
    """Runs writers to their end. `schedule` says which of them passed, statement by statement."""

    def __init__(
        self,
        proxy: Proxy,
        beside: psycopg.Connection,
        chance: random.Random,
        writers: Sequence[Writer],
    ) -> None:
        self._proxy = proxy
        self._beside = beside
        self._chance = chance
        self._writers = writers
        self._by_name = {writer.name: writer for writer in writers}
        #: How probable it is that a writer goes on: long runs find what even turns do not.
        self._stays = chance.choice((0.0, 0.5, 0.9))
        self._last: Writer | None = None
        self._changed = threading.Condition()
        #: Messages that belong to a statement of which not all has come; links after an error.
        self._parts: dict[Link, bytes] = {}
        self._skipping: set[Link] = set()
        self.schedule: list[int] = []
        self.problems: list[str] = []
        #: Called after each step, and when a writer waits for a lock of this kind.
        self.on_step: Callable[[], None] = lambda: None
        self.on_wait: Callable[[Writer], None] = lambda _writer: None

    def run(self) -> None:
        self._proxy.gate, self._proxy.on_answer = self._came, self._answered
        threads = [threading.Thread(target=self._work, args=[each]) for each in self._writers]
        for thread in threads:
            thread.start()
        try:
            while ready := self._settled():
                writer = self._next(ready)
                self.schedule.append(self._writers.index(writer))
                self._pass(writer)
                self.on_step()
        finally:
            self._proxy.gate, self._proxy.on_answer = pass_on, lambda _link, _kind: None
            self._let_go()
            for thread in threads:
                thread.join(DEADLINE_S)
        self.problems += [f"{each.name}: {each.error!r}" for each in self._writers if each.error]

    def _work(self, writer: Writer) -> None:
        try:
            writer.work()
        except BaseException as error:
            writer.error = error
        with self._changed:
            writer.done = True
            self._changed.notify_all()

    # -- what comes through the proxy ------------------------------------------------------

    def _came(self, link: Link, message: Message) -> None:
        writer = self._by_name.get(link.name)
        if writer is None or message.kind == TERMINATE:
            pass_on(link, message)
            return
        with self._changed:
            data = self._parts.pop(link, b"") + message.data
            if message.kind in (PARSE, BIND, DESCRIBE) or _is_sequencing(message.kind, data):
                self._parts[link] = data
            else:
                writer.ready.append(Unit(link, message.kind, data))
                self._changed.notify_all()

    def _answered(self, link: Link, kind: str) -> None:
        writer = self._by_name.get(link.name)
        with self._changed:
            if kind == ERROR:
                self._skipping.add(link)
            if kind == READY:
                self._skipping.discard(link)
            passed = writer.passed if writer else None
            if writer and passed and passed.link is link and _ends(passed.kind, kind):
                writer.passed, writer.waits_for = None, ""
                self._changed.notify_all()

    def _pass(self, writer: Writer) -> None:
        """Whether the server responds to a statement immediately; after an error it does not."""
        with self._changed:
            unit = writer.ready.popleft()
            if unit.kind == SYNC or unit.link not in self._skipping:
                writer.passed = unit
        try:
            unit.link.forward(unit.data + (FLUSH if unit.kind == EXECUTE else b""))
        except OSError:  # the client has closed the connection before the end of its pipeline
            with self._changed:
                writer.passed = None

    def _let_go(self) -> None:
        """Whatever is left of writers that are given up."""
        with self._changed:
            left = [unit for writer in self._writers for unit in writer.ready]
        for unit in left:
            unit.link.cut()

    # -- whose turn it is ------------------------------------------------------------------

    def _settled(self) -> list[Writer]:
        """The writers with a statement to pass, when all others wait for a lock or are done."""
        deadline_s = time.monotonic() + DEADLINE_S
        stuck = False
        while time.monotonic() < deadline_s:
            with self._changed:
                self._changed.wait_for(self._is_calm, SOON_S)
                busy = [each for each in self._writers if each.passed]
                thinking = not self._is_calm(busy)
            waiting = self._waiting(busy)
            if thinking or len(waiting) < len(busy):
                continue
            with self._changed:
                ready = [each for each in self._writers if each.ready and not each.passed]
                over = all(each.done for each in self._writers)
                same = [each for each in self._writers if each.passed] == busy
            if (ready and same) or over:
                return ready
            if same and busy and not stuck:
                stuck = True
                names = ", ".join(each.name for each in busy)
                self.problems.append(f"all writers wait for a lock: {names}")
        raise TimeoutError(f"no writer goes on: {self.schedule}")

    def _next(self, ready: Sequence[Writer]) -> Writer:
        stays = self._chance.random() < self._stays
        if self._last is None or self._last not in ready or not stays:
            self._last = self._chance.choice(ready)
        return self._last

    def _is_calm(self, busy: Sequence[Writer] = ()) -> bool:
        return all(
            each.done or (each.ready and not each.passed) or each in busy for each in self._writers
        )

    def _waiting(self, busy: Sequence[Writer]) -> list[Writer]:
        """Which of these wait for a lock, according to the server."""
        pids = {each.passed.link.pid: each for each in busy if each.passed}
        if not pids:
            return []
        found: dict[int, str] = dict(self._beside.execute(WAITING, [list(pids)]).fetchall())
        for pid, lock in found.items():
            writer = pids[pid]
            if not writer.waits_for:
                writer.waits_for = lock
                self.on_wait(writer)
        return [pids[pid] for pid in found]


def _is_sequencing(kind: str, data: bytes) -> bool:
    """Whether it assigns positions: a client sends this and the end of the round trip together.

    Until then it holds the lock for which readers wait, also the one that checks the run.
    """
    return kind == EXECUTE and SEQUENCE.name in data


def _ends(unit: str, answer: str) -> bool:
    """Whether this is the last answer to such a unit."""
    if not answer:
        return True
    return answer == READY if unit == SYNC else answer in (COMPLETE, ERROR)
