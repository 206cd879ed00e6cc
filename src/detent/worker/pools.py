"""Pools that execute runs: threads for functions and commands, an event loop for coroutines.

Both take runs and say how many more they can take (`free_slots`). Neither knows the store.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from queue import SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol

from detent.app.run_interface import Stop
from detent.worker.active_run import ActiveRun

log = logging.getLogger("detent.worker")

#: Work for a thread: a run, or a function that does something for a plan.
Item = ActiveRun | Callable[[], None]

#: Runs that are shorter than this on average are claimed ahead, in batches.
TINY_S = 0.001
#: A thread that executes one run for this long blocks the backlog.
STALLED_S = 0.02
#: How much work is claimed ahead, in time and in number.
AHEAD_S = 0.05
MAX_AHEAD = 500


class Pool(Protocol):
    """Executes runs, as many at the same time as it has slots."""

    def free_slots(self) -> int: ...

    def put(self, items: Sequence[ActiveRun], /) -> None: ...


class IntentPool(NamedTuple):
    """A pool, and the intents whose runs it executes."""

    pool: Pool
    intents: Collection[str]


class Pace:
    """The moving average of how long runs take. One long run ends claiming ahead."""

    def __init__(self) -> None:
        self.mean_s = 1.0

    def note(self, took_s: float) -> None:
        self.mean_s += (took_s - self.mean_s) * 0.1

    @property
    def tiny(self) -> bool:
        return self.mean_s < TINY_S

    def ahead(self) -> int:
        """How many jobs to claim beyond those that run; 0 unless runs are short."""
        return min(MAX_AHEAD, int(AHEAD_S / max(self.mean_s, 1e-6))) if self.tiny else 0


class PoolThread:
    """A thread of the pool. An abandoned thread ends when its run has ended."""

    __slots__ = ("abandoned", "item")

    def __init__(self) -> None:
        self.abandoned = False
        self.item: Item | None = None


class Threads:
    """A pool of threads that take work from one backlog."""

    def __init__(
        self, size: int, perform: Callable[[Item], None], freed: Callable[[], None]
    ) -> None:
        self.size, self.perform, self.freed = size, perform, freed
        self.backlog: deque[Item] = deque()
        self.pace = Pace()
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._pool_threads: set[PoolThread] = set()
        self._lock = threading.Lock()

    def busy(self) -> int:
        return sum(1 for pool_thread in list(self._pool_threads) if pool_thread.item is not None)

    def stalled(self) -> bool:
        """Whether every thread executes a long run, so that claimed jobs would only wait."""
        begun_s = [_begun_s(pool_thread.item) for pool_thread in list(self._pool_threads)]
        before_s = monotonic() - STALLED_S
        return len(begun_s) >= self.size and all(each and each < before_s for each in begun_s)

    def free_slots(self) -> int:
        """How many more jobs the claimer can claim now."""
        ahead = self.pace.ahead()
        waiting = len(self.backlog)
        if ahead and waiting <= ahead // 2 and not self.stalled():
            return ahead - waiting
        return max(self.size - self.busy() - waiting, 0)

    def put(self, items: Sequence[Item]) -> None:
        """Add runs to the backlog. Short runs wake one thread: more would compete for the GIL."""
        self.backlog.extend(items)
        self.wake(1 if self.pace.tiny else len(items))

    def wake(self, count: int) -> None:
        """Wake up to this many threads; each takes runs from the backlog."""
        with self._lock:
            for _ in range(min(count, self.size)):
                if len(self._pool_threads) < self.size and len(self._pool_threads) <= self.busy():
                    self._start_thread()
                self._tokens.put(True)

    def _start_thread(self) -> None:
        pool_thread = PoolThread()
        self._pool_threads.add(pool_thread)
        threading.Thread(
            target=self._work, args=(pool_thread,), name="detent-run", daemon=True
        ).start()

    def _work(self, pool_thread: PoolThread) -> None:
        backlog, perform = self.backlog, self.perform
        while self._tokens.get():
            while not pool_thread.abandoned:
                try:
                    pool_thread.item = backlog.popleft()
                except IndexError:
                    break
                try:
                    perform(pool_thread.item)
                except BaseException:
                    log.exception("internal error of the worker while it executed a run")
                pool_thread.item = None
                if len(backlog) <= MAX_AHEAD // 2:
                    self.freed()
            if pool_thread.abandoned:
                return

    def abandon(self, run: ActiveRun) -> None:
        """Give the slot of a function that cannot be stopped to a new thread."""
        with self._lock:
            for pool_thread in list(self._pool_threads):
                if pool_thread.item is run:
                    pool_thread.abandoned = True
                    self._pool_threads.discard(pool_thread)
        self.freed()

    def withdraw(self) -> list[ActiveRun]:
        """Remove the runs that have not started from the backlog, and return them."""
        items = []
        while self.backlog:
            try:
                items.append(self.backlog.popleft())
            except IndexError:
                break
        self.backlog.extend(each for each in items if not isinstance(each, ActiveRun))
        return [each for each in items if isinstance(each, ActiveRun)]

    def stop(self) -> None:
        for _ in list(self._pool_threads):
            self._tokens.put(False)


def _begun_s(item: Item | None) -> float | None:
    return item.started_s if isinstance(item, ActiveRun) else None


class EventLoop:
    """Executes coroutines on an event loop, which has its own thread."""

    def __init__(
        self,
        size: int,
        perform: Callable[[ActiveRun], Coroutine[Any, Any, None]],
        freed: Callable[[], None],
    ) -> None:
        self.size, self.perform, self.freed = size, perform, freed
        self.loop = asyncio.new_event_loop()
        self.live = 0
        self._count = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="detent-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def free_slots(self) -> int:
        return max(self.size - self.live, 0)

    def put(self, runs: Sequence[ActiveRun]) -> None:
        with self._count:
            self.live += len(runs)
        self.loop.call_soon_threadsafe(self._begin, runs)

    def _begin(self, runs: Sequence[ActiveRun]) -> None:
        for run in runs:
            task = self.loop.create_task(self.perform(run))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            run.on_stop(Canceller(self.loop, task))

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        with self._count:
            self.live -= 1
        self.freed()

    def stop(self) -> None:
        """Cancel the coroutines that are left and end the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self.loop)
            self._thread.join(timeout=5)
        if not self.loop.is_running():
            self.loop.close()

    async def _cancel_all(self) -> None:
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.wait([*left, asyncio.ensure_future(asyncio.sleep(0))], timeout=1)
        await self.loop.shutdown_default_executor()
        self.loop.stop()


class Canceller:
    """Cancels a coroutine's task when its run must stop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
        self.loop, self.task = loop, task

    def __call__(self, why: Stop) -> None:
        log.debug("cancelling a coroutine: %s", why)
        self.loop.call_soon_threadsafe(self.task.cancel)
