"""What a handler may raise to say how it failed, and what ends it from outside. Pure names.

Failure (an ordinary exception, its class decides about retries)
├── NetworkError · TimedOut · DependencyMissing · ResourceFailed · NeedsUser · OverBudget
├── RateLimited      carries the reset that the service stated
├── SubtaskFailed    carries the outcomes of all subtasks
└── CodeChanged      what was recorded does not fit the code any more
Expired              a wait is over without a signal or an answer (a TimeoutError)
JobFailed            what `handle.result()` raises for work that did not end well
Interrupted (a BaseException: handlers let it pass, `finally` blocks run)
├── Suspended        the run sleeps; the function is called again when its wait is over
└── Stopped          the run must end: cancelled, lost, over its time limit, or handed back
Crash (a BaseException)  for tests: as if the process had died here
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from detent.errors import JobFailed as JobFailed
from detent.kernel.commands import SuspendRun
from detent.kernel.retry import FailureClass


class Failure(Exception):
    """The work failed; the class decides whether and when it is tried again."""

    kind: ClassVar[FailureClass] = FailureClass.ERROR
    reset_at: int | None = None

    def __init__(self, message: str = "", *, error_class: FailureClass | str | None = None) -> None:
        super().__init__(message or type(self).__name__)
        self.error_class = FailureClass(self.kind if error_class is None else error_class)


class NetworkError(Failure):
    """Something between here and there did not work: tried again soon."""

    kind = FailureClass.NETWORK


class TimedOut(Failure):
    """It took too long: tried again later."""

    kind = FailureClass.TIMEOUT


class DependencyMissing(Failure):
    """Something that must be there first is not: looked at again every few minutes."""

    kind = FailureClass.DEPENDENCY


class ResourceFailed(Failure):
    """The resource that the step holds does not work: another one is taken."""

    kind = FailureClass.RESOURCE


class NeedsUser(Failure):
    """A person must do or confirm something first."""

    kind = FailureClass.NEEDS_USER


class OverBudget(Failure):
    """The money is spent."""

    kind = FailureClass.BUDGET


class RateLimited(Failure):
    """The service wants to be left alone until `reset_at` (an aware datetime, or microseconds)."""

    kind = FailureClass.RATE_LIMIT

    def __init__(self, message: str = "", *, reset_at: datetime | int | None = None) -> None:
        super().__init__(message)
        self.reset_at = _microseconds(reset_at)


def _microseconds(at: datetime | int | None) -> int | None:
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError("reset_at must be an aware datetime: without a time zone it means nothing")
    return round(at.timestamp() * 1_000_000)


class SubtaskFailed(Failure):
    """A gathered subtask did not end well; `outcomes` has what became of each, by name."""

    def __init__(self, message: str, outcomes: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.outcomes = outcomes


class CodeChanged(Failure):
    """A recorded name means something else in the code that now runs."""


class Expired(TimeoutError):
    """A wait's time is over, nobody came, and no default was given."""


class Interrupted(BaseException):
    """Ends a handler from outside. Code that catches BaseException must raise it again."""


class Suspended(Interrupted):
    """The run sleeps until its wait is over."""

    def __init__(self, report: SuspendRun) -> None:
        super().__init__(f"suspended for {report.wait}")
        self.report = report


class Stopped(Interrupted):
    """The run must end now; `why` is one of the reasons of `attempt.Stop`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Crash(BaseException):
    """As if the process had died here: nothing is reported, the lease runs out. For tests."""
