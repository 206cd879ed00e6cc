"""absurd on the course, on PostgreSQL.

https://github.com/earendil-works/absurd: the schema is that of absurdctl; a worker claims
`batch_size` tasks and runs `concurrency` of them in parallel. Its calls share a connection, so more
than one in parallel would only wait for each other: one at a time here, claimed by 100.
It looks again every 250 ms, which is left as it is for the pick-up. Many are spawned in one
transaction, since there is no call for many.
"""

import threading
import time
from typing import Any

import absurdctl  # type: ignore[import-not-found]
import psycopg
from absurd_sdk import Absurd  # type: ignore[import-not-found]

from bench.race.scripts import course

IN_BATCH = 100
LIVE = "SELECT count(*) FROM absurd.t_default WHERE state NOT IN ('completed', 'failed')"


def enqueue(order: course.Order) -> dict[str, Any]:
    with psycopg.connect(order.url, autocommit=True) as connection:
        connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    app = Absurd(order.url)
    app.create_queue()

    def bulk(count: int) -> None:
        with app._conn.transaction():
            for _ in range(count):
                app.spawn("nothing", {"at_us": 0}, queue="default")

    # Its calls share one connection, so callers side by side would wait for each other.
    return course.enqueue(order, lambda at_us: _one(app, at_us), bulk, None)


def _one(app: Any, at_us: int) -> None:
    app.spawn("nothing", {"at_us": at_us}, queue="default")


def send(order: course.Order) -> dict[str, Any]:
    app = Absurd(order.url)
    return course.send(order, lambda at_us: _one(app, at_us))


def flows(order: course.Order) -> dict[str, Any]:
    app = Absurd(order.url)
    for _ in range(order.jobs):
        app.spawn("five", {"at_us": 0}, queue="default")
    return {}


def _start(order: course.Order, finish: course.Finish) -> None:
    app = Absurd(order.url)

    def nothing(params: Any, _context: Any) -> None:
        finish.one(params["at_us"])

    def five(params: Any, context: Any) -> int:
        total: int = sum(context.step(f"step-{number}", lambda: 1) for number in range(5))
        finish.one(params["at_us"])
        return total

    app.register_task("nothing")(nothing)
    app.register_task("five")(five)
    work = lambda: app.start_worker(concurrency=1, batch_size=IN_BATCH)  # noqa: E731
    threading.Thread(target=work, daemon=True).start()


def drain(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    with psycopg.connect(order.url, autocommit=True) as connection:
        begun = time.perf_counter()
        _start(order, finish)
        finish.wait()
        course.until(lambda: connection.execute(LIVE).fetchone() == (0,))
        return course.drained(begun)


def pick_up(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    with psycopg.connect(order.url, autocommit=True) as connection:
        _start(order, finish)
        finish.wait()
        # Or the next process would wait until the claim of the last one has run out.
        course.until(lambda: connection.execute(LIVE).fetchone() == (0,))
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
