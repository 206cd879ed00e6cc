"""Huey on the course, on SQLite. Variant `fsync` has durable commits, `no-fsync` has not.

https://huey.readthedocs.io/en/latest/api.html#SqliteHuey: `fsync=True` sets `synchronous = FULL`,
`fsync=False` sets it OFF; without either this version leaves it as SQLite has it, which is FULL.
The journal is a write-ahead log already. https://huey.readthedocs.io/en/latest/consumer.html: one
worker thread is the default, more of them wait for the same lock; an idle consumer looks again
after `initial_delay`, which grows by `backoff` up to `max_delay`. Its tasks leave nothing behind:
`results=False`, as no result is read. There is no call that takes many tasks.
"""

import logging
import threading
import time
from typing import Any

from huey import SqliteHuey  # type: ignore[import-not-found]
from huey.consumer import Consumer  # type: ignore[import-not-found]

from bench.race.scripts import course

logging.disable(logging.CRITICAL)


def queue(order: course.Order, finish: course.Finish | None = None) -> tuple[Any, Any]:
    """The queue and its one task, which both processes know by the same name."""

    def nothing(at_us: int) -> None:
        if finish is not None:
            finish.one(at_us)

    huey = SqliteHuey("race", filename=order.url, fsync=order.variant == "fsync", results=False)
    return huey, huey.task()(nothing)


def enqueue(order: course.Order) -> dict[str, Any]:
    _, nothing = queue(order)
    return course.enqueue(order, nothing, None, course.by_threads(nothing))


def send(order: course.Order) -> dict[str, Any]:
    return course.send(order, queue(order)[1])


def drain(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    huey, _ = queue(order, finish)
    begun = time.perf_counter()
    _start(huey)
    finish.wait()
    course.until(lambda: huey.pending_count() == 0)
    return course.drained(begun)


def pick_up(order: course.Order) -> dict[str, Any]:
    finish = course.Finish(order)
    huey, _ = queue(order, finish)
    _start(huey)
    finish.wait()
    return {"ms": finish.ms}


def _start(huey: Any) -> None:
    """One worker that looks again after 1 ms, which is the best pick-up that it can be set to."""
    consumer = Consumer(
        huey, workers=1, periodic=False, initial_delay=0.001, backoff=1.0, max_delay=0.001
    )
    consumer._set_signal_handlers = lambda: None
    threading.Thread(target=consumer.run, daemon=True).start()


course.run({"enqueue": enqueue, "drain": drain, "send": send, "pick-up": pick_up})
