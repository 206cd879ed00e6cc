"""DBOS on the course: a queue of workflows, on SQLite or on PostgreSQL.

https://docs.dbos.dev, and the docstring of `register_queue`: `polling_interval_sec` (1 s
by default) decides the pick-up, so it is set to 10 ms; `worker_concurrency` bounds what one process
runs in parallel. DBOS sets no journal mode on SQLite, so the file is switched to a write-ahead log
beforehand, which it keeps; SQLite's own default of `synchronous = FULL` remains. Many are
enqueued in one transaction, since there is no call for many.
"""

import sqlite3
from typing import Any

from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

from bench.race.scripts import course

CONCURRENCY = 100
POLL_S = 0.01
QUEUE = "race"


def system_url(order: course.Order) -> str:
    if order.variant != "sqlite":
        return order.url
    with sqlite3.connect(order.url) as database:
        database.execute("PRAGMA journal_mode = WAL")
    return f"sqlite:///{order.url}"


def launch(order: course.Order, finish: course.Finish | None = None) -> None:
    """Workflows are known by name, so both processes register the same ones."""
    DBOS(
        config={
            "name": "race",
            "system_database_url": system_url(order),
            "application_version": "1",
            "log_level": "CRITICAL",
            "sys_db_pool_size": 20,
        }
    )

    def same(number: int) -> int:
        return number

    step = DBOS.step(name="step")(same)

    def nothing(at_us: int) -> None:
        if finish is not None:
            finish.one(at_us)

    def five(at_us: int) -> int:
        total: int = sum(step(number) for number in range(5))
        nothing(at_us)
        return total

    DBOS.workflow(name="nothing")(nothing)
    DBOS.workflow(name="five")(five)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_S)


def client(order: course.Order) -> Any:
    """A process that only enqueues uses the client."""
    made = DBOSClient(system_database_url=system_url(order), application_name="race")
    made.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_S)
    return made


def enqueue(order: course.Order) -> dict[str, Any]:
    _migrate(order)
    sender = client(order)

    def single(at_us: int) -> None:
        _one(sender, "nothing", at_us)

    def bulk(count: int) -> None:
        with sender._sys_db.engine.begin() as connection:
            for _ in range(count):
                sender.enqueue_in_transaction(connection, options("nothing"), 0)

    return course.enqueue(order, single, bulk, course.by_threads(single))


def _migrate(order: course.Order) -> None:
    from dbos import run_dbos_database_migrations

    run_dbos_database_migrations(system_database_url=system_url(order))


def _one(sender: Any, workflow: str, at_us: int) -> None:
    sender.enqueue(options(workflow), at_us)


def options(workflow: str) -> dict[str, str]:
    return {"queue_name": QUEUE, "workflow_name": workflow, "app_version": "1"}


def send(order: course.Order) -> dict[str, Any]:
    sender = client(order)
    return course.send(order, lambda at_us: _one(sender, "nothing", at_us))


def flows(order: course.Order) -> dict[str, Any]:
    sender = client(order)
    for _ in range(order.jobs):
        _one(sender, "five", 0)
    return {}


def drain(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    launch(order, finish)
    finish.wait()
    course.until(lambda: not _live(), 0.02)
    return course.drained(finish.began)


def _live() -> list[Any]:
    return DBOS.list_workflows(status=["PENDING", "ENQUEUED"], limit=1)  # type: ignore[no-any-return]


def pick_up(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    launch(order, finish)
    finish.wait()
    course.until(lambda: not _live(), 0.02)  # or the next process would do the last one again
    return {"ms": finish.ms}


course.run(
    {
        "enqueue": enqueue,
        "drain": drain,
        "send": send,
        "pick-up": pick_up,
        "flows": flows,
        "flow": drain,
    }
)
