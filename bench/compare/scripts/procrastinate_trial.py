"""Procrastinate in the trials, on PostgreSQL. Variants: defaults, stalled.

`stalled` has the periodic task that the documentation shows for the jobs of workers that died:
https://procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html. The key is
the `queueing_lock`: https://procrastinate.readthedocs.io/en/stable/howto/advanced/queueing_locks.html
"""

import asyncio
import logging
from typing import Any

import procrastinate  # type: ignore[import-not-found]

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import HEARTBEAT_S, LEASE_S, Order, TrialJob

logging.disable(logging.CRITICAL)
QUERY = "SELECT status::text AS status FROM procrastinate_jobs WHERE id = %(id)s"
ENDED = ("succeeded", "failed", "aborted", "cancelled")
#: Seconds are the sixth field.
EVERY_FIVE_SECONDS = "* * * * * */5"


def application(order: Order) -> Any:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=order.url))
    app.task(name="trial")(TrialJob(order).run_async)

    async def retry_stalled_jobs(timestamp: int) -> None:  # noqa: ARG001
        manager = app.job_manager
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=LEASE_S):
            await manager.retry_job(job)

    if order.variant == "stalled":
        task = app.task(name="retry_stalled_jobs", queueing_lock="retry_stalled_jobs")
        app.periodic(cron=EVERY_FIVE_SECONDS)(task(retry_stalled_jobs))
    return app


def worker(order: Order) -> None:
    timings = {"update_heartbeat_interval": HEARTBEAT_S, "stalled_worker_timeout": LEASE_S}
    options = timings if order.variant == "stalled" else {}

    async def work() -> None:
        app = application(order)
        async with app.open_async():
            await app.run_worker_async(name=order.identity, concurrency=10, **options)

    asyncio.run(work())


def client(order: Order) -> None:
    app = application(order)

    async def install() -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()

    async def submit(key: str) -> str:
        await app.open_async()
        return str(await app.tasks["trial"].configure(queueing_lock=key).defer_async(key=key))

    async def state(job_id: str) -> dict[str, Any]:
        row = await app.connector.execute_query_one_async(QUERY, id=int(job_id))
        return trial_job.state(row["status"] in ENDED, row["status"])

    trial_job.serve_async({"install": install, "submit": submit, "state": state})


trial_job.main(worker, client)
