"""The line from a run to the engine: what it tells is durable when the call returns, or refused."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from detent.engine import Answer, Ask, Engine
from detent.errors import Refused, Unavailable
from detent.kernel import commands as c
from detent.store.port import ReadTransaction
from detent.worker.reporter import Reporter, Result, Telling

T = TypeVar("T")

#: How long a run waits for a store that is away, as long as a lease lasts: then it fails.
PATIENCE_S = 30.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0


def never() -> bool:
    """For callers without a lease: it is never over."""
    return False


class Line:
    """Speaks to the engine for one worker."""

    def __init__(self, engine: Engine, worker: str) -> None:
        self.engine = engine
        self.worker = worker
        self.actor = c.Actor(f"worker:{worker}")

    def read(self) -> AbstractContextManager[ReadTransaction]:
        return self.engine.store.read()

    def now(self) -> int:
        """The store's clock."""
        with self.read() as view:
            return view.now()

    def tell(
        self, command: c.Command, under: c.Grant | None = None, over: Callable[[], bool] = never
    ) -> Any:
        """Have one command decided; with `under`, only while that grant holds.

        While the store is unavailable it is tried again, until the caller's lease is `over`.
        """
        patience = Patience(over)
        while True:
            try:
                return self._tell(command, under)
            except Unavailable:
                if patience.is_spent():
                    raise
            except Refused as refusal:
                if patience.knows(refusal):
                    return None
                raise
            time.sleep(patience.pause_s())

    def tell_all(
        self, commands: Sequence[c.Command], under: c.Grant, over: Callable[[], bool] = never
    ) -> list[Any]:
        """Have many commands decided in one transaction; those that are refused, refuse alone."""
        patience = Patience(over)
        while True:
            asks = [Ask(command, self.actor, grant=under) for command in commands]
            results = self.engine.ask(asks)
            away = next((each for each in results if isinstance(each, Unavailable)), None)
            if away is None:
                return results
            if patience.is_spent():
                raise away
            time.sleep(patience.pause_s())

    async def tell_async(
        self, command: c.Command, under: c.Grant | None = None, over: Callable[[], bool] = never
    ) -> Any:
        """The same for a coroutine."""
        return await self.aside(lambda: self.tell(command, under, over))

    async def aside(self, work: Callable[[], T]) -> T:
        """Something that blocks, away from the event loop."""
        return await asyncio.to_thread(work)

    def _tell(self, command: c.Command, under: c.Grant | None) -> Any:
        return self.engine.do(command, self.actor, grant=under)


class Patience:
    """How long and how often a run tries again when the store is away."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self.until_s = time.monotonic() + PATIENCE_S
        self.over = over
        self.next_s = FIRST_PAUSE_S
        self.tried = False

    def is_spent(self) -> bool:
        return self.over() or time.monotonic() >= self.until_s

    def pause_s(self) -> float:
        """The pause before the next try; each is longer than the one before."""
        pause_s, self.tried = self.next_s, True
        self.next_s = min(self.next_s * 2, LONGEST_PAUSE_S)
        return pause_s

    def knows(self, refusal: Refused) -> bool:
        """The name was recorded by an earlier try: its answer was lost, not the try."""
        return self.tried and refusal.code == "name_used_twice"


class WorkerLine(Line):
    """A line on which coroutines share transactions."""

    def __init__(self, engine: Engine, worker: str, reporter: Reporter) -> None:
        super().__init__(engine, worker)
        self.reporter = reporter

    async def tell_async(
        self, command: c.Command, under: c.Grant | None = None, over: Callable[[], bool] = never
    ) -> Any:
        ask = Ask(command, self.actor, grant=under)
        result = await self._brought(ask)
        if isinstance(result, Unavailable):
            result = await self._brought_again(ask, Patience(over))
        if isinstance(result, Answer):
            return result.value
        raise result

    def _brought(self, ask: Ask) -> "asyncio.Future[Result]":
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.reporter.queue.put(Telling(ask, future))
        return future

    async def _brought_again(self, ask: Ask, patience: Patience) -> Result:
        """The store was away: patiently, as long as a lease lasts."""
        while True:
            await asyncio.sleep(patience.pause_s())
            result = await self._brought(ask)
            if isinstance(result, Refused) and patience.knows(result):
                return Answer(None)
            if not isinstance(result, Unavailable) or patience.is_spent():
                return result
