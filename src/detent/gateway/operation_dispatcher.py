"""Runs operations for the event loop: submissions on one thread, all others in a pool of threads.

Operations block on the store. The submission thread hands everything that has arrived to the engine
before it waits for the results, so that one transaction holds many submissions.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from detent import failpoints
from detent.engine import PendingResults
from detent.errors import DetentError
from detent.gateway.auth import Tokens
from detent.operations.context import Core
from detent.operations.registry import Caller, Operation, PreparedSubmission, call
from detent.submission.context import Context
from detent.trace_propagation import RECEIVED

log = logging.getLogger("detent.gateway")

#: Operations below these paths change the table of tokens.
TOKEN_PATHS = ("/api/tokens", "/api/sessions", "/api/users", "/api/me/")
#: An intent that another process changes has its new options after at most this time.
FRESH_S = 1.0
#: Operations that run at the same time in the pool; further ones wait for a thread.
MAX_THREADS = 16

T = TypeVar("T")


class _Submission(NamedTuple):
    """A submission, and the future that its request awaits."""

    operation: Operation
    caller: Caller
    arguments: Mapping[str, Any]
    response: "asyncio.Future[Any]"
    #: The trace context of the request.
    traceparent: str | None = None


class _Posted(NamedTuple):
    """A submission whose commands are in the engine's queue."""

    submission: _Submission
    posted: PreparedSubmission[Any]
    results: PendingResults


class OperationDispatcher:
    """Calls operations from one event loop."""

    def __init__(self, core: Core, tokens: Tokens) -> None:
        self.core = core
        self.tokens = tokens
        self._submissions: SimpleQueue[_Submission | None] = SimpleQueue()
        self._contexts_since = time.monotonic()
        self._thread = threading.Thread(target=self._submit, name="detent-submissions", daemon=True)
        self._pool = anyio.CapacityLimiter(MAX_THREADS)
        self._thread.start()

    async def call(self, operation: Operation, caller: Caller, arguments: Mapping[str, Any]) -> Any:
        """The result of an operation; the caller's scope is checked first."""
        if operation.scope not in caller.scopes:
            caller.require(operation.scope)  # admin includes it
        if operation.prepare is None:
            result = await self.run_in_thread(
                lambda: call(operation.name, self.core, caller, **arguments)
            )
            if operation.method != "GET" and operation.path.startswith(TOKEN_PATHS):
                self.tokens.forget()
            return result
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._submissions.put(_Submission(operation, caller, arguments, response, RECEIVED.get()))
        return await response

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """The result of a function that blocks, run in the pool."""
        return await anyio.to_thread.run_sync(function, limiter=self._pool)

    def close(self) -> None:
        """Complete the submissions that have arrived, then end the thread."""
        self._submissions.put(None)
        self._thread.join()

    # -- the submission thread -------------------------------------------------------------

    def _submit(self) -> None:
        while (first := self._submissions.get()) is not None:
            arrived = [first, *self._arrived()]
            outcomes: list[tuple[_Submission, Any]] = []
            try:
                if failpoints.armed:
                    failpoints.hit("request.received")
                for each in self._post(arrived, outcomes):
                    self.core.engine.serve(each.results)
                    outcomes.append((each.submission, _outcome(each)))
                if failpoints.armed:
                    failpoints.hit("response.before")
            except Exception as error:  # every client gets a response, and the thread continues
                log.exception("submissions failed")
                outcomes = [(each, error) for each in arrived]
            _deliver(outcomes)

    def _arrived(self) -> Iterator[_Submission]:
        """What is in the queue now; the end (None) stays in it. The engine limits its batches."""
        for _ in range(self._submissions.qsize()):
            try:
                submission = self._submissions.get_nowait()
            except Empty:
                return
            if submission is None:
                self._submissions.put(None)
                return
            yield submission

    def _post(
        self, arrived: list[_Submission], outcomes: list[tuple[_Submission, Any]]
    ) -> list[_Posted]:
        """Put the commands into the engine's queue; a refused submission gets its outcome here."""
        accepted: list[_Posted] = []
        for each in arrived:
            try:
                posted = self._prepared(each)
            except Exception as error:
                outcomes.append((each, error))
            else:
                accepted.append(_Posted(each, posted, self.core.engine.enqueue(posted.requests)))
        return accepted

    def _prepared(self, each: _Submission) -> PreparedSubmission[Any]:
        """The requests of a submission. What it is checked against is read once in `FRESH_S`, and
        again before a submission is refused.
        """
        prepare, contexts = each.operation.prepare, self.core.contexts
        assert prepare is not None
        if time.monotonic() - self._contexts_since >= FRESH_S:
            contexts.clear()
            self._contexts_since = time.monotonic()
        known = contexts.get(each.caller)
        if known is not None:
            try:
                return prepare(self.core, each.caller, _traced(known, each), **each.arguments)
            except DetentError:
                pass
        context = contexts[each.caller] = self.core.submission_context(each.caller)
        return prepare(self.core, each.caller, _traced(context, each), **each.arguments)


def _traced(context: Context, each: _Submission) -> Context:
    """The context of a submission, from the one that all submissions of its caller share."""
    return context if each.traceparent is None else replace(context, traceparent=each.traceparent)


def _outcome(each: _Posted) -> Any:
    try:
        return each.posted.finish(each.results.result())
    except Exception as error:
        return error


def _deliver(outcomes: list[tuple[_Submission, Any]]) -> None:
    """Wake the event loop once for all outcomes."""
    loop = outcomes[0][0].response.get_loop()
    try:
        loop.call_soon_threadsafe(_set_responses, outcomes)
    except RuntimeError:
        return  # the loop has ended, and with it every request; what was committed stays


def _set_responses(outcomes: list[tuple[_Submission, Any]]) -> None:
    for submission, outcome in outcomes:
        if submission.response.done():
            continue  # the client has disconnected
        if isinstance(outcome, Exception):
            submission.response.set_exception(outcome)
        else:
            submission.response.set_result(outcome)
