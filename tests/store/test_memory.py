"""What the memory store does beside the port: its notifier, its clock, a database to share."""

import threading
import time

from detent.engine import Engine
from detent.store.memory import Database, MemoryStore
from detent.testing.conformance.work_actions import job_of, submit_job


def test_a_notification_wakes_threads_that_wait_on_the_same_database() -> None:
    database = Database()
    writer, reader = (MemoryStore(database=database) for _ in range(2))
    woken: list[bool] = []
    waiting = threading.Thread(target=lambda: woken.append(reader.wait(0, 60)))
    waiting.start()
    submit_job(Engine(writer))
    waiting.join(60)
    assert woken == [True]


def test_no_reader_waits_for_what_is_there() -> None:
    store = MemoryStore()
    submit_job(Engine(store))
    assert store.wait(0, 30)
    assert not store.wait(1, 0)


def test_without_a_clock_it_takes_the_machines() -> None:
    store = MemoryStore()
    before = time.time_ns() // 1_000
    made = job_of(store, submit_job(Engine(store))).created_at
    assert before <= made <= time.time_ns() // 1_000


def test_stores_share_nothing_unless_asked_to() -> None:
    one, two = MemoryStore(), MemoryStore()
    submit_job(Engine(one))
    with two.read() as view:
        assert view.head() == 0
