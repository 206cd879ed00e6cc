"""Oban for Python on the course, on PostgreSQL.

https://oban.pro/docs/py/: a queue has a limit of jobs that run in parallel; 100 here, ten times the
default of the producer. `enqueue_many` inserts many in one statement.
"""

import asyncio
import logging
import time
from typing import Any

from oban import Oban, worker  # type: ignore[import-not-found]
from oban.schema import install  # type: ignore[import-not-found]

from bench.race.scripts import course

logging.disable(logging.CRITICAL)
CONCURRENCY = 100
IN_BULK = 1_000
LIVE = "SELECT count(*) FROM oban_jobs WHERE state <> 'completed'"


def nothing(finish: course.Finish | None = None) -> Any:
    """The worker class; both processes know it by the same name."""

    class Nothing:
        async def process(self, job: Any) -> None:
            if finish is not None:
                finish.one(job.args["at_us"])

    return worker(queue="default")(Nothing)


def _sending(order: course.Order, act: Any, *, fresh: bool) -> dict[str, Any]:
    with asyncio.Runner() as runner:
        pool = runner.run(Oban.create_pool(order.url))
        if fresh:
            runner.run(install(pool))
        oban, job = Oban(pool=pool), nothing()
        runner.run(oban.start())

        def single(at_us: int) -> None:
            runner.run(oban.enqueue(job.new({"at_us": at_us})))

        def bulk(count: int) -> None:
            for begin in range(0, count, IN_BULK):
                size = min(IN_BULK, count - begin)
                runner.run(oban.enqueue_many(job.new({"at_us": 0}) for _ in range(size)))

        def together(count: int) -> None:
            runner.run(course.by_coroutines(lambda: oban.enqueue(job.new({"at_us": 0})), count))

        timings: dict[str, Any] = act(single, bulk, together)
        return timings


def enqueue(order: course.Order) -> dict[str, Any]:
    return _sending(order, lambda *ways: course.enqueue(order, *ways), fresh=True)


def send(order: course.Order) -> dict[str, Any]:
    return _sending(order, lambda one, *_: course.send(order, one), fresh=False)


def _working(order: course.Order, finish: course.Finish) -> float:
    nothing(finish)

    async def work() -> float:
        pool = await Oban.create_pool(order.url)
        oban = Oban(pool=pool, queues={"default": CONCURRENCY})
        begun = time.perf_counter()
        await oban.start()
        await asyncio.to_thread(finish.wait)
        async with pool.connection() as connection:
            await connection.set_autocommit(True)
            while (await (await connection.execute(LIVE)).fetchone())[0]:
                await asyncio.sleep(0.002)
        return time.perf_counter() - begun

    return asyncio.run(work())


course.run({"enqueue": enqueue, "send": send, **course.working_acts(_working)})
