"""Many clients that submit over HTTP at the same time: the rate, and how long the slowest wait.

Each client has a connection of its own and sends its next submission after the response. All are
coroutines of one process, which uses a core of its own.
"""

import asyncio
import time
from functools import partial
from statistics import quantiles

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.http import BODY
from bench.workloads.jobs import directory
from bench.workloads.jobs_postgres import database
from bench.workloads.serving import Line, Served, request, served

#: Clients, with the number of submissions of all of them together.
CROWDS = {200: 10_000, 1_500: 15_000}
STORES = ("SQLite", "PostgreSQL")


def crowd(store: str, clients: int, requests: int) -> list[float]:
    """The duration of every submission, in ms, and at the end of all of them together."""
    with directory() as place:
        url = database() if store == "PostgreSQL" else ""
        with served("gateway", place, url) as server:
            return asyncio.run(_crowd(server, clients, requests))


def rate(store: str, clients: int, requests: int) -> float:
    *times, whole = crowd(store, clients, requests)
    return len(times) / whole * 1_000


def p99(store: str, clients: int, requests: int) -> float:
    return quantiles(crowd(store, clients, requests)[:-1], n=100)[98]


async def _crowd(server: Served, clients: int, requests: int) -> list[float]:
    wanted = request(server, "POST", "/api/tasks", BODY)
    lines = [await Line.to(server) for _ in range(clients)]
    # The first request of a connection is not measured.
    await asyncio.gather(*(_submit(line, wanted) for line in lines))
    begun = time.perf_counter()
    each = max(1, requests // clients)
    found = await asyncio.gather(*(_repeat(line, wanted, each) for line in lines))
    whole = time.perf_counter() - begun
    for line in lines:
        await line.close()
    return [*(each for times in found for each in times), whole * 1_000]


async def _repeat(line: Line, wanted: bytes, times: int) -> list[float]:
    return [await _submit(line, wanted) for _ in range(times)]


async def _submit(line: Line, wanted: bytes) -> float:
    begun = time.perf_counter()
    status, body = await line.send(wanted)
    if status != 201:
        raise RuntimeError(f"{status}: {body!r}")
    return (time.perf_counter() - begun) * 1_000


def _of(clients: int, scale: Scale) -> tuple[int, int]:
    count = scale.of(clients, least=4)
    return count, scale.of(CROWDS[clients], least=count)


def _rates(scale: Scale) -> tuple[Contestant, ...]:
    return tuple(Contestant(store, partial(rate, store, *_of(200, scale))) for store in STORES)


def _waits(clients: int, scale: Scale) -> tuple[Contestant, ...]:
    return tuple(Contestant(store, partial(p99, store, *_of(clients, scale))) for store in STORES)


def _p99(clients: int, wanted_ms: int) -> Benchmark:
    return Benchmark(
        f"http.crowd-{clients}-p99",
        f"The 99th percentile of a durable submission over HTTP, {clients:,} clients.",
        "ms",
        partial(_waits, clients),
        tuple(Aim(wanted_ms, who=store) for store in STORES),
        less_is_better=True,
        rivals=False,
    )


BENCHMARKS = (
    Benchmark(
        "http.crowd-200",
        "Durable submissions over HTTP by 200 clients at the same time.",
        "requests/s",
        _rates,
        tuple(Aim(5_000, who=store) for store in STORES),
        rivals=False,
    ),
    _p99(200, 150),
    _p99(1_500, 1_000),
)
