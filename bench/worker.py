"""Work through a real worker: end to end, pick-up, durable workflows, signals, subtasks.

One worker in this process with its default settings, as `detent worker` runs it. Latency is
measured from another process, whose submission is on the disk before the time is taken to count.
"""

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.harness import Benchmark, Contestant
from bench.installations import STORES, installation
from detent.engine import Ask
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.core import Core
from detent.store.port import Query
from detent.worker.app import App
from detent.worker.loop import Worker
from detent.worker.run import Run

JOBS = 4_000
IN_BULK = 1_000
WORKFLOWS = 300
WAITING = 1_000
CHILDREN = 1_000
PICKUPS = 200
PICKUP_GAP_S = 0.02
WITHIN_S = 300.0


class Done:
    """Counts ends, and tells when all are there."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self._lock = threading.Lock()
        self._all = threading.Event()

    def one(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._all.set()

    def wait(self) -> None:
        if not self._all.wait(WITHIN_S):
            raise TimeoutError(f"{self._left} did not come within {WITHIN_S} s")


@contextmanager
def working(core: Core, app: App, **options: Any) -> Iterator[Worker]:
    worker = Worker(core, app, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace_s=0)


def submit(core: Core, intent: str, count: int) -> list[str]:
    """Jobs in bulk, as a client with many of them submits."""
    ids = [new_id() for _ in range(count)]
    for begin in range(0, count, IN_BULK):
        asks = [
            Ask(c.SubmitJob(each, "bench", intent), c.Actor("bench"), fresh=True)
            for each in ids[begin : begin + IN_BULK]
        ]
        core.engine.ask(asks, bulk=True)
    return ids


def completed(core: Core, count: int) -> None:
    """Wait until so many jobs are completed, by their rows."""
    end_s = time.monotonic() + WITHIN_S
    with core.store.read() as view:
        at = view.head()
    while time.monotonic() < end_s:
        with core.store.read() as view:
            at = view.head()
            states = view.count_by(Query("jobs"), "state")
        if states.get("completed", 0) >= count:
            return
        core.store.wait(at, 0.05)
    raise TimeoutError(f"{count} jobs were not completed within {WITHIN_S} s")


# ---- throughput --------------------------------------------------------------------------------


def end_to_end(kind: str) -> float:
    """Jobs per second from the first submission until the last one is completed."""
    app = App()
    done = Done(JOBS)
    app.intent("nothing")(done.one)
    with installation(kind) as core:
        begun = time.perf_counter()
        submit(core, "nothing", JOBS)
        with working(core, app):
            done.wait()
            completed(core, JOBS)
            took = time.perf_counter() - begun
    return JOBS / took


def workflows(kind: str) -> float:
    """Workflows of five durable steps per second, each step committed before the next begins."""
    app = App()

    @app.intent("five")
    def five(run: Run) -> int:
        return sum(run.step(f"step-{number}", int, number) for number in range(5))

    with installation(kind) as core:
        submit(core, "five", WORKFLOWS)
        begun = time.perf_counter()
        with working(core, app, concurrency=50):
            completed(core, WORKFLOWS)
            took = time.perf_counter() - begun
    return WORKFLOWS / took


def signals(kind: str) -> float:
    """Waiting jobs per second from the first signal until all are completed."""
    app = App()

    @app.intent("hear")
    def hear(run: Run) -> Any:
        return run.wait_for("go")

    with installation(kind) as core:
        ids = submit(core, "hear", WAITING)
        with working(core, app, concurrency=50):
            _until(core, {"waiting", "parked"}, WAITING)
            begun = time.perf_counter()
            asks = [Ask(c.SendSignal(each, "go", 1), c.Actor("bench")) for each in ids]
            core.engine.ask(asks, bulk=True)
            completed(core, WAITING)
            took = time.perf_counter() - begun
    return WAITING / took


def _until(core: Core, states: set[str], count: int) -> None:
    end_s = time.monotonic() + WITHIN_S
    while time.monotonic() < end_s:
        with core.store.read() as view:
            found = view.count_by(Query("jobs"), "state")
        if sum(found.get(state, 0) for state in states) >= count:
            return
        time.sleep(0.02)
    raise TimeoutError(f"{count} jobs did not come to rest within {WITHIN_S} s")


def fan_out(kind: str) -> float:
    """Subtasks per second: a parent makes them all, they run, and it goes on with their results."""
    app = App()

    @app.intent("child")
    def child(number: int) -> int:
        return number

    @app.intent("parent")
    def parent(run: Run) -> int:
        return sum(run.map(child, [{"number": number} for number in range(CHILDREN)]))

    with installation(kind) as core:
        handle = app.bind(core).submit("parent")
        begun = time.perf_counter()
        with working(core, app):
            assert handle.result(timeout=WITHIN_S) == sum(range(CHILDREN))
            took = time.perf_counter() - begun
    return CHILDREN / took


# ---- pick-up -----------------------------------------------------------------------------------

SUBMITTER = """
import sys, time
from detent.engine import Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.open import open_store
url, count, gap_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
engine = Engine(open_store(url))
for _ in range(count):
    time.sleep(gap_s)
    engine.do(
        c.SubmitJob(new_id(), "bench", "now", payload={"at_ns": time.time_ns()}),
        c.Actor("bench"), fresh=True,
    )
"""


def pick_up(kind: str, part: Callable[[list[float]], float]) -> float:
    """Milliseconds from a submission in another process until the handler runs."""
    app = App()
    took: list[float] = []
    done = Done(PICKUPS)

    @app.intent("now")
    def now(at_ns: int) -> None:
        took.append((time.time_ns() - at_ns) / 1e6)
        done.one()

    with installation(kind) as core, working(core, app):
        command = [sys.executable, "-c", SUBMITTER, core.settings.url]
        with subprocess.Popen([*command, str(PICKUPS), str(PICKUP_GAP_S)]) as process:
            done.wait()
            process.wait()
    return part(took)


def worst_but_one_percent(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


def _each(work: Callable[[str], float]) -> tuple[Contestant, ...]:
    return tuple(Contestant(kind, partial(work, kind)) for kind in STORES)


def _pick_ups() -> tuple[Contestant, ...]:
    parts: dict[str, Callable[[list[float]], float]] = {
        "p50": statistics.median,
        "p99": worst_but_one_percent,
    }
    return tuple(
        Contestant(f"{kind} {name}", partial(pick_up, kind, part))
        for kind in STORES
        for name, part in parts.items()
    )


BENCHMARKS = (
    Benchmark(
        "end-to-end",
        f"{JOBS:,} jobs that do nothing, submitted in bulk, then drained by one worker.",
        "jobs/s",
        partial(_each, end_to_end),
        rivals=False,
    ),
    Benchmark(
        "workflows",
        "Workflows of five durable steps, 50 at once.",
        "workflows/s",
        partial(_each, workflows),
        rivals=False,
    ),
    Benchmark(
        "signals",
        f"{WAITING:,} waiting jobs woken by a signal each.",
        "jobs/s",
        partial(_each, signals),
        rivals=False,
    ),
    Benchmark(
        "fan-out",
        f"A job with {CHILDREN:,} subtasks that goes on when all are done.",
        "subtasks/s",
        partial(_each, fan_out),
        rivals=False,
    ),
    Benchmark(
        "pick-up",
        "From a submission in another process until the handler runs, nothing else going on.",
        "ms",
        _pick_ups,
        less_is_better=True,
        rivals=False,
    ),
)
