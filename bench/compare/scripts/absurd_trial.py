"""absurd in the trials, on PostgreSQL.

https://github.com/earendil-works/absurd: a worker claims a task for `claim_timeout` seconds, 120 by
default. A step that is done extends the claim, and so does `ctx.heartbeat()`, which the handler
calls while it waits. The key is the `idempotency_key` of `spawn`.
"""

import time
from typing import Any

import absurdctl  # type: ignore[import-not-found]
import psycopg
from absurd_sdk import Absurd  # type: ignore[import-not-found]

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import HEARTBEAT_S, LEASE_S, Order, TrialJob

ENDED = ("completed", "failed", "cancelled")


class Beat:
    """Calls the heartbeat of a task when a third of its claim has passed."""

    def __init__(self, context: Any) -> None:
        self._context, self._last_s = context, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._last_s > HEARTBEAT_S:
            self._context.heartbeat()
            self._last_s = time.monotonic()


def worker(order: Order) -> None:
    app, job = Absurd(order.url), TrialJob(order)

    def trial(params: Any, context: Any) -> str:
        key = params["key"]
        context.step("first part", lambda: job.first_part(key))
        job.hold(key)
        job.wait(Beat(context))
        return str(context.step("effect", lambda: job.effect(key)))

    app.register_task("trial")(trial)
    app.start_worker(worker_id=order.identity, claim_timeout=LEASE_S)


def client(order: Order) -> None:
    app: Any = None

    def connected() -> Any:
        nonlocal app
        app = app or Absurd(order.url)
        return app

    def install() -> None:
        with psycopg.connect(order.url, autocommit=True) as connection:
            connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        connected().create_queue()

    def submit(key: str) -> str:
        spawned = connected().spawn("trial", {"key": key}, queue="default", idempotency_key=key)
        return str(spawned["task_id"])

    def state(task_id: str) -> dict[str, Any]:
        found = connected().fetch_task_result(task_id, queue_name="default")
        return trial_job.state(found.state in ENDED, found.state, getattr(found, "result", None))

    trial_job.serve({"install": install, "submit": submit, "state": state})


trial_job.main(worker, client)
