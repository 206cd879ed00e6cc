"""Oban for Python in the trials, on PostgreSQL.

The constructor of its lifeline: `rescue_after` is the age of an attempt after which the job is
available again, 300 s by default, and `interval` how often the leader checks, 60 s by default.
Unique jobs are not in the open-source package, so a submission has no key.
"""

import asyncio
import logging
from typing import Any

from oban import Oban, Record  # type: ignore[import-not-found]
from oban import worker as oban_worker
from oban._recorded import decode_recorded  # type: ignore[import-not-found]
from oban.schema import install as install_schema  # type: ignore[import-not-found]

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import LEASE_S, Order, TrialJob

logging.disable(logging.CRITICAL)
QUERY = "SELECT state::text, meta ->> 'return' FROM oban_jobs WHERE id = %s"
ENDED = ("completed", "discarded", "cancelled")
LIFELINE = {"interval": 1.0, "rescue_after": float(LEASE_S)}


def job_class(order: Order) -> Any:
    body = TrialJob(order)

    class Trial:
        async def process(self, job: Any) -> Any:
            return Record(await body.run_async(job.args["key"]))

    return oban_worker(queue="default")(Trial)


def worker(order: Order) -> None:
    async def work() -> None:
        job_class(order)
        pool = await Oban.create_pool(order.url)
        await Oban(
            pool=pool, node=order.identity, queues={"default": 10}, lifeline=LIFELINE
        ).start()
        await asyncio.Event().wait()

    asyncio.run(work())


def client(order: Order) -> None:
    job = job_class(order)
    pool: Any = None
    oban: Any = None

    async def connected() -> Any:
        nonlocal pool, oban
        if oban is None:
            pool = await Oban.create_pool(order.url)
            oban = Oban(pool=pool)
            await oban.start()
        return oban

    async def install() -> None:
        await install_schema(await Oban.create_pool(order.url))

    async def submit(key: str) -> str:
        return str((await (await connected()).enqueue(job.new({"key": key}))).id)

    async def state(job_id: str) -> dict[str, Any]:
        await connected()
        async with pool.connection() as connection:
            text, stored = await (await connection.execute(QUERY, (int(job_id),))).fetchone()
        result = decode_recorded(stored) if stored else None
        return trial_job.state(text in ENDED, text, result)

    trial_job.serve_async({"install": install, "submit": submit, "state": state})


trial_job.main(worker, client)
