"""Work through a real worker: jobs and tasks end to end, durable workflows, signals, subtasks.

One worker in this process with its default settings, as `detent worker` runs it.
"""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.installations import STORES, installation
from detent.app.app import App
from detent.app.run_context import Run
from detent.engine import CommandRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.service import collect_garbage_less_often
from detent.store.types import Query
from detent.worker.worker import Worker

JOBS = 8_000
IN_BULK = 1_000
WORKFLOWS = 500
WAITING = 1_000
CHILDREN = 1_000
WITHIN_S = 300.0
#: What is run end to end: a job alone, or a task of either lifecycle around it.
KINDS = ("job", "board", "review")


class Done:
    """Counts ends, and lets a caller wait for all of them."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self._lock = threading.Lock()
        self._all = threading.Event()

    def one(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._all.set()

    def over(self, within_s: float) -> bool:
        return self._all.wait(within_s)

    def wait(self) -> None:
        if not self._all.wait(WITHIN_S):
            raise TimeoutError(f"{self._left} did not come within {WITHIN_S} s")


@contextmanager
def as_a_service() -> Iterator[None]:
    """The garbage collector as in the process of `detent worker`."""
    before = gc.get_threshold()
    collect_garbage_less_often()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def working(core: Core, app: App, **options: Any) -> Iterator[Worker]:
    worker = Worker(core, app, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace_s=0)


def submit(
    core: Core, intent: str, count: int, kind: str = "job", payload: Any = None
) -> list[str]:
    """Jobs or tasks in bulk, as a client with many of them submits; the ids of the jobs."""
    ids = [new_id() for _ in range(count)]
    for begin in range(0, count, IN_BULK):
        asks = [
            CommandRequest(_command(each, intent, kind, payload), c.Actor("bench"), fresh=True)
            for each in ids[begin : begin + IN_BULK]
        ]
        for answer in core.engine.execute(asks, bulk=True):
            if isinstance(answer, Exception):
                raise answer
    return ids if kind == "job" else [f"{each}-j1" for each in ids]


def _command(each: str, intent: str, kind: str, payload: Any) -> c.SubmitJob | c.SubmitTask:
    if kind == "job":
        return c.SubmitJob(each, "bench", intent, payload=payload)
    return c.SubmitTask(each, "bench", kind, intent, "api", payload=payload, queue=True)


def until(core: Core, states: set[str], count: int) -> None:
    """Wait until this many jobs are in one of these states, by their rows."""
    end_s = time.monotonic() + WITHIN_S
    while time.monotonic() < end_s:
        with core.store.read() as view:
            at = view.head()
            found = view.count_by(Query("jobs"), "state")
        if sum(found.get(state, 0) for state in states) >= count:
            return
        core.store.wait(at, 0.05)
    raise TimeoutError(f"{count} jobs were not {states} within {WITHIN_S} s, but {found}")


def completed(core: Core, count: int) -> None:
    until(core, {"completed"}, count)


# ---- throughput --------------------------------------------------------------------------------


def end_to_end(store: str, kind: str, count: int) -> float:
    """Jobs per second from the first submission until the last one is completed."""
    app = App()
    done = Done(count)
    app.intent("nothing")(done.one)
    with installation(store) as core, as_a_service():
        begun = time.perf_counter()
        submit(core, "nothing", count, kind)
        with working(core, app):
            done.wait()
            completed(core, count)
            took = time.perf_counter() - begun
    return count / took


def workflows(store: str, count: int) -> float:
    """Workflows of five durable steps per second, each step committed before the next begins."""
    app = App()

    @app.intent("five")
    def five(run: Run) -> int:
        return sum(run.step(f"step-{number}", int, number) for number in range(5))

    with installation(store) as core, as_a_service():
        submit(core, "five", count)
        begun = time.perf_counter()
        with working(core, app, concurrency=50):
            completed(core, count)
            took = time.perf_counter() - begun
    return count / took


def signals(store: str, count: int) -> float:
    """Waiting jobs per second from the first signal until all are completed."""
    app = App()

    @app.intent("hear")
    def hear(run: Run) -> Any:
        return run.wait_for("go")

    with installation(store) as core:
        ids = submit(core, "hear", count)
        with working(core, app, concurrency=50):
            until(core, {"waiting", "parked"}, count)
            begun = time.perf_counter()
            asks = [CommandRequest(c.SendSignal(each, "go", 1), c.Actor("bench")) for each in ids]
            core.engine.execute(asks, bulk=True)
            completed(core, count)
            took = time.perf_counter() - begun
    return count / took


def fan_out(store: str, count: int) -> float:
    """Subtasks per second: a parent makes them all, they run, and it goes on with their results."""
    app = App()

    @app.intent("child")
    def child(number: int) -> int:
        return number

    @app.intent("parent")
    def parent(run: Run) -> int:
        return sum(run.map(child, [{"number": number} for number in range(count)]))

    with installation(store) as core:
        handle = app.bind(core).submit("parent")
        begun = time.perf_counter()
        with working(core, app):
            assert handle.result(timeout=WITHIN_S) == sum(range(count))
            took = time.perf_counter() - begun
    return count / took


def _kinds(store: str, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(JOBS, least=50)
    return tuple(Contestant(kind, partial(end_to_end, store, kind, count)) for kind in KINDS)


def _each(work: Callable[[str, int], float], count: int, scale: Scale) -> tuple[Contestant, ...]:
    size = scale.of(count, least=10)
    return tuple(Contestant(store, partial(work, store, size)) for store in STORES)


BENCHMARKS = (
    *(
        Benchmark(
            f"end-to-end-{store}",
            f"{JOBS:,} jobs or tasks, submitted in bulk, then executed by one worker.",
            "jobs/s",
            partial(_kinds, store),
            (Aim(0.5, "job", "board"), Aim(0.5, "job", "review")),
        )
        for store in STORES
    ),
    Benchmark(
        "workflows",
        f"{WORKFLOWS:,} workflows of five durable steps, 50 concurrent.",
        "workflows/s",
        partial(_each, workflows, WORKFLOWS),
        rivals=False,
    ),
    Benchmark(
        "signals",
        f"{WAITING:,} waiting jobs, each continued by a signal.",
        "jobs/s",
        partial(_each, signals, WAITING),
        rivals=False,
    ),
    Benchmark(
        "fan-out",
        f"A job with {CHILDREN:,} subtasks that continues when all are done.",
        "subtasks/s",
        partial(_each, fan_out, CHILDREN),
        rivals=False,
    ),
)
