"""Pick-up: from a submission in another process until the handler runs, idle and at half load.

The submission is on the disk before the handler can run. Half load is half of the rate at which
this worker drained the same jobs a moment before, offered evenly by a third process.
"""

import statistics
import time
from functools import partial

from bench.harness import Aim, Benchmark, Contestant, Scale, parts
from bench.workloads.installations import STORES, installation
from bench.workloads.processes import sending
from bench.workloads.worker import Done, completed, submit, working
from detent.app.app import App
from detent.operations.context import Core

PICKUPS = 150
GAP_S = 0.02
#: How many jobs the worker drains to find out how fast it is.
PACE = 4_000
#: One submission at a time is the slower way in, so the load comes in handfuls.
HANDFUL = 20
QUANTILES = ("p50", "p99")


def quantiles(took: list[float]) -> dict[str, float]:
    return {"p50": statistics.median(took), "p99": statistics.quantiles(took, n=100)[98]}


class Timed:
    """An app whose jobs say how long they were on their way."""

    def __init__(self, count: int) -> None:
        self.app = App()
        self.took_ms: list[float] = []
        self.done = Done(count)
        self.app.intent("now")(self._now)
        self.app.intent("nothing")(self._nothing)

    def _now(self, at_ns: int) -> None:
        self.took_ms.append((time.time_ns() - at_ns) / 1e6)
        self.done.one()

    def _nothing(self) -> None:
        pass


def idle(store: str, count: int) -> dict[str, float]:
    """Milliseconds with nothing else to do."""
    timed = Timed(count)
    with (
        installation(store) as core,
        working(core, timed.app),
        sending(core.settings.url, "now", count, GAP_S) as sender,
    ):
        timed.done.wait()
        sender.wait()
    return quantiles(timed.took_ms)


def half_load(store: str, count: int, pace: int) -> dict[str, float]:
    """Milliseconds while the worker is kept half busy with other jobs."""
    timed = Timed(count)
    with installation(store) as core, working(core, timed.app):
        rate = _drained_per_second(core, pace) / 2
        with sending(core.settings.url, "now", count, GAP_S) as sender:
            _offer(core, rate, timed.done)
            sender.wait()
    return quantiles(timed.took_ms)


def _drained_per_second(core: Core, count: int) -> float:
    begun = time.perf_counter()
    submit(core, "nothing", count)
    completed(core, count)
    return count / (time.perf_counter() - begun)


def _offer(core: Core, rate: float, done: Done) -> None:
    """Jobs at an even rate, until all that are timed have come."""
    begun, sent = time.perf_counter(), 0
    while not done.over(max(0.0, begun + sent / rate - time.perf_counter())):
        submit(core, "nothing", HANDFUL)
        sent += HANDFUL


def _parts(store: str, busy: bool, scale: Scale) -> tuple[Contestant, ...]:
    count, pace = scale.of(PICKUPS, least=10), scale.of(PACE, least=200)
    measure = partial(half_load, store, count, pace) if busy else partial(idle, store, count)
    return parts(QUANTILES, measure)


BENCHMARKS = tuple(
    Benchmark(
        f"pick-up-{load}-{store}",
        f"From a submission in another process until the handler runs, {condition}.",
        "ms",
        partial(_parts, store, load == "half"),
        (Aim(3, who="p50"), Aim(8, who="p99")) if load == "idle" else (),
        less_is_better=True,
        rivals=False,
    )
    for load, condition in (("idle", "without other load"), ("half", "at half of the maximum load"))
    for store in STORES
)
