"""Checks of the feed: events in order, none missed, none twice, also for slow readers."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from detent import feed
from detent.engine import CommandRequest, Engine
from detent.kernel import commands as c
from detent.store.port import Store, WriteTransaction
from detent.store.types import LoggedEvent
from detent.testing.conformance.case import Case, SilentStore, check
from detent.testing.conformance.work_actions import (
    PERSON,
    claim_one,
    complete,
    submit_job,
    together,
)

WRITERS = 5
BATCHES = 12


class Slow(SilentStore):
    """A store whose commits take a while, each a different one."""

    def __init__(self, store: Store, seed: int) -> None:
        super().__init__(store)
        self._random = random.Random(seed)

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        with self._store.write() as tx:
            yield tx
            time.sleep(self._random.uniform(0, 0.004))


def write_slowly(store: Store, seed: int) -> None:
    engine = Engine(Slow(store, seed))
    for number in range(BATCHES):
        ids = [f"w{seed}-{number}-{each}" for each in range(3)]
        engine.execute([CommandRequest(c.SubmitJob(job, "p", "dig"), PERSON) for job in ids])


def tail(store: Store, written: threading.Event) -> list[LoggedEvent]:
    """What a reader sees from the start until it finds nothing new after the last write."""
    seen: list[LoggedEvent] = []
    log = feed.Tail(store, seen.extend, 0)
    last_look = False
    while log.step() or not last_look:
        last_look = written.is_set()
        store.wait(log.cursor, 0.002)
    return seen


@check
def a_reader_sees_every_event_once_and_in_order(case: Case) -> None:
    """Several writers whose commits overlap, and readers that tail the log meanwhile."""
    last, *stores = [engine.store for engine in case.others(WRITERS + 1)]
    written = threading.Event()

    def write() -> list[LoggedEvent]:
        try:
            together(*[partial(write_slowly, stores[at], at) for at in range(WRITERS)])
        finally:
            written.set()
        return []

    readers = [partial(tail, store, written) for store in (case.store, last)]
    _, *views = together(write, *readers)
    log = feed.read(case.store, 0, 100_000)
    assert len(log) == WRITERS * BATCHES * 3
    for seen in views:
        assert seen == list(log), "an event was missed, seen twice, or out of order"
    positions = [event.position for event in log]
    assert positions == sorted(set(positions))


@check
def the_log_is_read_from_any_place(case: Case) -> None:
    first, second = submit_job(case.engine), submit_job(case.engine)
    complete(case.engine, claim_one(case.engine))
    with case.store.read() as view:
        log = view.events(0, 100)
        assert view.head() == log[-1].position
        at = log[2].position
        assert view.events(at, 100) == log[3:]
        assert view.events(at, 2) == log[3:5]
        assert view.events(0, 100, upto=at) == log[:3]
        assert view.events(view.head(), 100) == []
        for job in (first, second):
            own = [event for event in log if event.stream == job]
            assert view.events(0, 100, stream=job) == own
            assert view.events(own[0].position, 100, stream=job) == own[1:]
            assert [event.version for event in own] == list(range(1, len(own) + 1))


@check
def the_events_of_one_command_stand_together(case: Case) -> None:
    """In the order in which they were decided, at one time, by one actor."""
    submit_job(case.engine)
    claim_one(case.engine, "w1")
    with case.store.read() as view:
        created, *claimed = view.events(0, 100)
    assert [event.name for event in claimed] == ["job_running", "run_queued", "run_started"]
    assert {(event.at, event.actor) for event in claimed} == {(case.clock(), "worker:w1")}
    assert created.actor == PERSON.name


@check
def an_empty_log_has_no_head(case: Case) -> None:
    with case.store.read() as view:
        assert (view.head(), list(view.events(0, 10))) == (0, [])
    assert case.store.wait(0, 0.001) is False


@check
def a_position_can_be_larger_than_32_bits(case: Case) -> None:
    submit_job(case.engine)
    with case.store.read() as view:
        for after in (1 << 31, 1 << 40):
            assert list(view.events(after, 10)) == []
            assert list(view.events(after, 10, stream="j")) == []
            assert list(view.events(0, 10, upto=after)) == list(view.events(0, 10))
