"""The reporter: a thread that has the engine commit the reports of runs, and delivers the results.

A report is posted to the engine when the run ends; the engine commits everything that is posted in
one transaction. The reporter takes part in the engine's turns so that the threads of runs need not,
and does not gather batches of its own. A report that the store cannot take now is posted again.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine import CommandRequest, Engine, PendingResults
from detent.errors import DetentError, Unavailable
from detent.failure_log import FailureLog

log = logging.getLogger("detent.worker")

FIRST_PAUSE_S = 0.05
#: How long a stopping reporter posts reports again while the store is unavailable.
STOP_S = 5.0

#: An Answer, or the error with which the engine refused the command.
Result = Any


class Report(NamedTuple):
    """The end of a run; `done` is called with the result when it is committed or refused."""

    ask: CommandRequest
    posted: PendingResults
    done: Callable[[CommandRequest, Result], None]


class CoroutineCommand(NamedTuple):
    """A command of a coroutine that awaits the result."""

    posted: PendingResults
    awaited: "asyncio.Future[Result]"


class Reporter:
    """Delivers the results of posted reports and of coroutines' commands, on its own thread."""

    def __init__(self, engine: Engine, delivered: Callable[[], None] = lambda: None) -> None:
        self.engine = engine
        #: Called after the results of a batch were delivered: the worker holds fewer jobs.
        self.delivered = delivered
        self._queue: SimpleQueue[Report | CoroutineCommand | None] = SimpleQueue()
        self._failures = FailureLog(
            log,
            "reports of runs are sent again",
            "reports of runs are committed again",
            FIRST_PAUSE_S,
        )
        self._thread = threading.Thread(target=self._loop, name="detent-reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Deliver what was posted, then end the thread; an unavailable store delays that a bit."""
        self._queue.put(None)
        self._thread.join()

    def report(self, ask: CommandRequest, done: Callable[[CommandRequest, Result], None]) -> None:
        """Report the end of a run; does not wait. `done` is called on the reporter's thread."""
        self._queue.put(Report(ask, self._post(ask), done))

    def execute(self, ask: CommandRequest) -> "asyncio.Future[Result]":
        """Execute a command for a coroutine of the running event loop."""
        awaited: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.put(CoroutineCommand(self._post(ask), awaited))
        return awaited

    def _post(self, ask: CommandRequest) -> PendingResults:
        try:
            failpoints.hit("report.before")
        except Exception as error:
            failed = PendingResults()
            failed.set_result([Unavailable(str(error), retry_after_s=1)])
            return failed
        return self.engine.enqueue([ask])

    # -- the thread ------------------------------------------------------------------------

    def _loop(self) -> None:
        until_s: float | None = None
        while until_s is None or (not self._queue.empty() and time.monotonic() < until_s):
            items = self._take()
            if items[-1] is None:
                until_s = time.monotonic() + STOP_S
            self._deliver([item for item in items if item is not None])

    def _take(self) -> list[Report | CoroutineCommand | None]:
        """What was posted: the next item, and those that were posted behind it."""
        items = [self._queue.get()]
        try:
            while items[-1] is not None:
                items.append(self._queue.get_nowait())
        except Empty:
            pass
        return items

    def _deliver(self, items: Sequence[Report | CoroutineCommand]) -> None:
        awaited: list[tuple[asyncio.Future[Result], Result]] = []
        again: list[Report] = []
        failure: Unavailable | None = None
        for item in items:
            result = self._result(item.posted)
            if isinstance(item, CoroutineCommand):
                awaited.append((item.awaited, result))
            elif isinstance(result, Unavailable):
                again.append(item)
                failure = result
            else:
                self._call_done(item, result)
        for loop in {future.get_loop() for future, _ in awaited}:
            _resolve_in(loop, [each for each in awaited if each[0].get_loop() is loop])
        self.delivered()
        if failure is not None:
            self._failures.failed(failure)
            self._post_again(again)
        elif items:
            self._failures.worked()

    def _result(self, posted: PendingResults) -> Result:
        try:
            self.engine.serve(posted)
            (result,) = posted.result()
            failpoints.hit("report.after")
        except DetentError as error:
            return error
        except Exception as error:
            log.exception("the engine failed")
            return Unavailable(str(error), retry_after_s=1)
        return result

    def _call_done(self, report: Report, result: Result) -> None:
        try:
            report.done(report.ask, result)
        except Exception:
            log.exception("a report was committed, and handling its result failed")

    def _post_again(self, reports: Sequence[Report]) -> None:
        """Post reports again that the store could not take, after a pause that grows."""
        time.sleep(self._failures.pause_s)
        for report in reports:
            self._queue.put(report._replace(posted=self._post(report.ask)))


def _resolve_in(
    loop: asyncio.AbstractEventLoop, awaited: Sequence[tuple["asyncio.Future[Result]", Result]]
) -> None:
    # A plain handler can have closed its own loop: then no coroutine awaits the results any more.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, awaited)


def _resolve(awaited: Sequence[tuple["asyncio.Future[Result]", Result]]) -> None:
    for future, result in awaited:
        if not future.done():
            future.set_result(result)
