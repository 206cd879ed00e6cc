"""Celery in the trials, on Redis, with the default pool of processes. Variants: defaults, durable.

`durable` has what the documentation names for tasks that must not be lost:
https://docs.celeryq.dev/en/stable/userguide/configuration.html `task_acks_late`,
`task_reject_on_worker_lost`, `worker_prefetch_multiplier`;
https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html
`visibility_timeout`, an hour by default. The key is the id of the task.
"""

import logging
from typing import Any

from celery import Celery  # type: ignore[import-not-found]
from celery.result import AsyncResult  # type: ignore[import-not-found]

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import LEASE_S, Order, TrialJob

logging.disable(logging.CRITICAL)
DURABLE = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    "broker_transport_options": {"visibility_timeout": LEASE_S},
    "result_backend_transport_options": {"visibility_timeout": LEASE_S},
}


def application(order: Order) -> Any:
    app = Celery("trial", broker=order.url, backend=order.url)
    if order.variant == "durable":
        app.conf.update(DURABLE)
    job = TrialJob(order)

    def trial(key: str) -> str:
        return job.run(key)

    app.task(name="trial")(trial)
    return app


def worker(order: Order) -> None:
    name = f"--hostname={order.identity}@%h"
    application(order).worker_main(["worker", "--concurrency=1", "--loglevel=CRITICAL", name])


def client(order: Order) -> None:
    app = application(order)

    def submit(key: str) -> str:
        return str(app.tasks["trial"].apply_async((key,), task_id=key).id)

    def state(task_id: str) -> dict[str, Any]:
        found = AsyncResult(task_id, app=app)
        ended = found.status in ("SUCCESS", "FAILURE")
        return trial_job.state(ended, found.status, found.result if ended else None)

    trial_job.serve({"install": lambda: None, "submit": submit, "state": state})


trial_job.main(worker, client)
