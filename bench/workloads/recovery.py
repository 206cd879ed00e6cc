"""Recovery: a worker that holds a hundred leases is killed, and another one takes its work over.

The lease is shorter here than by default, because other workers must wait until it expires.
"""

import time
from functools import partial

from bench.harness import Benchmark, Contestant, Scale
from bench.workloads import processes
from bench.workloads.installations import STORES, installation
from bench.workloads.worker import Done, completed, submit, until, working
from detent.app.app import App

LEASES = 100
LEASE_MS = 2_000
SETTINGS = {"worker_lease_ms": LEASE_MS, "worker_heartbeat_ms": LEASE_MS // 4}


def recovered(store: str, count: int) -> float:
    """Milliseconds from SIGKILL until every job of the dead worker was begun by another one."""
    done = Done(count)
    app = App()
    app.intent("hold")(done.one)
    with (
        installation(store, **SETTINGS) as core,
        processes.worker(core, worker_concurrency=count, **SETTINGS) as victim,
    ):
        submit(core, "hold", count)
        until(core, {"running"}, count)
        with working(core, app, concurrency=count, name="heir"):
            victim.kill()
            killed = time.perf_counter()
            done.wait()
            took_s = time.perf_counter() - killed
            completed(core, count)
    return took_s * 1e3


def _contestants(scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(LEASES, least=5)
    return tuple(Contestant(store, partial(recovered, store, count)) for store in STORES)


BENCHMARKS = (
    Benchmark(
        "recovery",
        f"A worker with {LEASES} leases of {LEASE_MS:,} ms is killed: until all jobs run again.",
        "ms",
        _contestants,
        less_is_better=True,
        rivals=False,
    ),
)
