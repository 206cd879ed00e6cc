"""PgQueuer in the trials, on PostgreSQL by asyncpg.

The docstring of `QueueManager.run`: `heartbeat_timeout` is the staleness threshold for picking a
job again, 30 s by default; `dequeue_timeout` is how long an idle worker waits before it looks
again. The key is the `dedupe_key` of `enqueue`, which is unique among jobs that have not ended.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import asyncpg  # type: ignore[import-not-found]
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.qm import QueueManager  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import LEASE_S, Order, TrialJob

logging.disable(logging.CRITICAL)
LIVE = "SELECT status::text FROM pgqueuer WHERE id = $1"
#: A job that has ended is in the log only.
LOGGED = "SELECT status::text FROM pgqueuer_log WHERE job_id = $1 ORDER BY id"


def worker(order: Order) -> None:
    job = TrialJob(order)

    async def trial(picked: Any) -> None:
        await job.run_async(picked.payload.decode())

    async def work() -> None:
        manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(order.url))))
        manager.entrypoint("trial")(trial)
        lease = timedelta(seconds=LEASE_S)
        await manager.run(heartbeat_timeout=lease, dequeue_timeout=lease)

    asyncio.run(work())


def client(order: Order) -> None:
    connection: Any = None

    async def queries() -> Any:
        nonlocal connection
        connection = connection or await asyncpg.connect(order.url)
        return Queries(AsyncpgDriver(connection))

    async def install() -> None:
        await (await queries()).install()

    async def submit(key: str) -> str:
        known = await queries()
        (job_id,) = await known.enqueue("trial", key.encode(), dedupe_key=key)
        return str(job_id)

    async def state(job_id: str) -> dict[str, Any]:
        live = await connection.fetchval(LIVE, int(job_id))
        if live is not None:
            return trial_job.state(False, live)
        logged = [row["status"] for row in await connection.fetch(LOGGED, int(job_id))]
        return trial_job.state(True, ", ".join(logged))

    trial_job.serve_async({"install": install, "submit": submit, "state": state})


trial_job.main(worker, client)
