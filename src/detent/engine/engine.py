"""The engine: gathers what many callers ask into one transaction at a time, and answers each.

Whoever asks while it is idle runs the batch on its own thread; everybody who comes meanwhile is
taken along in the next one. It never waits to fill a batch.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from detent import failpoints
from detent.engine import batch, claims, due_timers
from detent.engine.batch import Lifetimes
from detent.engine.claims import ClaimAsk
from detent.engine.concurrency_limits import expired
from detent.engine.types import Answer, Ask, Claimed
from detent.errors import DetentError, Refused, Unavailable
from detent.kernel.commands import Actor, Command, SubmitJob, SubmitTask
from detent.kernel.limit_commands import ExpirePause
from detent.store.port import Store, WriteTransaction

#: A batch takes at most this many commands, so that nobody waits long behind it.
MAX_COMMANDS = 1_000
#: How often a batch is decided anew because somebody else was faster.
MAX_TRIES = 3
#: Commands that make something new under an id, and what it means that the id is taken.
NEW = {SubmitTask: "task_exists", SubmitJob: "job_exists"}

T = TypeVar("T")


class _Order(NamedTuple):
    """Something to do in the next transaction."""

    asks: Sequence[Ask]
    future: "Future[list[batch.Result]]"


class Engine:
    """One write path on one store."""

    def __init__(self, store: Store, lifetimes: Lifetimes | None = None) -> None:
        self.store = store
        self.lifetimes = lifetimes or Lifetimes()
        self._interactive: deque[_Order] = deque()
        self._bulk: deque[_Order] = deque()
        #: Whether somebody is writing, and where whoever wants to write waits for it.
        self._busy = False
        self._free = threading.Condition()
        #: How many commands were refused, by code; for whoever watches.
        self.refused: Counter[str] = Counter()

    # -- asking ----------------------------------------------------------------------------

    def do(self, command: Command, actor: Actor, **options: Any) -> Any:
        """Ask for one command and wait; the answer's value, or its refusal raised."""
        result = self.ask([Ask(command, actor, **options)])[0]
        if isinstance(result, DetentError):
            raise result
        return result.value

    def ask(self, asks: Sequence[Ask], *, bulk: bool = False) -> list[batch.Result]:
        """Ask for several commands in one transaction; each is answered or refused alone."""
        future = self.post(asks, bulk=bulk)
        self.serve(future)
        return future.result()

    def post(self, asks: Sequence[Ask], *, bulk: bool = False) -> "Future[list[batch.Result]]":
        """Queue commands for the next batch without waiting; somebody must be serving."""
        order = _Order(asks, Future())
        (self._bulk if bulk else self._interactive).append(order)
        return order.future

    def claim(self, ask: ClaimAsk) -> list[Claimed]:
        """Take up to n jobs for a worker."""
        claimed = self.within(lambda tx: claims.run(tx, ask, self.lifetimes))
        if claimed is None:
            self.expire_pauses()
            claimed = self.within(lambda tx: claims.run(tx, ask, self.lifetimes))
        return claimed or []

    def expire_pauses(self) -> int:
        """Write the end of every pause whose time is over; how many there were."""
        with self.store.read() as view:
            names = expired(view.rows("limits"), view.now())
        asks = [Ask(ExpirePause(name), due_timers.ACTOR) for name in names]
        results = self.ask(asks) if asks else []
        return sum(isinstance(each, Answer) and each.value for each in results)

    def renew(self, worker: str, grants: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
        """Heartbeat: prolong these leases; the answer is those that the worker still holds."""
        with self.store.write() as tx:
            return tx.renew(worker, grants, tx.now() + self.lifetimes.lease_us)

    def within(self, work: Callable[[WriteTransaction], T]) -> T:
        """Run a piece of work in a write transaction of its own, in turn with the batches.

        Work that did something answers so: the bell is rung only then, or pollers would wake each
        other for ever.
        """
        with self._turn(), self.store.write() as tx:
            result = work(tx)
        if result:
            self.store.notify()
        return result

    # -- serving ---------------------------------------------------------------------------

    def serve(self, future: "Future[Any]") -> None:
        """Wait for the answer, or for the turn to get it together with everybody else's.

        Who was answered by another's batch leaves without a turn: if the turn went through all of
        them, each would write what the one before it has asked since, and no batch would grow.
        """
        while not future.done():
            with self._turn(future.done) as mine:
                if mine:
                    self._run(self._gather())

    @contextmanager
    def _turn(self, over: Callable[[], bool] = bool) -> Iterator[bool]:
        """Only one thread writes at a time. False if it is `over` before the turn has come."""
        with self._free:
            while self._busy and not over():
                self._free.wait()
            mine = not (self._busy or over())
            self._busy = self._busy or mine
        try:
            yield mine
        finally:
            if mine:
                with self._free:
                    self._busy = False
                    self._free.notify_all()

    def _gather(self) -> list[_Order]:
        """Everything that is queued, people's commands before bulk, up to the limit."""
        orders: list[_Order] = []
        count = 0
        for queue in (self._interactive, self._bulk):
            while queue and (not orders or count + len(queue[0].asks) <= MAX_COMMANDS):
                order = queue.popleft()
                orders.append(order)
                count += len(order.asks)
        return orders

    def _run(self, orders: list[_Order]) -> None:
        try:
            results = self._results([ask for order in orders for ask in order.asks])
            self.refused.update(each.code for each in results if isinstance(each, DetentError))
            failpoints.hit("answer.before")
        except BaseException as error:
            for order in orders:  # or those whom this thread serves would wait for ever
                order.future.set_exception(error)
            raise
        at = 0
        for order in orders:
            order.future.set_result(results[at : at + len(order.asks)])
            at += len(order.asks)
        self.store.notify()

    def _results(self, asks: Sequence[Ask]) -> list[batch.Result]:
        """In one transaction, or else one by one, so that only those fail whose fault it is.

        If another process moved what was loaded, the commands are decided again.
        """
        for more_tries in reversed(range(MAX_TRIES)):
            try:
                return self._commit_once(asks)
            except Unavailable as error:
                return [error] * len(asks)
            except Exception as error:  # each caller must hear of it, whatever it was
                if more_tries and isinstance(error, Refused) and error.code == "version_conflict":
                    continue
                if len(asks) == 1:
                    return [_explained(error, asks[0])]
                break
        return [self._results([ask])[0] for ask in asks]

    def _commit_once(self, asks: Sequence[Ask]) -> list[batch.Result]:
        with self.store.write() as tx:
            return batch.run(tx, asks, self.lifetimes)


def _explained(error: Exception, ask: Ask) -> DetentError:
    """What a caller is told: a refusal as it is, anything else as it came."""
    taken = NEW.get(type(ask.command))
    # What has a parent moves that too, and somebody else may have been faster there.
    alone = not any(getattr(ask.command, name, None) for name in ("parent_id", "parent_job_id"))
    if taken and alone and isinstance(error, Refused) and error.code == "version_conflict":
        # Nothing was looked at, so that nobody can have moved it: its stream has an old end.
        return Refused(
            "It was here before and was deleted: its id stays taken.",
            code=taken,
            details={"deleted": True},
        )
    return error if isinstance(error, DetentError) else Unavailable(str(error), retry_after_s=1)
