"""Many threads ask one engine: who writes for all, and who only waits for an answer."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from detent.engine import CommandRequest, Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.memory import MemoryStore

THREADS, ASKS = 8, 50


class Watched(Engine):
    """Notes for each batch whether the thread that wrote it had asked for some of it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.asker: dict[Future[Any], int] = {}
        self.own: list[bool] = []

    def enqueue(self, requests: Sequence[CommandRequest], *, bulk: bool = False) -> Any:
        future = super().enqueue(requests, bulk=bulk)
        self.asker[future] = threading.get_ident()
        return future

    def _run(self, orders: Any) -> None:
        mine = threading.get_ident()
        # Of others it may not be noted yet that they asked; of what this thread asked, it is.
        self.own.append(any(self.asker.get(order.future) == mine for order in orders))
        super()._run(orders)


def submit(engine: Engine) -> None:
    for _ in range(ASKS):
        engine.do(c.SubmitJob(new_id(), "here", "nothing"), c.Actor("somebody"), fresh=True)


def test_only_who_waits_for_an_answer_writes() -> None:
    """If somebody who was answered wrote on, he would write a batch of one, and so would the next:
    nobody would find the others' asks together.
    """
    engine = Watched()
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(submit, engine) for _ in range(THREADS)]:
            done.result()
    assert len(engine.asker) == THREADS * ASKS
    assert all(engine.own)
