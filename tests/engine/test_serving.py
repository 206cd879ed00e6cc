"""Many threads ask one engine: who writes for all, and who only waits for an answer."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from detent.engine import CommandRequest, Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.memory import MemoryStore

THREADS, REQUESTS = 8, 50


class Watched(Engine):
    """Notes for each batch whether the thread that wrote it had enqueued a part of it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.enqueued_by: dict[Future[Any], int] = {}
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
