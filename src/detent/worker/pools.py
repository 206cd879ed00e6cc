"""Pools that execute runs: threads for functions and commands, an event loop for coroutines.

Both take runs and say how many more they can take (`room`). Neither knows the store.
"""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from queue import SimpleQueue
from time import monotonic
from typing import Any, NamedTuple, Protocol

from detent.app.run_interface import Stop
from detent.worker.active_run import ActiveRun
from detent.worker.pace import AHEAD_S, Pace

log = logging.getLogger("detent.worker")

#: Work for a thread: a run, or a function that does something for a plan.
Item = ActiveRun | Callable[[], None]

#: A thread that executes one run for this long blocks the backlog.
STALLED_S = 0.02


class Room(NamedTuple):
    """What a pool can take now: runs that start, and seconds of work ahead of them."""

    slots: int
    ahead_s: float = 0.0


class Pool(Protocol):
    """Executes runs, as many at the same time as it has slots."""

    pace: Pace

    def room(self) -> Room: ...

    def put(self, items: Sequence[ActiveRun], /) -> None: ...


class IntentPool(NamedTuple):
    """A pool, the intents whose runs it executes, and those of them that can be claimed ahead."""

    pool: Pool
    intents: Collection[str]
    ahead: Collection[str] = ()


class Backlog:
    """Work of a pool that has not started, with an estimate of the time that it takes."""

    def __init__(self, pace: Pace) -> None:
        self.items: deque[Item] = deque()
        self.pace = pace
        self._cost_s = AHEAD_S

    def __len__(self) -> int:
        return len(self.items)

    def extend(self, items: Sequence[Item]) -> None:
        """Add work, and estimate what one item of it costs."""
        names = Counter(item.intent.name for item in items if isinstance(item, ActiveRun))
        costs = self.pace.costs(names)
        total_s = sum(costs.get(name, AHEAD_S) * count for name, count in names.items())
        if names:
            self._cost_s = total_s / names.total()
        self.items.extend(items)

    def ahead_s(self) -> float:
        """How many more seconds of work are claimed ahead; 0 while half of it is there."""
        left_s = AHEAD_S - len(self.items) * self._cost_s
        return left_s if left_s >= AHEAD_S / 2 else 0.0

    def withdraw(self) -> list[ActiveRun]:
        """Remove the runs, and return them; other work stays."""
        items = []
        while self.items:
            try:
                items.append(self.items.popleft())
            except IndexError:
                break
        self.items.extend(each for each in items if not isinstance(each, ActiveRun))
        return [each for each in items if isinstance(each, ActiveRun)]

    def oldest(self) -> ActiveRun | None:
        """The run that waits longest, if the backlog did not change meanwhile."""
        try:
            return next((each for each in self.items if isinstance(each, ActiveRun)), None)
        except RuntimeError:  # it changed during the iteration
            return None


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
        self.pace = Pace(size)
        self.backlog = Backlog(self.pace)
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

    def room(self) -> Room:
        slots = max(self.size - self.busy() - len(self.backlog), 0)
        return Room(slots, 0.0 if self.stalled() else self.backlog.ahead_s())

    def put(self, items: Sequence[Item]) -> None:
        """Add runs to the backlog. Tiny runs wake one thread: more would compete for the GIL."""
        self.backlog.extend(items)
        others = sum(not self._is_tiny(item) for item in items)
        self.wake(others + (others < len(items)))

    def _is_tiny(self, item: Item) -> bool:
        return isinstance(item, ActiveRun) and self.pace.tiny(item.intent.name)

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
        backlog, perform = self.backlog.items, self.perform
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
                if self.backlog.ahead_s() > 0:
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
        """Remove the runs that have not started, and return them."""
        return self.backlog.withdraw()

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
        self.pace = Pace(size)
        self.backlog = Backlog(self.pace)
        self.loop = asyncio.new_event_loop()
        self.live = 0
        self._ended_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="detent-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def room(self) -> Room:
        slots = max(self.size - self.live - len(self.backlog), 0)
        return Room(slots, 0.0 if self.stalled() else self.backlog.ahead_s())

    def stalled(self) -> bool:
        """Whether all slots are taken and no run has ended recently."""
        return self.live >= self.size and monotonic() - self._ended_s > STALLED_S

    def put(self, runs: Sequence[ActiveRun]) -> None:
        self.backlog.extend(runs)
        self.loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        """Begin as many runs of the backlog as there are slots for."""
        waiting = self.backlog.items
        while self.live < self.size and waiting:
            try:
                run = waiting.popleft()
            except IndexError:
                return
            assert isinstance(run, ActiveRun)
            self.live += 1
            task = self.loop.create_task(self.perform(run))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            run.on_stop(Canceller(self.loop, task))

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self.live -= 1
        self._ended_s = monotonic()
        if self.backlog.items:
            self._begin()
        if self.backlog.ahead_s() > 0:
            self.freed()

    def withdraw(self) -> list[ActiveRun]:
        """Remove the runs that have not started, and return them."""
        return self.backlog.withdraw()

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
