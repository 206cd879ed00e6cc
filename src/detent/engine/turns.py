"""Turns: which thread may write, and the results that the others wait for.

A thread waits for its turn, or until its results are there because another thread has executed its
commands. With a condition, every commit would wake all waiting threads, and most of them in vain.
"""

import threading
from typing import Any


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


class _Waiter:
    """A thread that waits. `has_turn` says, after the wait, whether it may write."""

    __slots__ = ("has_turn", "results", "signal")

    def __init__(self, results: PendingResults | None) -> None:
        self.results = results
        self.has_turn = False
        self.signal = threading.Lock()
        self.signal.acquire()


class Turns:
    """Gives the turn to one thread at a time, in the order in which they came."""

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
