"""Where runs are carried out: threads for functions and commands, one loop for coroutines.

Both take a list of work and say how much room they have; neither knows the store.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from queue import SimpleQueue
from time import monotonic
from typing import Any

from detent.worker.active_run import Attempt, Stop

log = logging.getLogger("detent.worker")

#: Something for a thread: a run, or a chore for a plan.
Item = Attempt | Callable[[], None]

#: Shorter than this, a job costs less than claiming it: they are claimed ahead, in batches.
TINY_S = 0.001
#: A thread that is at one run for this long holds up what waits behind it.
STALLED_S = 0.02
#: How much work is claimed ahead, in time and in number.
AHEAD_S = 0.05
MAX_AHEAD = 500


class Pace:
    """How long runs take, as a mean that forgets: long ones at once end claiming ahead."""

    def __init__(self) -> None:
        self.mean_s = 1.0

    def note(self, took_s: float) -> None:
        self.mean_s += (took_s - self.mean_s) * 0.1

    @property
    def tiny(self) -> bool:
        return self.mean_s < TINY_S

    def ahead(self) -> int:
        """How many jobs to hold beyond those that run; none unless they are tiny."""
        return min(MAX_AHEAD, int(AHEAD_S / max(self.mean_s, 1e-6))) if self.tiny else 0


class Seat:
    """One thread of the pool. An abandoned one ends when its work does, whenever that is."""

    __slots__ = ("abandoned", "item")

    def __init__(self) -> None:
        self.abandoned = False
        self.item: Item | None = None


class Threads:
    """A pool of threads that take work from one backlog."""

    def __init__(self, size: int, carry: Callable[[Item], None], freed: Callable[[], None]) -> None:
        self.size, self.carry, self.freed = size, carry, freed
        self.backlog: deque[Item] = deque()
        self.pace = Pace()
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._seats: set[Seat] = set()
        self._lock = threading.Lock()

    def busy(self) -> int:
        return sum(1 for seat in list(self._seats) if seat.item is not None)

    def stalled(self) -> bool:
        """Every thread there may be is at a run that takes its time: claims would only wait."""
        begun_s = [_begun_s(seat.item) for seat in list(self._seats)]
        before_s = monotonic() - STALLED_S
        return len(begun_s) >= self.size and all(each and each < before_s for each in begun_s)

    def room(self) -> int:
        """How many more jobs to claim now."""
        ahead = self.pace.ahead()
        waiting = len(self.backlog)
        if ahead and waiting <= ahead // 2 and not self.stalled():
            return ahead - waiting
        return max(self.size - self.busy() - waiting, 0)

    def put(self, items: Sequence[Item]) -> None:
        """Tiny work wakes one thread: more would only fight for the interpreter."""
        self.backlog.extend(items)
        self.wake(1 if self.pace.tiny else len(items))

    def wake(self, count: int) -> None:
        """Let up to this many threads look at the backlog."""
        with self._lock:
            for _ in range(min(count, self.size)):
                if len(self._seats) < self.size and len(self._seats) <= self.busy():
                    self._open_seat()
                self._tokens.put(True)

    def _open_seat(self) -> None:
        seat = Seat()
        self._seats.add(seat)
        threading.Thread(target=self._work, args=(seat,), name="detent-run", daemon=True).start()

    def _work(self, seat: Seat) -> None:
        backlog, carry = self.backlog, self.carry
        while self._tokens.get():
            while not seat.abandoned:
                try:
                    seat.item = backlog.popleft()
                except IndexError:
                    break
                try:
                    carry(seat.item)
                except BaseException:
                    log.exception("a worker thread met a fault of the worker's own")
                seat.item = None
                if len(backlog) <= MAX_AHEAD // 2:
                    self.freed()
            if seat.abandoned:
                return

    def abandon(self, attempt: Attempt) -> None:
        """Leave a function that cannot be stopped alone: another thread takes its place."""
        with self._lock:
            for seat in list(self._seats):
                if seat.item is attempt:
                    seat.abandoned = True
                    self._seats.discard(seat)
        self.freed()

    def withdraw(self) -> list[Attempt]:
        """Runs that nobody has started yet, taken out of the backlog."""
        items = []
        while self.backlog:
            try:
                items.append(self.backlog.popleft())
            except IndexError:
                break
        self.backlog.extend(each for each in items if not isinstance(each, Attempt))
        return [each for each in items if isinstance(each, Attempt)]

    def stop(self) -> None:
        for _ in list(self._seats):
            self._tokens.put(False)


def _begun_s(item: Item | None) -> float | None:
    return item.started_s if isinstance(item, Attempt) else None


class Loop:
    """An event loop in a thread of its own, for coroutines."""

    def __init__(
        self,
        size: int,
        carry: Callable[[Attempt], Coroutine[Any, Any, None]],
        freed: Callable[[], None],
    ) -> None:
        self.size, self.carry, self.freed = size, carry, freed
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

    def room(self) -> int:
        return max(self.size - self.live, 0)

    def put(self, attempts: Sequence[Attempt]) -> None:
        with self._count:
            self.live += len(attempts)
        self.loop.call_soon_threadsafe(self._begin, attempts)

    def _begin(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            task = self.loop.create_task(self.carry(attempt))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            attempt.on_stop(Canceller(self.loop, task))

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        with self._count:
            self.live -= 1
        self.freed()

    def stop(self) -> None:
        """Cancel what is left and end the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._wind_down(), self.loop)
            self._thread.join(timeout=5)
        if not self.loop.is_running():
            self.loop.close()

    async def _wind_down(self) -> None:
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
