"""DBOS in the trials, on PostgreSQL, without its service Conductor.

https://docs.dbos.dev/production/workflow-recovery: without Conductor, each process has an executor
id; when a process with that id starts, it recovers the workflows that were pending there. The key
is the id of the workflow: https://docs.dbos.dev/python/tutorials/workflow-tutorial
"""

import threading
from typing import Any

from dbos import DBOS, DBOSClient, run_dbos_database_migrations  # type: ignore[import-not-found]

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import Order, TrialJob

QUEUE = "trial"
ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


def worker(order: Order) -> None:
    job = TrialJob(order)
    DBOS(
        config={
            "name": "trial",
            "system_database_url": order.url,
            "application_version": "1",
            "executor_id": order.identity,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step(name="first part")  # type: ignore[untyped-decorator]
    def first_part(key: str) -> None:
        job.first_part(key)

    @DBOS.step(name="effect")  # type: ignore[untyped-decorator]
    def effect(key: str) -> str:
        return job.effect(key)

    def trial(key: str) -> str:
        first_part(key)
        job.hold(key)
        job.wait()
        result: str = effect(key)
        return result

    DBOS.workflow(name="trial")(trial)
    DBOS.launch()
    DBOS.register_queue(QUEUE)
    threading.Event().wait()


def client(order: Order) -> None:
    made: Any = None

    def connected() -> Any:
        nonlocal made
        made = made or DBOSClient(system_database_url=order.url, application_name="trial")
        return made

    def install() -> None:
        run_dbos_database_migrations(system_database_url=order.url)
        connected().register_queue(QUEUE)

    def submit(key: str) -> str:
        options = {
            "queue_name": QUEUE,
            "workflow_name": "trial",
            "app_version": "1",
            "workflow_id": key,
        }
        return str(connected().enqueue(options, key).get_workflow_id())

    def state(workflow_id: str) -> dict[str, Any]:
        found = connected().retrieve_workflow(workflow_id).get_status()
        return trial_job.state(found.status in ENDED, found.status, found.output)

    trial_job.serve({"install": install, "submit": submit, "state": state})


trial_job.main(worker, client)
