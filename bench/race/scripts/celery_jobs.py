"""Celery on the course, on Redis.

https://docs.celeryq.dev/en/stable/userguide/optimizing.html: short tasks want a larger prefetch;
`acks_late` makes a task survive the loss of its worker, as the others do. Results are ignored. The
worker is one process, as everywhere on this course: a pool of threads, which is what its guide
offers for tasks that do not compute. There is no call that sends many together.
"""

import logging
import threading
from typing import Any

from celery import Celery  # type: ignore[import-not-found]

from bench.race.scripts import course

logging.disable(logging.CRITICAL)
CONCURRENCY = 8


def application(order: course.Order, finish: course.Finish | None = None) -> Any:
    app = Celery("race", broker=order.url)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=100,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )

    def nothing(at_us: int) -> None:
        if finish is not None:
            finish.one(at_us)

    app.task(name="nothing")(nothing)
    return app


def enqueue(order: course.Order) -> dict[str, Any]:
    task = application(order).tasks["nothing"]

    def single(at_us: int) -> None:
        task.apply_async((at_us,))

    return course.enqueue(order, single, None, course.by_threads(single))


def send(order: course.Order) -> dict[str, Any]:
    task = application(order).tasks["nothing"]
    return course.send(order, lambda at_us: task.apply_async((at_us,)))


def _start(app: Any) -> None:
    def work() -> None:
        app.Worker(
            pool="threads",
            concurrency=CONCURRENCY,
            loglevel="CRITICAL",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        ).start()

    threading.Thread(target=work, daemon=True).start()


def drain(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    app = application(order, finish)
    _start(app)
    finish.wait()
    with app.connection() as connection:
        redis = connection.channel().client
        course.until(lambda: not redis.llen("celery") and not redis.hlen("unacked"))
    return course.drained(finish.began)


def pick_up(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    _start(application(order, finish))
    finish.wait()
    return {"ms": finish.ms}


course.run({"enqueue": enqueue, "drain": drain, "send": send, "pick-up": pick_up})
