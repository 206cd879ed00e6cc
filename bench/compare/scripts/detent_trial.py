"""detent in the trials: `Intent.submit` with a key, and a worker.

docs/reference/settings.md: `worker.lease_ms` and `worker.heartbeat_ms`, here a sixth of the
defaults. A submission with a key that is known returns the job that exists.
"""

import threading
from contextlib import AbstractContextManager
from typing import Any

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import HEARTBEAT_S, LEASE_S, Order, TrialJob
from detent import App, Run
from detent.operations.context import Core
from detent.service import open_core
from detent.settings import Loaded, Settings
from detent.worker.worker import Worker


def opened(order: Order) -> AbstractContextManager[Core]:
    settings = Settings(
        store_url=order.url,
        store_data_dir=str(order.directory),
        worker_lease_ms=LEASE_S * 1_000,
        worker_heartbeat_ms=round(HEARTBEAT_S * 1_000),
    )
    return open_core(Loaded(settings, {}, {}, None))


def application(order: Order) -> App:
    app, job = App(), TrialJob(order)

    @app.intent("trial")
    def trial(run: Run, key: str) -> str:
        run.step("first part", job.first_part, key)
        job.hold(key)
        job.wait()
        return run.effect("effect", job.effect, key)

    return app


def worker(order: Order) -> None:
    with opened(order) as core, Worker(core, application(order), name=order.identity):
        threading.Event().wait()


def client(order: Order) -> None:
    with opened(order) as core:
        app = application(order).bind(core)

        def submit(key: str) -> str:
            return app.submit("trial", {"key": key}, key=key).job_id

        def state(job_id: str) -> dict[str, Any]:
            with core.store.read() as view:
                ((job, _),) = view.jobs([job_id])
            ended = job.state in ("completed", "failed", "cancelled")
            return trial_job.state(ended, job.state, job.result)

        trial_job.serve({"install": lambda: None, "submit": submit, "state": state})


trial_job.main(worker, client)
