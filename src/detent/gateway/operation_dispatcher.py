"""How requests reach the operations: submissions through one thread, all else through a pool.

Submissions that come while a batch is being written are taken along in the next one, and share its
transaction. A request costs no thread of its own, and the event loop never waits for the store.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from detent import failpoints
from detent.gateway.auth import Tokens
from detent.operations.context import Core
from detent.operations.registry import Caller, Operation, Posted, call

log = logging.getLogger("detent.gateway")

#: A batch takes at most so many submissions, as the engine does.
MAX_AT_ONCE = 1_000
#: Reads and verbs that may be under way at once; further ones wait for their turn.
#: Operations below these paths change the table of tokens.
TOKENS = ("/api/tokens", "/api/sessions")
MAX_THREADS = 16


class _Order(NamedTuple):
    """A submission with the place where its answer is waited for."""

    operation: Operation
    caller: Caller
    arguments: Mapping[str, Any]
    answer: "asyncio.Future[Any]"


class _Begun(NamedTuple):
    """A submission that the engine has been asked for."""

    order: _Order
    posted: Posted[Any]
    result: "Future[Any]"


class OperationDispatcher:
    """From one event loop to the operations, which block: requests there, answers back."""

    def __init__(self, core: Core, tokens: Tokens) -> None:
        self.core = core
        self.tokens = tokens
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="detent-submissions", daemon=True)
        self._pool = anyio.CapacityLimiter(MAX_THREADS)
        self._thread.start()

    async def ask(self, operation: Operation, caller: Caller, arguments: Mapping[str, Any]) -> Any:
        """The answer of an operation; its scope is checked first."""
        caller.must(operation.scope)
        if operation.post is None:
            answer = await self.work(lambda: call(operation.name, self.core, caller, **arguments))
            if operation.method != "GET" and operation.path.startswith(TOKENS):
                self.tokens.forget()
            return answer
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._orders.put(_Order(operation, caller, arguments, made))
        return await made

    async def work(self, work: Callable[[], Any]) -> Any:
        """Something that reads or writes the store, away from the event loop."""
        return await anyio.to_thread.run_sync(work, limiter=self._pool)

    def close(self) -> None:
        """Work off what was asked for, then end the thread."""
        self._orders.put(None)
        self._thread.join()

    # -- the thread ------------------------------------------------------------------------

    def _serve(self) -> None:
        """Ask the engine for everything that has come, all at once."""
        while (first := self._orders.get()) is not None:
            orders = [first, *self._waiting()]
            answers: list[tuple[_Order, Any]] = []
            try:
                failpoints.hit("request.received")
                for each in self._begun(orders, answers):
                    self.core.engine.serve(each.result)
                    answers.append((each.order, _outcome(each)))
                failpoints.hit("response.before")
            except Exception as error:  # each client must hear of it, and the thread goes on
                log.exception("submissions failed")
                answers = [(order, error) for order in orders]
            _deliver(answers)

    def _waiting(self) -> Iterator[_Order]:
        """What came meanwhile; the end stays in the queue for the next look."""
        for _ in range(MAX_AT_ONCE - 1):
            try:
                order = self._orders.get_nowait()
            except Empty:
                return
            if order is None:
                self._orders.put(None)
                return
            yield order

    def _begun(self, orders: Iterable[_Order], answers: list[tuple[_Order, Any]]) -> list[_Begun]:
        """What the engine was asked for; a refusal is an answer already."""
        begun: list[_Begun] = []
        for order in orders:
            assert order.operation.post is not None
            try:
                posted = order.operation.post(self.core, order.caller, **order.arguments)
            except Exception as error:
                answers.append((order, error))
            else:
                begun.append(_Begun(order, posted, self.core.engine.post(posted.asks)))
        return begun


def _outcome(begun: _Begun) -> Any:
    try:
        return begun.posted.finish(begun.result.result())
    except Exception as error:
        return error


def _deliver(answers: list[tuple[_Order, Any]]) -> None:
    """Wake the event loop once for the whole batch."""
    loop = answers[0][0].answer.get_loop()
    try:
        loop.call_soon_threadsafe(_settle, answers)
    except RuntimeError:
        return  # the loop has ended: nobody waits any more, and what is written stays written


def _settle(answers: list[tuple[_Order, Any]]) -> None:
    for order, outcome in answers:
        if order.answer.done():
            continue  # the client has gone away
        if isinstance(outcome, Exception):
            order.answer.set_exception(outcome)
        else:
            order.answer.set_result(outcome)
