"""Fairness: what the queued jobs of one project do to the jobs of another.

Four clients of the project `small` submit one job each, wait for its end, and submit the next. One
worker with 32 slots executes them: alone, and while the project `large` has 100,000 jobs in the
queue. Jobs of both take 1 to 3 s without CPU time, so that the machine is not what is
measured. The figure is the mean time from a submission until its handler has ended.

The goal is a ratio of at most 1.1.
"""

import asyncio
import random
import statistics
import threading
import time
from functools import partial

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.installations import STORES, installation
from bench.workloads.worker import WITHIN_S, working
from detent.app.app import App
from detent.engine import CommandRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core

QUEUED = 100_000
CLIENTS = 4
ROUNDS = 8
SLOTS = 32
IN_BULK = 1_000
#: How many times longer the jobs of the small project may take beside the large one.
MAX_RATIO = 1.1
ACTOR = c.Actor("bench")


class Small:
    """The clients of the small project, and the handler of all jobs."""

    def __init__(self, core: Core, rounds: int) -> None:
        self.app = App()
        self.took_s: list[float] = []
        self._core, self._rounds = core, rounds
        self._ended: dict[str, threading.Event] = {}
        self.app.intent("hold")(self._hold)

    async def _hold(self, name: str, run_s: float) -> None:
        await asyncio.sleep(run_s)
        if name:
            self._ended[name].set()

    def job(self, project: str, name: str = "") -> CommandRequest:
        # The jobs of the small project take the same times in every measurement.
        times = random.Random(name) if name else random
        payload = {"name": name, "run_s": times.uniform(1.0, 3.0)}
        job = c.SubmitJob(new_id(), project, "hold", payload=payload)
        return CommandRequest(job, ACTOR, fresh=True)

    def client(self, number: int) -> None:
        for each in range(self._rounds):
            name = f"{number}-{each}"
            self._ended[name] = threading.Event()
            begun_s = time.perf_counter()
            self._core.engine.execute([self.job("small", name)])
            if not self._ended[name].wait(WITHIN_S):
                raise TimeoutError(f"{name} did not end within {WITHIN_S} s")
            self.took_s.append(time.perf_counter() - begun_s)


def run_clients(small: Small) -> None:
    threads = [threading.Thread(target=small.client, args=(each,)) for each in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def mean_ms(store: str, queued: int, rounds: int) -> float:
    """The mean time of a job of the small project, with this many jobs of the large one queued."""
    with installation(store) as core:
        small = Small(core, rounds)
        for begin in range(0, queued, IN_BULK):
            count = min(IN_BULK, queued - begin)
            core.engine.execute([small.job("large") for _ in range(count)], bulk=True)
        with working(core, small.app, concurrency=SLOTS):
            time.sleep(3.0)  # until the jobs of the large project have different ends
            run_clients(small)
    if len(small.took_s) != CLIENTS * rounds:
        raise AssertionError(f"{len(small.took_s)} jobs of the small project ended")
    return statistics.mean(small.took_s) * 1e3


def _contestants(store: str, scale: Scale) -> tuple[Contestant, ...]:
    queued, rounds = scale.of(QUEUED, least=200), scale.of(ROUNDS, least=3)
    return (
        Contestant("beside", partial(mean_ms, store, queued, rounds)),
        Contestant("alone", partial(mean_ms, store, 0, rounds)),
    )


BENCHMARKS = tuple(
    Benchmark(
        f"fairness-{store}",
        f"A job of a project alone, and beside a project with {QUEUED:,} queued jobs.",
        "ms",
        partial(_contestants, store),
        aims=(Aim(1 / MAX_RATIO, over="alone"),),
        less_is_better=True,
    )
    for store in STORES
)
