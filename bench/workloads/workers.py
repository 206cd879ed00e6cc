"""One to four worker processes on one PostgreSQL, for the database's work and for other work.

Jobs that do nothing are the database's work alone. A job that computes keeps a core of its worker;
one that sleeps represents a call to another system.
"""

import time
from contextlib import ExitStack
from functools import partial

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads import processes
from bench.workloads.installations import installation
from bench.workloads.worker import completed, submit

WORKERS = (1, 2, 3, 4)
#: How many jobs of each kind.
JOBS = {"nothing": 4_000, "compute": 800, "sleep": 800}
DESCRIPTIONS = {
    "nothing": "jobs that do nothing",
    "compute": f"jobs that compute for {processes.COMPUTE_S * 1e3:.0f} ms",
    "sleep": f"jobs that sleep for {processes.ASLEEP_S * 1e3:.0f} ms",
}


def drained(intent: str, workers: int, count: int) -> float:
    """Jobs per second from their submission in bulk until all are completed."""
    with ExitStack() as stack:
        core = stack.enter_context(installation("postgres"))
        for number in range(workers):
            stack.enter_context(processes.worker(core, worker_name=f"w{number}"))
        begun = time.perf_counter()
        submit(core, intent, count)
        completed(core, count)
        return count / (time.perf_counter() - begun)


def _contestants(intent: str, scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(JOBS[intent], least=40)
    return tuple(
        Contestant(_name(workers), partial(drained, intent, workers, count)) for workers in WORKERS
    )


def _name(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"


BENCHMARKS = tuple(
    Benchmark(
        f"workers-{intent}",
        f"One to four workers on one PostgreSQL: {description}.",
        "jobs/s",
        partial(_contestants, intent),
        () if intent == "nothing" else (Aim(1.6, _name(1), _name(2)),),
        rivals=False,
    )
    for intent, description in DESCRIPTIONS.items()
)
