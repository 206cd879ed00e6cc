"""The engine: executes commands in batches, one write transaction for each batch.

A caller that finds the engine idle runs the next batch on its own thread. Commands that arrive
during a transaction are executed in the next one. The engine never waits to fill a batch.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from detent import failpoints
from detent.engine import batch, claims, due_timers, plain_jobs, project_usage
from detent.engine.batch import Lifetimes
from detent.engine.claims import ClaimRequest
from detent.engine.concurrency_limits import expired
from detent.engine.known_limits import ClaimShares, KnownLimits, read_limits
from detent.engine.plain_jobs import PlainClaims
from detent.engine.plain_submissions import PlainSubmissions
from detent.engine.types import Claimed, CommandRequest, CommandResult
from detent.errors import DetentError, Refused, Unavailable
from detent.kernel.commands import Actor, Command, SubmitJob, SubmitTask
from detent.kernel.commands.limit_commands import ExpirePause, LimitCommand
from detent.store.job_sets import Shape
from detent.store.port import Store, WriteTransaction

#: The maximum number of commands in a batch: it bounds how long later commands wait.
MAX_COMMANDS = 1_000
#: A change of a limit by another process is known after this time at the latest.
LIMITS_FRESH_S = 1.0
#: How often a batch is decided before a version conflict with another process is reported.
MAX_TRIES = 5
#: Commands that create something under an id, and the error code for an id that is taken.
CREATING = {SubmitTask: "task_exists", SubmitJob: "job_exists"}

T = TypeVar("T")

log = logging.getLogger("detent.engine")


class PendingResults:
    """The results of commands that the engine executes in its next batch.

    A thread that wants them calls `Engine.serve` first: until then there is nothing to wait for.
    So this needs no lock of its own, which a `concurrent.futures.Future` has.
    """

    __slots__ = ("_done", "_error", "_results")

    def __init__(self) -> None:
        self._done = False
        self._error: BaseException | None = None
        self._results: list[Any] = []

    def done(self) -> bool:
        """Whether the commands were executed, or could not be."""
        return self._done

    def result(self) -> list[Any]:
        """A CommandResult or an error for each command; raises if the batch failed."""
        assert self._done, "the engine has not executed these commands yet: call serve first"
        if self._error is not None:
            raise self._error
        return self._results

    def set_result(self, results: list[Any]) -> None:
        self._results = results
        self._done = True

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._done = True


class _Pending(NamedTuple):
    """Requests that wait for the next batch, and their results."""

    requests: Sequence[CommandRequest]
    future: PendingResults


class Engine:
    """The only writer of events on one store."""

    def __init__(
        self,
        store: Store,
        lifetimes: Lifetimes | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self._monotonic_s = monotonic_s
        self.lifetimes = lifetimes or Lifetimes()
        self._interactive: deque[_Pending] = deque()
        self._bulk: deque[_Pending] = deque()
        self._turns = Turns()
        #: Of claims. On a store with parallel writes, the next claim overlaps with a batch.
        self._claim_turns = Turns() if store.parallel_writes else self._turns
        self._submissions = PlainSubmissions()
        self._plain = PlainClaims()
        self._known_limits = KnownLimits()
        self._shares = ClaimShares()
        #: How many commands were refused, by error code; a metric.
        self.refused: Counter[str] = Counter()

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command, actor: Actor, **options: Any) -> Any:
        """Execute one command and return the value of its result; raise its refusal."""
        result = self.execute([CommandRequest(command, actor, **options)])[0]
        if isinstance(result, DetentError):
            raise result
        return result.value

    def execute(
        self, requests: Sequence[CommandRequest], *, bulk: bool = False
    ) -> list[batch.Result]:
        """Execute several commands in one transaction; each succeeds or is refused alone."""
        future = self.enqueue(requests, bulk=bulk)
        self.serve(future)
        return future.result()

    def enqueue(self, requests: Sequence[CommandRequest], *, bulk: bool = False) -> PendingResults:
        """Add commands to the next batch without waiting; some thread must call `serve`."""
        pending = _Pending(requests, PendingResults())
        (self._bulk if bulk else self._interactive).append(pending)
        return pending.future

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        """Claim up to `request.most` jobs for a worker."""
        shapes = claims.expected(request, self._plain)
        claimed = self._claim_parts(request, shapes) if shapes else None
        return self._claim(request) if claimed is None else claimed

    def _claim_parts(self, request: ClaimRequest, shapes: Sequence[Shape]) -> list[Claimed] | None:
        """Claim jobs that are expected to have these shapes; None if the first have not."""
        claimed: list[Claimed] | None = None
        for part in request.parts():
            take = partial(self._take, request=part, shapes=shapes)
            taken = self._transaction(take, self._claim_turns)
            if taken is None:
                break
            claimed = [*(claimed or ()), *taken]
            if not claims.may_go_ahead(request, [each.job.intent for each in taken]):
                break
        return claimed

    def _take(
        self,
        tx: WriteTransaction,
        request: ClaimRequest,
        shapes: Sequence[Shape],
    ) -> list[Claimed] | None:
        if tx.sets is None:
            return None
        limits, lease_us = self._limits(tx).rows, self.lifetimes.lease_us
        shares = self._shares.weighted(limits)
        taken = plain_jobs.take(tx.sets, request, shapes, lease_us, self._plain, shares)
        if taken:
            self._shares.add(shares, [each.job.project for each in taken])
        return taken

    def _claim(self, request: ClaimRequest) -> list[Claimed]:
        given = (request, self.lifetimes, self._plain, self._shares)
        claimed = self._transaction(lambda tx: claims.run(tx, *given), self._claim_turns)
        if claimed is None:
            self.expire_pauses()
            claimed = self._transaction(lambda tx: claims.run(tx, *given), self._claim_turns)
        return claimed or []

    def expire_pauses(self) -> int:
        """Write the end of every expired pause, and return their number."""
        with self.store.read() as view:
            names = expired(view.rows("limits"), view.now())
        requests = [CommandRequest(ExpirePause(name), due_timers.ACTOR) for name in names]
        results = self.execute(requests) if requests else []
        return sum(isinstance(each, CommandResult) and each.value for each in results)

    def renew(self, worker: str, grants: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
        """Extend these leases (heartbeat); return those that the worker still holds."""
        with self.store.write() as tx:
            return tx.renew(worker, grants, tx.now() + self.lifetimes.lease_us)

    def transaction(self, work: Callable[[WriteTransaction], T], *, notify: bool = False) -> T:
        """Run `work` in its own write transaction, never at the same time as a batch.

        Waiting workers and readers of the feed are notified after a commit that appended events.
        `notify` notifies them of other changes too, for example of a limit that was raised.
        """
        return self._transaction(work, self._turns, notify=notify)

    def _transaction(
        self, work: Callable[[WriteTransaction], T], turns: "Turns", *, notify: bool = False
    ) -> T:
        turns.begin()
        try:
            with self.store.write() as tx:
                result = work(tx)
                changed = tx.appended
        finally:
            turns.end()
        if changed or notify:
            self.store.notify()
        return result

    # -- batches ---------------------------------------------------------------------------

    def serve(self, future: PendingResults) -> None:
        """Run batches on this thread until the future is done, by this thread or another.

        A thread whose commands were executed in another thread's batch returns without writing.
        If each thread wrote in turn, it would write only the commands that arrived since the last
        one, and no batch would grow.
        """
        while not future.done():
            if self._turns.begin(future):
                try:
                    self._run(self._next_batch())
                finally:
                    self._turns.end()

    def _next_batch(self) -> list[_Pending]:
        """Take what is queued, interactive commands before bulk, up to `MAX_COMMANDS`."""
        taken: list[_Pending] = []
        count = 0
        for queue in (self._interactive, self._bulk):
            while queue and (not taken or count + len(queue[0].requests) <= MAX_COMMANDS):
                pending = queue.popleft()
                taken.append(pending)
                count += len(pending.requests)
        return taken

    def _run(self, pending: list[_Pending]) -> None:
        try:
            results = self._results([request for each in pending for request in each.requests])
            self.refused.update(each.code for each in results if isinstance(each, DetentError))
            failpoints.hit("answer.before")
        except BaseException as error:
            for each in pending:  # otherwise threads that wait for their futures would hang
                each.future.set_exception(error)
            raise
        at = 0
        for each in pending:
            each.future.set_result(results[at : at + len(each.requests)])
            at += len(each.requests)
        self.store.notify()

    def _results(self, requests: Sequence[CommandRequest]) -> list[batch.Result]:
        """Execute in one transaction; if it fails, each command in a transaction of its own.

        After a version conflict with another process the commands are decided again.
        """
        for more_tries in reversed(range(MAX_TRIES)):
            try:
                return self._commit_once(requests)
            except Unavailable as error:
                return [error] * len(requests)
            except Exception as error:  # every caller gets the error, whatever it is
                if more_tries and isinstance(error, Refused) and error.code == "version_conflict":
                    continue
                if len(requests) == 1:
                    return [refusal_of(error, requests[0])]
                break
        return [self._results([request])[0] for request in requests]

    def _commit_once(self, requests: Sequence[CommandRequest]) -> list[batch.Result]:
        with self.store.write() as tx:
            quotas = self._limits(tx).quotas
            if quotas and project_usage.concerns(requests, quotas):
                results = self._admitted(tx, requests, quotas)
            else:
                if tx.sets is not None:
                    submitted = self._submissions.execute(tx.sets, requests)
                    if submitted is not None:
                        return list(submitted)
                results = batch.run(tx, requests, self.lifetimes, self._plain)
        self._plain.committed()
        if any(isinstance(request.command, LimitCommand) for request in requests):
            self._known_limits = KnownLimits()  # read them again
        return results

    def _limits(self, tx: WriteTransaction) -> KnownLimits:
        """The limits as this process knows them: a decision must not cost a read each time."""
        if self._monotonic_s() >= self._known_limits.until_s:
            self._known_limits = read_limits(tx, self._monotonic_s() + LIMITS_FRESH_S)
        return self._known_limits

    def _admitted(
        self, tx: WriteTransaction, requests: Sequence[CommandRequest], quotas: Mapping[str, Any]
    ) -> list[batch.Result]:
        """Execute what the quotas of projects allow, and refuse the rest."""
        refused = project_usage.admit(tx, project_usage.counted(tx, requests, quotas), quotas)
        places = [place for place in range(len(requests)) if place not in refused]
        admitted = [requests[place] for place in places]
        results = batch.run(tx, admitted, self.lifetimes, self._plain) if admitted else []
        found = {**refused, **dict(zip(places, results, strict=True))}
        return [found[place] for place in range(len(requests))]


def refusal_of(error: Exception, request: CommandRequest) -> DetentError:
    """Return the error for the caller: a refusal as it is, any other error as `Unavailable`.

    The log of the program has the traceback of the other error.
    """
    code = CREATING.get(type(request.command))
    # A new child changes its parent too, where another process can cause the conflict.
    names = ("parent_id", "parent_job_id")
    has_parent = any(getattr(request.command, name, None) for name in names)
    conflict = isinstance(error, Refused) and error.code == "version_conflict"
    if code and conflict and not has_parent:
        # Nothing was loaded under the new id, so its stream exists and was deleted.
        return Refused(
            "This id belonged to something that was deleted. Ids are not reused: choose another.",
            code=code,
            details={"deleted": True},
        )
    if isinstance(error, DetentError):
        return error
    log.error("%s failed unexpectedly", type(request.command).__name__, exc_info=error)
    return Unavailable(f"{type(error).__name__}: {error}", retry_after_s=1)


# ---- turns -------------------------------------------------------------------------------------


class _Waiter:
    """A thread that waits. `has_turn` says, after the wait, whether it may write."""

    __slots__ = ("has_turn", "results", "signal")

    def __init__(self, results: PendingResults | None) -> None:
        self.results = results
        self.has_turn = False
        self.signal = threading.Lock()
        self.signal.acquire()


class Turns:
    """Gives the turn to write to one thread at a time, in the order in which they came.

    A thread waits for its turn, or until its results are there because another thread has executed
    its commands. With a condition, every commit would wake all waiting threads, and most of them in
    vain.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiters: list[_Waiter] = []

    def begin(self, results: PendingResults | None = None) -> bool:
        """Wait for the turn. False, without it, if the results are there first."""
        with self._guard:
            if results is not None and results.done():
                return False
            if not self._taken:
                self._taken = True
                return True
            waiter = _Waiter(results)
            self._waiters.append(waiter)
        try:
            waiter.signal.acquire()
        except BaseException:  # the main thread may be interrupted
            self._leave(waiter)
            raise
        return waiter.has_turn

    def end(self) -> None:
        """Wake the threads whose results are there; the first of the others gets the turn."""
        with self._guard:
            left: list[_Waiter] = []
            self._taken = False
            for waiter in self._waiters:
                if waiter.results is not None and waiter.results.done():
                    waiter.signal.release()
                elif self._taken:
                    left.append(waiter)
                else:
                    self._taken = waiter.has_turn = True
                    waiter.signal.release()
            self._waiters = left

    def _leave(self, waiter: _Waiter) -> None:
        with self._guard:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                return
        if waiter.has_turn:
            self.end()
