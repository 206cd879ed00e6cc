"""Procrastinate on the course, on PostgreSQL.

https://procrastinate.readthedocs.io, and the docstring of `App.run_worker_async`: coroutines run
side by side with `concurrency`, 1 by default; 20 here, with a pool of as many connections.
LISTEN/NOTIFY is on by default. `Task.batch_defer_async` takes many jobs in one statement.
"""

import asyncio
import logging
import time
from typing import Any

import procrastinate  # type: ignore[import-not-found]

from bench.race.scripts import course

logging.disable(logging.CRITICAL)
CONCURRENCY = 20
LIVE = "SELECT count(*) AS live FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def application(order: course.Order, finish: course.Finish | None = None) -> Any:
    connector = procrastinate.PsycopgConnector(
        conninfo=order.url, min_size=2, max_size=CONCURRENCY + 5
    )
    app = procrastinate.App(connector=connector)

    async def nothing(at_us: int) -> None:
        if finish is not None:
            finish.one(at_us)

    app.task(name="nothing")(nothing)
    return app


async def _opened(app: Any) -> None:
    await app.open_async()


def _sending(order: course.Order, act: Any, *, fresh: bool) -> dict[str, Any]:
    """Call the coroutine functions from a plain loop, one after the other."""
    app = application(order)
    with asyncio.Runner() as runner:
        runner.run(_opened(app))
        if fresh:
            runner.run(app.schema_manager.apply_schema_async())
        task = app.tasks["nothing"]

        def single(at_us: int) -> None:
            runner.run(task.defer_async(at_us=at_us))

        def bulk(count: int) -> None:
            runner.run(task.batch_defer_async(*({"at_us": 0} for _ in range(count))))

        def together(count: int) -> None:
            runner.run(course.by_coroutines(lambda: task.defer_async(at_us=0), count))

        timings: dict[str, Any] = act(single, bulk, together)
        return timings


def enqueue(order: course.Order) -> dict[str, Any]:
    return _sending(order, lambda *ways: course.enqueue(order, *ways), fresh=True)


def send(order: course.Order) -> dict[str, Any]:
    return _sending(order, lambda one, *_: course.send(order, one), fresh=False)


def _working(order: course.Order, finish: course.Finish) -> float:
    """Seconds from the start of the worker until the last job is stored as done."""
    app = application(order, finish)

    async def work() -> float:
        async with app.open_async():
            begun = time.perf_counter()
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
            )
            await asyncio.to_thread(finish.wait)
            while (await app.connector.execute_query_one_async(LIVE))["live"]:
                await asyncio.sleep(0.002)
            took = time.perf_counter() - begun
            worker.cancel()
            return took

    return asyncio.run(work())


course.run({"enqueue": enqueue, "send": send, **course.working_acts(_working)})
