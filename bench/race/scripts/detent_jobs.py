"""detent on the course, as an application uses it: `app.submit`, and a worker with its defaults.

Bulk submissions go to the engine as the gateway's `/api/tasks/lines` hands them on. Both stores are
durable by themselves: SQLite with `synchronous = FULL`, PostgreSQL with `synchronous_commit = on`.
"""

import time
from collections.abc import Callable
from typing import Any

from bench.race.scripts import course
from detent import App, AsyncRun
from detent.engine import CommandRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.service import collect_garbage_less_often
from detent.store.types import Query
from detent.worker.worker import Worker

IN_BULK = 1_000
#: As many in parallel as the other two get.
WORKFLOW_CONCURRENCY = 100


def application(order: course.Order, one: Callable[[int], object] = print) -> App:
    app = App()

    def nothing(at_us: int) -> None:
        one(at_us)

    async def five(run: AsyncRun, at_us: int) -> int:
        total = 0
        for number in range(5):
            total += await run.step(f"step-{number}", int, number)
        one(at_us)
        return total

    app.intent("nothing")(nothing)
    app.intent("five")(five)
    return app.connect(order.url, data_dir=str(order.place))


def submit_many(app: App, intent: str, count: int) -> None:
    engine = app.installation().engine
    for begin in range(0, count, IN_BULK):
        asks = [
            CommandRequest(
                c.SubmitJob(new_id(), "race", intent, payload={"at_us": 0}),
                c.Actor("race"),
                fresh=True,
            )
            for _ in range(begin, min(count, begin + IN_BULK))
        ]
        engine.execute(asks, bulk=True)


def enqueue(order: course.Order) -> dict[str, Any]:
    app = application(order)
    return course.enqueue(
        order,
        lambda at_us: app.submit("nothing", {"at_us": at_us}),
        lambda count: submit_many(app, "nothing", count),
        course.by_threads(lambda at_us: app.submit("nothing", {"at_us": at_us})),
    )


def send(order: course.Order) -> dict[str, Any]:
    app = application(order)
    return course.send(order, lambda at_us: app.submit("nothing", {"at_us": at_us}))


def flows(order: course.Order) -> dict[str, Any]:
    submit_many(application(order), "five", order.jobs)
    return {}


def drain(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    app = application(order, finish.one)
    worker = _worker(order, app)
    begun = time.perf_counter()
    worker.start()
    finish.wait()
    course.until(lambda: _live(app) == 0)
    timings = course.drained(begun)
    worker.stop(grace_s=0)
    return timings


def pick_up(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    worker = _worker(order, application(order, finish.one))
    worker.start()
    finish.wait()
    worker.stop(grace_s=0)
    return {"ms": finish.ms}


def _worker(order: course.Order, app: App) -> Worker:
    collect_garbage_less_often()  # as `detent worker` does
    coroutines = WORKFLOW_CONCURRENCY if order.act == "flow" else None
    return Worker(app.installation(), app, coroutines=coroutines)


def _live(app: App) -> int:
    with app.installation().store.read() as view:
        states = view.count_by(Query("jobs"), "state")
    return sum(count for state, count in states.items() if state != "completed")


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
