"""PgQueuer on the course, on PostgreSQL by asyncpg. Variants: `default`, and `batch` of 200.

https://pgqueuer.readthedocs.io, and the docstring of `QueueManager.run`: `batch_size` is how many
jobs are fetched and acknowledged together, 10 by default. `enqueue` with lists takes many jobs.
Workers are woken by a trigger's NOTIFY.
"""

import asyncio
import logging
import time
from typing import Any

import asyncpg  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver  # type: ignore[import-not-found]
from pgqueuer.qm import QueueManager  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from bench.race.scripts import course

logging.disable(logging.CRITICAL)
IN_BATCH = 200
IN_BULK = 1_000
POOL = 10


def _sending(order: course.Order, act: Any, *, fresh: bool) -> dict[str, Any]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(order.url))
        queries = Queries(AsyncpgDriver(connection))
        if fresh:
            runner.run(queries.install())
        pooled = runner.run(_pooled(order.url))

        def single(at_us: int) -> None:
            runner.run(queries.enqueue("nothing", str(at_us).encode(), 0))

        def bulk(count: int) -> None:
            for begin in range(0, count, IN_BULK):
                size = min(IN_BULK, count - begin)
                runner.run(queries.enqueue(["nothing"] * size, [b"0"] * size, [0] * size))

        def together(count: int) -> None:
            runner.run(course.by_coroutines(lambda: pooled.enqueue("nothing", b"0", 0), count))

        timings: dict[str, Any] = act(single, bulk, together)
        return timings


async def _pooled(url: str) -> Any:
    """One connection serves one call at a time, so callers side by side get a pool."""
    return Queries(AsyncpgPoolDriver(await asyncpg.create_pool(url, min_size=POOL, max_size=POOL)))


def enqueue(order: course.Order) -> dict[str, Any]:
    return _sending(order, lambda *ways: course.enqueue(order, *ways), fresh=True)


def send(order: course.Order) -> dict[str, Any]:
    return _sending(order, lambda one, *_: course.send(order, one), fresh=False)


def _working(order: course.Order, finish: course.Finish) -> float:
    batch = {"batch_size": IN_BATCH} if order.variant == "batch" else {}

    async def nothing(job: Any) -> None:
        finish.one(int(job.payload))

    async def work() -> float:
        manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(order.url))))
        manager.entrypoint("nothing")(nothing)
        looking = await asyncpg.connect(order.url)
        begun = time.perf_counter()
        running = asyncio.create_task(manager.run(**batch))
        await asyncio.wait(
            [running, asyncio.create_task(asyncio.to_thread(finish.wait))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if running.done():
            running.result()
        while await looking.fetchval("SELECT count(*) FROM pgqueuer"):
            await asyncio.sleep(0.002)
        took = time.perf_counter() - begun
        manager.shutdown.set()
        await asyncio.wait([running], timeout=2)
        return took

    return asyncio.run(work())


course.run({"enqueue": enqueue, "send": send, **course.working_acts(_working)})
