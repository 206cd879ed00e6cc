"""EngineClient: executes commands of runs. What a call returns has been committed.

While the store is unavailable, calls are retried, as `retried_calls` describes.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from detent.app.retried_calls import Backoff, never, retried
from detent.engine import CommandRequest, CommandResult, Engine
from detent.errors import Refused, Unavailable
from detent.kernel import commands as c
from detent.store.port import ReadTransaction
from detent.worker.reporter import Reporter, Result

T = TypeVar("T")


class EngineClient:
    """Executes the commands of one worker's runs; calls block."""

    def __init__(self, engine: Engine, worker: str) -> None:
        self.engine = engine
        self.worker = worker
        self.actor = c.Actor(f"worker:{worker}")

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """A read transaction; it fails while the store is unavailable. Runs use `query`."""
        return self.engine.store.read()

    def query(
        self, read: Callable[[ReadTransaction], T], lease_over: Callable[[], bool] = never
    ) -> T:
        """What a function reads in a transaction, retried as `execute` is."""

        def once() -> T:
            with self.read() as view:
                return read(view)

        return retried(once, lease_over)

    def blob(self, sha256: str, lease_over: Callable[[], bool] = never) -> bytes:
        """The content of a stored file, retried as `execute` is."""
        return retried(lambda: b"".join(self.engine.store.blobs.read(sha256)), lease_over)

    def now(self, lease_over: Callable[[], bool] = never) -> int:
        """The store's clock, in microseconds, retried as `execute` is."""
        return self.query(lambda view: view.now(), lease_over)

    def execute(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any:
        """Execute one command and return its answer; with `grant`, only while it is valid.

        While the store is unavailable, retry until `lease_over` returns True.
        """
        backoff = Backoff(lease_over)
        while True:
            try:
                return self._execute(command, grant)
            except Unavailable as error:
                if backoff.is_exhausted(error):
                    raise
            except Refused as refusal:
                if backoff.was_recorded(refusal):
                    return None
                raise
            time.sleep(backoff.pause_s())

    def execute_all(
        self, commands: Sequence[c.Command], grant: c.Grant, lease_over: Callable[[], bool] = never
    ) -> list[Any]:
        """Execute commands in one transaction; the result has an answer or an error for each."""
        backoff = Backoff(lease_over)
        while True:
            asks = [CommandRequest(command, self.actor, grant=grant) for command in commands]
            results = self.engine.execute(asks)
            unavailable = next((each for each in results if isinstance(each, Unavailable)), None)
            if unavailable is None:
                return results
            if backoff.is_exhausted(unavailable):
                raise unavailable
            time.sleep(backoff.pause_s())

    async def execute_async(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any:
        """As `execute`, for coroutines."""
        return await self.run_blocking(lambda: self.execute(command, grant, lease_over))

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Call a function that blocks on a thread, and await its result."""
        return await asyncio.to_thread(work)

    def _execute(self, command: c.Command, grant: c.Grant | None) -> Any:
        return self.engine.do(command, self.actor, grant=grant)


class WorkerEngineClient(EngineClient):
    """An engine client whose coroutines wait without a thread each: the reporter serves them."""

    def __init__(self, engine: Engine, worker: str, reporter: Reporter) -> None:
        super().__init__(engine, worker)
        self.reporter = reporter

    async def execute_async(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any:
        ask = CommandRequest(command, self.actor, grant=grant)
        result = await self.reporter.execute(ask)
        if isinstance(result, Unavailable):
            result = await self._retry(ask, Backoff(lease_over))
        if isinstance(result, CommandResult):
            return result.value
        raise result

    async def _retry(self, ask: CommandRequest, backoff: Backoff) -> Result:
        while True:
            await asyncio.sleep(backoff.pause_s())
            result = await self.reporter.execute(ask)
            if isinstance(result, Refused) and backoff.was_recorded(result):
                return CommandResult(None)
            if not isinstance(result, Unavailable) or backoff.is_exhausted(result):
                return result
