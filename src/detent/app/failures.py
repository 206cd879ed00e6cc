"""Exceptions of handlers: those that they raise to classify a failure, and those that end them.

Failure (an ordinary exception; its class decides about retries)
├── NetworkError · TimedOut · DependencyMissing · ResourceFailed · NeedsUser · OverBudget
├── RateLimited      has the time of the reset that the service stated
├── SubtaskFailed    has the outcomes of all subtasks
└── CodeChanged      a checkpoint does not fit the present code
Expired              a wait timed out without a signal or an answer (a TimeoutError)
JobFailed            raised by `handle.result()` if the job failed or was cancelled
Interrupted (a BaseException: handlers let it pass, `finally` blocks run)
├── Suspended        the run waits; the handler is called again when its wait is over
└── Stopped          the run must end: cancelled, lost, over its time limit, or handed back
Crash (a BaseException)  for tests: simulates the death of the process
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from detent.errors import JobFailed as JobFailed
from detent.kernel.commands import SuspendRun
from detent.kernel.retry import FailureClass


class Failure(Exception):
    """The work failed. `error_class` decides whether and when the job is retried."""

    kind: ClassVar[FailureClass] = FailureClass.ERROR
    #: The earliest time of the next attempt, in microseconds since 1970. RateLimited sets it.
    reset_at: int | None = None

    def __init__(self, message: str = "", *, error_class: FailureClass | str | None = None) -> None:
        super().__init__(message or type(self).__name__)
        self.error_class = FailureClass(self.kind if error_class is None else error_class)


class NetworkError(Failure):
    """A network error: the job is retried soon."""

    kind = FailureClass.NETWORK


class TimedOut(Failure):
    """Something took too long: the job is retried later."""

    kind = FailureClass.TIMEOUT


class DependencyMissing(Failure):
    """A dependency is missing: the job is retried every few minutes."""

    kind = FailureClass.DEPENDENCY


class ResourceFailed(Failure):
    """The resource of the plan step does not work: the step is retried with another one."""

    kind = FailureClass.RESOURCE


class NeedsUser(Failure):
    """A person must do or confirm something before the job can be retried."""

    kind = FailureClass.NEEDS_USER


class OverBudget(Failure):
    """The budget is spent."""

    kind = FailureClass.BUDGET


class RateLimited(Failure):
    """A service refuses requests until `reset_at`: a datetime with a zone, or microseconds."""

    kind = FailureClass.RATE_LIMIT

    def __init__(self, message: str = "", *, reset_at: datetime | int | None = None) -> None:
        super().__init__(message)
        self.reset_at = _microseconds(reset_at)


def _microseconds(at: datetime | int | None) -> int | None:
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError(f"reset_at must be a datetime with a time zone, not {at!r}")
    return round(at.timestamp() * 1_000_000)


class SubtaskFailed(Failure):
    """A gathered subtask failed. `outcomes` has the SubtaskOutcome of each subtask, by name."""

    def __init__(self, message: str, outcomes: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.outcomes = outcomes


class CodeChanged(Failure):
    """A recorded name is of another kind, or has another count, in the present code."""


class Expired(TimeoutError):
    """A wait timed out and has no default."""


class Interrupted(BaseException):
    """Ends a handler from outside. Code that catches BaseException must raise it again."""


class Suspended(Interrupted):
    """The run is suspended until its wait is over."""

    def __init__(self, report: SuspendRun) -> None:
        super().__init__(f"suspended for {report.wait}")
        self.report = report


class Stopped(Interrupted):
    """The run must end now. `why`: `cancel`, `lost`, `run`, `idle` or `hand_back`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Crash(BaseException):
    """For tests: simulates the death of the process. Nothing is reported, the lease expires."""
