"""The claimer: a thread that claims jobs for the free slots of the pools, and short ones ahead.

A notification of the store, a freed slot, reported jobs, or a due time wakes it.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence

from detent import failpoints
from detent.boot_time import since_boot_s
from detent.engine import Claimed, Engine, due_timers
from detent.engine.claims import Ahead, ClaimRequest, Sessions
from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.store.job_sets import MAX_CLAIMED
from detent.store.port import WriteTransaction
from detent.worker.due_times import Alarms
from detent.worker.pools import IntentPool

log = logging.getLogger("detent.worker")

#: The minimum interval between scans for due timers, unless an alarm says that one is due.
DUE_S = 0.25
MAX_DUE = 200
RETRY_S = 1.0
SLICE_S = 0.2
#: Notifications may concern other workers' jobs: after this many claims without a job, pause first.
FREE_CLAIMS, FIRST_PAUSE_S, LONGEST_PAUSE_S = 3, 0.001, 0.025


class Claimer:
    """Claims jobs for the pools of one worker, and passes them to `take`."""

    def __init__(
        self,
        engine: Engine,
        worker: str,
        pools: Sequence[IntentPool],
        poll_s: float,
        limit: Callable[[], int],
        take: Callable[[IntentPool, list[Claimed], float], None],
        alarms: Alarms,
        sessions: Sessions | None = None,
        workers: Callable[[], int] = lambda: 1,
    ) -> None:
        self.engine, self.worker, self.pools, self.poll_s = engine, worker, pools, poll_s
        #: How many jobs may be claimed at most now.
        self.limit, self.take = limit, take
        self.alarms = alarms
        self.sessions = sessions
        #: How many workers take the same jobs, as far as this one knows.
        self.workers = workers
        self._failures = FailureLog(log, "jobs cannot be claimed now", "jobs are claimed again")
        self._freed = threading.Event()
        self._stop = threading.Event()
        self._due_s = 0.0
        #: The store's clock at the last scan for due timers, and when that was.
        self._store_now, self._read_s = 0, time.monotonic()
        self._empty_claims = 0
        self._thread = threading.Thread(target=self._loop, name="detent-claimer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claim nothing more, and end the thread."""
        self._stop.set()
        self._freed.set()
        self.engine.store.notify()
        if self._thread.is_alive():
            self._thread.join()

    def freed(self) -> None:
        """Wake the claimer: a slot may be free, or the worker may hold more jobs."""
        if not self._freed.is_set():
            self._freed.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self._round()
            except DetentError as error:
                self._failures.failed(error)
                self._stop.wait(RETRY_S)
            except Exception:
                log.exception("internal error while claiming jobs")
                self._stop.wait(RETRY_S)

    def _round(self) -> None:
        """Claim for every pool that can take jobs; if the queue had fewer, wait for more.

        Due timers are handled after the claim, which must not wait for them.
        """
        noticed = self.engine.store.noticed()
        self._freed.clear()
        asks = self._asks()
        if not asks:
            self._freed.wait(self.poll_s)
            return
        filled = [self._claim(pool, ask) for pool, ask in asks if self.limit()]
        self._run_due_timers()
        self._failures.worked()
        if not any(filled):
            self._pause()
            self._wait(noticed, min(self.poll_s, self.alarms.next_s(self._now())))

    def _pause(self) -> None:
        over = self._empty_claims - FREE_CLAIMS
        if over > 0:
            self._stop.wait(min(FIRST_PAUSE_S * 2 ** min(over, 10), LONGEST_PAUSE_S))

    def _wait(self, noticed: int, seconds: float) -> None:
        """Wait for a notification, in short slices, so that a stop does not wait."""
        until_s = time.monotonic() + seconds
        while not self._stop.is_set() and (left_s := until_s - time.monotonic()) > 0:
            if self.engine.store.wait_for_notice(noticed, min(left_s, SLICE_S)):
                return
            self._empty_claims = 0

    def _asks(self) -> list[tuple[IntentPool, ClaimRequest]]:
        """What to claim for each pool that can take something now."""
        limit = min(self.limit(), MAX_CLAIMED)
        if not limit:
            return []
        asks = [(each, self._ask(each, limit)) for each in self.pools]
        return [(each, ask) for each, ask in asks if ask.most > 0]

    def _ask(self, intent_pool: IntentPool, limit: int) -> ClaimRequest:
        pool, intents, short = intent_pool
        slots, ahead_s = pool.room()
        slots, ahead = min(limit, slots), None
        costs = pool.pace.costs(short) if ahead_s else {}
        jobs = min(limit - slots, int(ahead_s / min(costs.values()))) if costs else 0
        if jobs > 0:
            ahead = Ahead(costs, ahead_s, jobs, self.workers())
        nonce = secrets.token_hex(8)
        return ClaimRequest(self.worker, nonce, slots, intents, sessions=self.sessions, ahead=ahead)

    def _run_due_timers(self) -> None:
        """Handle expired leases, waits that are over, and deadlines."""
        now_s = time.monotonic()
        if now_s < self._due_s and not self.alarms.due(self._now()):
            return

        def run(tx: WriteTransaction) -> tuple[int, int]:
            return due_timers.run(tx, MAX_DUE, self.engine.lifetimes), tx.now()

        done, self._store_now = self.engine.transaction(run)
        self._read_s = now_s
        self.alarms.due(self._store_now)
        self._due_s = 0.0 if done >= MAX_DUE else now_s + DUE_S

    def _now(self) -> int:
        """The store's clock, counted on from when it was read last."""
        return self._store_now + int((time.monotonic() - self._read_s) * 1_000_000)

    def _claim(self, pool: IntentPool, ask: ClaimRequest) -> bool:
        """Claim jobs for one pool. True if all slots were filled: there may be more jobs."""
        begun_s = since_boot_s()  # the lease counts from before the claim, by this machine's clock
        claimed = self.engine.claim(ask)
        self._empty_claims = 0 if claimed else self._empty_claims + 1
        if claimed:
            failpoints.hit("claim.after")
            self.take(pool, claimed, begun_s)
        return len(claimed) >= max(ask.limit, 1)
