"""Many threads ask one engine: who writes for all, and who only waits for an answer."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from detent.engine import CommandRequest, Engine, PendingResults
from detent.engine.engine import Turns
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.memory import MemoryStore

THREADS, REQUESTS = 8, 50
DEADLINE_S = 60.0


class Watched(Engine):
    """Notes for each batch whether the thread that wrote it had enqueued a part of it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.enqueued_by: dict[PendingResults, int] = {}
        self.own: list[bool] = []

    def enqueue(self, requests: Sequence[CommandRequest], *, bulk: bool = False) -> Any:
        future = super().enqueue(requests, bulk=bulk)
        self.enqueued_by[future] = threading.get_ident()
        return future

    def _run(self, pending: Any) -> None:
        mine = threading.get_ident()
        # Requests of other threads may not be noted yet; those of this thread are.
        self.own.append(any(self.enqueued_by.get(each.future) == mine for each in pending))
        super()._run(pending)


def submit(engine: Engine) -> None:
    for _ in range(REQUESTS):
        engine.do(c.SubmitJob(new_id(), "here", "nothing"), c.Actor("person"), fresh=True)


def test_only_a_thread_that_waits_for_its_result_writes() -> None:
    """If a thread wrote on after its result, it would write a batch of one, and so would the next:
    the requests of the other threads would never form one batch.
    """
    engine = Watched()
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(submit, engine) for _ in range(THREADS)]:
            done.result()
    assert len(engine.enqueued_by) == THREADS * REQUESTS
    assert all(engine.own)


def test_a_commit_wakes_only_threads_that_can_go_on() -> None:
    """Those whose results are there, and one that writes next."""
    turns, done = Turns(), [PendingResults() for _ in range(6)]
    went_on: list[tuple[int, bool]] = []
    assert turns.begin()

    def wait(number: int) -> None:
        went_on.append((number, turns.begin(done[number])))

    threads = [threading.Thread(target=wait, args=[number]) for number in range(6)]
    for number, thread in enumerate(threads):
        thread.start()
        _until(lambda expected=number + 1: len(turns._waiters) == expected)
    for number in (1, 4):
        done[number].set_result([])
    turns.end()
    for number in (0, 1, 4):
        threads[number].join(DEADLINE_S)
    assert sorted(went_on) == [(0, True), (1, False), (4, False)]
    assert [waiter.results for waiter in turns._waiters] == [done[2], done[3], done[5]]
    for number in (2, 3, 5):
        done[number].set_result([])
    turns.end()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert turns.begin()
    turns.end()


def test_a_thread_that_is_interrupted_passes_its_turn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    assert turns.begin()

    class Interrupted:
        """A signal whose wait is interrupted, before or after the turn was given."""

        def __init__(self, before: bool) -> None:
            self.before, self.calls = before, 0

        def acquire(self) -> None:
            self.calls += 1
            if self.calls == 2:
                if not self.before:
                    turns.end()
                raise KeyboardInterrupt

        def release(self) -> None:
            pass

    for before in (True, False):
        monkeypatch.setattr(
            "detent.engine.engine.threading.Lock", lambda before=before: Interrupted(before)
        )
        with pytest.raises(KeyboardInterrupt):
            turns.begin()
        assert turns._waiters == []
    assert turns.begin()


def _until(condition: Any) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.001)
