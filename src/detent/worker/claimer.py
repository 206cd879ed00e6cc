"""The claimer: a thread that asks for as many jobs as there is room for.

It is woken by the notifier, by a freed place, or by a time that is due.
"""

import heapq
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from detent import failpoints
from detent.clock import since_boot_s
from detent.engine import Claimed, Engine, due_timers
from detent.engine.claims import ClaimAsk, Sessions
from detent.errors import DetentError
from detent.worker.active_run import Attempt

log = logging.getLogger("detent.worker")

#: At most this often time is asked what it has brought, unless something is known to be due.
DUE_S = 0.25
MAX_DUE = 200
AGAIN_S = 1.0
PIECE_S = 0.2
#: The bell may ring for others, again and again: then it is answered later and later.
PATIENT_RINGS, FIRST_PAUSE_S, LONGEST_PAUSE_S = 3, 0.001, 0.025


class Pool(Protocol):
    """Something that has room for runs, and takes them."""

    def room(self) -> int: ...

    def put(self, items: Sequence[Attempt], /) -> None: ...


class Lane(NamedTuple):
    """Intents that are carried out in one pool."""

    pool: Pool
    intents: Collection[str]


class Alarms:
    """Times in the store's clock at which something that this worker knows of is due."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._lock = threading.Lock()

    def add(self, at: int) -> None:
        with self._lock:
            heapq.heappush(self._times, at)

    def due(self, now: int) -> bool:
        """Whether one has gone off; it is forgotten then."""
        gone_off = False
        with self._lock:
            while self._times and self._times[0] <= now:
                heapq.heappop(self._times)
                gone_off = True
        return gone_off

    def next_s(self, now: int) -> float:
        """Seconds until the next one."""
        with self._lock:
            return max(0.0, (self._times[0] - now) / 1_000_000) if self._times else float("inf")


class Claimer:
    """Claims for the lanes of one worker."""

    def __init__(
        self,
        engine: Engine,
        worker: str,
        lanes: Sequence[Lane],
        poll_s: float,
        most: Callable[[], int],
        take: Callable[[Lane, list[Claimed], float], None],
        sessions: Sessions | None = None,
    ) -> None:
        self.engine, self.worker, self.lanes, self.poll_s = engine, worker, lanes, poll_s
        #: The most jobs that may be claimed at once now.
        self.most, self.take = most, take
        self.sessions = sessions
        self.alarms = Alarms()
        self._freed = threading.Event()
        self._stop = threading.Event()
        self._due_s = 0.0
        self._in_vain = 0
        self._thread = threading.Thread(target=self._loop, name="detent-claimer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No new claims from here on."""
        self._stop.set()
        self._freed.set()
        self.engine.store.notify()
        if self._thread.is_alive():
            self._thread.join()

    def freed(self) -> None:
        """There may be room again."""
        if not self._freed.is_set():
            self._freed.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self._round()
            except DetentError as error:
                log.warning("nothing can be claimed now: %s", error)
                self._stop.wait(AGAIN_S)
            except Exception:
                log.exception("claiming failed")
                self._stop.wait(AGAIN_S)

    def _round(self) -> None:
        """Claim what fits; if that was everything there is, wait for more."""
        with self.engine.store.read() as view:
            head, now = view.head(), view.now()
        self._freed.clear()
        room = self._room()
        if not room:
            self._freed.wait(self.poll_s)
            return
        self._look_at_the_clock(now)
        full = [self._claim(lane, places) for lane, places in room if self.most()]
        if not any(full):
            self._pause()
            self._wait(head, min(self.poll_s, self.alarms.next_s(now)))

    def _pause(self) -> None:
        over = self._in_vain - PATIENT_RINGS
        if over > 0:
            self._stop.wait(min(FIRST_PAUSE_S * 2 ** min(over, 10), LONGEST_PAUSE_S))

    def _wait(self, head: int, seconds: float) -> None:
        """For the notifier, in short pieces, so that a stop is not kept waiting."""
        until_s = time.monotonic() + seconds
        while not self._stop.is_set() and (left_s := until_s - time.monotonic()) > 0:
            if self.engine.store.wait(head, min(left_s, PIECE_S)):
                return
            self._in_vain = 0

    def _room(self) -> list[tuple[Lane, int]]:
        most = self.most()
        if not most:
            return []
        rooms = [(lane, min(most, lane.pool.room())) for lane in self.lanes]
        return [(lane, places) for lane, places in rooms if places > 0]

    def _look_at_the_clock(self, now: int) -> None:
        """Lost leases, waits that are over, limits that have passed."""
        now_s = time.monotonic()
        if not self.alarms.due(now) and now_s < self._due_s:
            return
        done = self.engine.within(lambda tx: due_timers.run(tx, MAX_DUE, self.engine.lifetimes))
        self._due_s = 0.0 if done >= MAX_DUE else now_s + DUE_S

    def _claim(self, lane: Lane, places: int) -> bool:
        """True if all the room was used: there may be more."""
        nonce = secrets.token_hex(8)
        ask = ClaimAsk(self.worker, nonce, places, lane.intents, sessions=self.sessions)
        begun_s = since_boot_s()  # the lease lasts from before the claim, by our own clock
        claimed = self.engine.claim(ask)
        self._in_vain = 0 if claimed else self._in_vain + 1
        if claimed:
            failpoints.hit("claim.after")
            self.take(lane, claimed, begun_s)
        return len(claimed) == places
