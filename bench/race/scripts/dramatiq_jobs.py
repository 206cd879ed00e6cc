"""Dramatiq on the course, on Redis.

https://dramatiq.io/guide.html: a worker process has 8 threads by default, and acknowledges a
message after its actor has run. Prometheus and the like are middleware that is off by default.
There is no call that sends many together.
"""

import logging
import time
from typing import Any

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from bench.race.scripts import course

logging.disable(logging.CRITICAL)
CONCURRENCY = 8


def actor(order: course.Order, finish: course.Finish | None = None) -> Any:
    broker = RedisBroker(url=order.url)
    dramatiq.set_broker(broker)

    def nothing(at_us: int) -> None:
        if finish is not None:
            finish.one(at_us)

    return dramatiq.actor(nothing, broker=broker)


def enqueue(order: course.Order) -> dict[str, Any]:
    nothing = actor(order)
    return course.enqueue(order, nothing.send, None, course.by_threads(nothing.send))


def send(order: course.Order) -> dict[str, Any]:
    return course.send(order, actor(order).send)


def drain(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    broker = actor(order, finish).broker
    begun = time.perf_counter()
    dramatiq.Worker(broker, worker_threads=CONCURRENCY).start()
    finish.wait()
    redis = broker.client
    course.until(lambda: not redis.hlen("dramatiq:default.msgs"))
    return course.drained(begun)


def pick_up(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    dramatiq.Worker(actor(order, finish).broker, worker_threads=CONCURRENCY).start()
    finish.wait()
    return {"ms": finish.ms}


course.run({"enqueue": enqueue, "drain": drain, "send": send, "pick-up": pick_up})
