"""The reporter: takes the reports of many runs to the engine in one transaction.

It never waits to fill a batch. An outcome that the store cannot take now is kept and brought again.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine import CommandRequest, Engine
from detent.errors import DetentError, Unavailable

log = logging.getLogger("detent.worker")

MAX_AT_ONCE = 500
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0

#: What the engine said: an Answer, or an error.
Result = Any


class Outcome(NamedTuple):
    """The end of a run; `done` hears how it was taken, once it was."""

    ask: CommandRequest
    done: Callable[[CommandRequest, Result], None]


class Telling(NamedTuple):
    """A command of a coroutine that waits for the answer."""

    ask: CommandRequest
    future: "asyncio.Future[Result]"


class Reporter:
    """A thread between the runs and the engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.queue: SimpleQueue[Outcome | Telling | None] = SimpleQueue()
        self._again: list[Outcome] = []
        self._pause_s = FIRST_PAUSE_S
        self._thread = threading.Thread(target=self._loop, name="detent-reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Bring what is there, then end."""
        self.queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while True:
            items = self._gather()
            stopping = items and items[-1] is None
            self._report([item for item in items if item is not None])
            if stopping:
                return

    def _gather(self) -> list[Outcome | Telling | None]:
        """What could not be brought before, and everything that has come since."""
        items: list[Outcome | Telling | None] = [*self._again]
        self._again = []
        try:
            if not items:
                items.append(self.queue.get())
            while len(items) < MAX_AT_ONCE and items[-1] is not None:
                items.append(self.queue.get_nowait())
        except Empty:
            pass
        return items

    def _report(self, items: Sequence[Outcome | Telling]) -> None:
        if not items:
            return
        results = self._ask([item.ask for item in items])
        told: list[tuple[Telling, Result]] = []
        for item, result in zip(items, results, strict=True):
            if isinstance(item, Telling):
                told.append((item, result))
            elif isinstance(result, Unavailable):
                self._again.append(item)
            else:
                self._tell(item, result)
        if told:
            told[0][0].future.get_loop().call_soon_threadsafe(_resolve, told)
        self._rest()

    def _ask(self, asks: Sequence[CommandRequest]) -> Sequence[Result]:
        try:
            failpoints.hit("report.before")
            results = self.engine.execute(asks)
            failpoints.hit("report.after")
            return results
        except DetentError as error:
            return [error] * len(asks)
        except Exception as error:
            log.exception("the engine failed")
            return [Unavailable(str(error), retry_after_s=1)] * len(asks)

    def _tell(self, item: Outcome, result: Result) -> None:
        try:
            item.done(item.ask, result)
        except Exception:
            log.exception("a report was taken, but not booked")

    def _rest(self) -> None:
        """The store is away: wait a little longer each time."""
        if not self._again:
            self._pause_s = FIRST_PAUSE_S
            return
        log.warning("%d reports cannot be brought now", len(self._again))
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


def _resolve(told: Sequence[tuple[Telling, Result]]) -> None:
    for item, result in told:
        if not item.future.done():
            item.future.set_result(result)
