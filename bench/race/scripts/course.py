"""The course as a process of an entrant sees it: what to do, how to count, what to say.

Standard library only: each script is run by the interpreter of its peer. A script is called as
`script.py ACT URL PLACE COUNT SINGLES VARIANT` and says one line of JSON at the end.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

WITHIN_S = 240.0
GAP_S = 0.02
WARM_UP = -1
#: How many callers enqueue side by side, and which share of the jobs they enqueue at most.
CALLERS = 50
BY_CALLERS, MAX_BY_CALLERS = 0.25, 3_000


class Order(NamedTuple):
    """What one process of a peer is asked to do."""

    act: str
    url: str
    #: A directory of this peer's own, for the file that says "ready" and whatever it needs.
    place: Path
    jobs: int
    singles: int
    variant: str

    @property
    def together(self) -> int:
        """How many jobs are enqueued by callers side by side, each waiting for its answers."""
        return max(CALLERS, min(MAX_BY_CALLERS, round(self.jobs * BY_CALLERS)))

    @property
    def ready(self) -> Path:
        return self.place / "ready"


class Finish:
    """Counts the jobs whose handler ran, and how long each waited if it says when it was sent."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.ms: list[float] = []
        #: When the first handler ran, for peers whose start-up is not separate from their work.
        self.began: float | None = None
        self._left = order.jobs
        self._lock = threading.Lock()
        self._all = threading.Event()

    def one(self, at_us: int) -> None:
        if at_us == WARM_UP:
            self.order.ready.touch()
            return
        with self._lock:
            self.began = self.began or time.perf_counter()
            if at_us:
                self.ms.append((time.time_ns() // 1_000 - at_us) / 1_000)
            self._left -= 1
            if self._left == 0:
                self._all.set()

    def wait(self) -> None:
        if not self._all.wait(WITHIN_S):
            raise TimeoutError(f"{self._left} jobs did not come within {WITHIN_S:.0f} s")


def until(holds: Callable[[], bool], pause_s: float = 0.002) -> None:
    """Wait until it holds: that all is stored, after the last handler has run."""
    end_s = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > end_s:
            raise TimeoutError(f"not finished within {WITHIN_S:.0f} s")
        time.sleep(pause_s)


def enqueue(
    order: Order,
    single: Callable[[int], object],
    bulk: Callable[[int], object] | None,
    together: Callable[[int], object] | None,
) -> dict[str, Any]:
    """Some jobs one by one, some by callers side by side, then many in one call, where it can.

    Where it cannot, as many are enqueued some other way, for there must be as much to drain. One
    goes before all others, since some connect at the first.
    """
    single(0)
    single_s = _timed(lambda: [single(0) for _ in range(order.singles)])
    timings: dict[str, Any] = {"single_s": single_s, "bulk_s": None, "together_s": None}
    if together is not None:
        timings["together_s"] = _timed(lambda: together(order.together))
    else:
        (bulk or _one_by_one(single))(order.together)
    if bulk is not None:
        timings["bulk_s"] = _timed(lambda: bulk(order.jobs))
    else:
        (together or _one_by_one(single))(order.jobs)
    every = 1 + order.singles + order.together + order.jobs
    return {**timings, "together": order.together, "enqueued": every}


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _one_by_one(single: Callable[[int], object]) -> Callable[[int], object]:
    return lambda count: [single(0) for _ in range(count)]


def by_threads(single: Callable[[int], object]) -> Callable[[int], None]:
    """Parallel callers for entrants with a plain function."""

    def caller(count: int) -> None:
        for _ in range(count):
            single(0)

    def together(count: int) -> None:
        shares = [len(range(number, count, CALLERS)) for number in range(CALLERS)]
        threads = [threading.Thread(target=caller, args=(share,)) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return together


async def by_coroutines(single: Callable[[], Awaitable[object]], count: int) -> None:
    """The same for entrants with a coroutine function."""

    async def caller(share: int) -> None:
        for _ in range(share):
            await single()

    await asyncio.gather(*(caller(len(range(number, count, CALLERS))) for number in range(CALLERS)))


def send(order: Order, single: Callable[[int], object]) -> dict[str, Any]:
    """Jobs one at a time with a pause after each, once the worker has shown that it is there."""
    single(WARM_UP)
    until(order.ready.exists, 0.01)
    time.sleep(1.0)
    for _ in range(order.jobs):
        time.sleep(GAP_S)
        single(time.time_ns() // 1_000)
    # A real submitter stays alive; some notify the worker shortly after the commit.
    time.sleep(0.5)
    return {}


def drained(begun: float | None) -> dict[str, Any]:
    assert begun is not None
    return {"drain_s": time.perf_counter() - begun}


def working_acts(
    working: Callable[[Order, Finish], float],
) -> dict[str, Callable[[Order], dict[str, Any]]]:
    """The acts of a worker, for entrants with one function that runs it to the end of all jobs."""

    def drain(order: Order) -> dict[str, Any]:
        return {"drain_s": working(order, Finish(order))}

    def pick_up(order: Order) -> dict[str, Any]:
        finish = Finish(order)
        working(order, finish)
        return {"ms": finish.ms}

    return {"drain": drain, "pick-up": pick_up}


def run(acts: dict[str, Callable[[Order], dict[str, Any]]]) -> None:
    """Do what the command line asks. Threads that a peer leaves behind do not keep it alive."""
    act, url, place, count, singles, variant = sys.argv[1:]
    timings = acts[act](Order(act, url, Path(place), int(count), int(singles), variant))
    print(json.dumps(timings), flush=True)
    sys.stderr.flush()
    os._exit(0)
