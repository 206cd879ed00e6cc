"""The exceptions of detent. Each has a code, a message, and a hint that says what to do next.

DetentError
├── Refused          the state does not allow it: illegal, in conflict, stale (has the legal events)
├── Invalid          the input is wrong: which field, the given value, the allowed values
├── NotFound         the named object does not exist (has the known names if they are few)
├── Unauthorized     the caller has no valid token
├── Forbidden        the caller's token does not allow the action
├── TooLarge         a size limit was exceeded
├── TooMany          a rate or count limit was exceeded: try again after `retry_after_s`
├── Unavailable      a temporary fault of the service: try again after `retry_after_s`
│   └── StoreUnavailable  the same of the store; the message has its address
├── Misconfigured    a setting is missing or invalid: which one
└── Broken           an invariant is violated: stop, keep the data, report it

JobFailed is not a DetentError: it tells a caller that waited for a result that the job failed.

`CODES` maps each error code to its HTTP status, its exit code and its explanation.
A new code is a new row there; the reference page is generated from it. Standard library only.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from detent.error_codes import CODES


class DetentError(Exception):
    """An error with a code from `CODES`, a message, a hint, and details for programs."""

    default_code: ClassVar[str]

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        row = CODES[self.code]  # a code without a row is a programming error: fail immediately
        self.message = message
        self.hint = hint or row.remedy
        self.add_note(self.hint)  # a traceback shows it
        self.details: dict[str, object] = dict(details or {})

    @property
    def status(self) -> int:
        """The HTTP status of this error's code."""
        return CODES[self.code].status

    @property
    def text(self) -> str:
        """The message and the hint, each as sentences, for one line."""
        end = "" if self.message.endswith((".", "!", "?")) else "."
        return f"{self.message}{end} {self.hint}"

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this error."""
        return CODES[self.code].exit_code


class Refused(DetentError):
    """The present state does not allow it; `legal` lists the events or actions that are allowed."""

    default_code = "refused"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        legal: Iterable[str] = (),
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.legal = tuple(legal)
        merged = {"legal": list(self.legal), **(details or {})}
        super().__init__(message, code=code, hint=hint, details=merged)


class Invalid(DetentError):
    """The input is wrong: `field` has the value `given`; `allowed` lists the allowed values."""

    default_code = "invalid"

    def __init__(
        self,
        message: str,
        *,
        field: str,
        given: object = None,
        allowed: Iterable[str] = (),
        code: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.field, self.given, self.allowed = field, given, tuple(allowed)
        details = {"field": field, "given": given, "allowed": list(self.allowed)}
        super().__init__(message, code=code, hint=hint, details=details)


class NotFound(DetentError):
    """The named object does not exist; `known` lists the existing names if they are few."""

    default_code = "not_found"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        known: Iterable[str] = (),
        hint: str | None = None,
    ) -> None:
        self.known = tuple(known)
        super().__init__(message, code=code, hint=hint, details={"known": list(self.known)})


class Unauthorized(DetentError):
    """The caller has no valid token."""

    default_code = "unauthorized"


class Forbidden(DetentError):
    """The caller's token does not allow the action."""

    default_code = "forbidden"


class TooLarge(DetentError):
    """A size limit was exceeded; `limit` is its value in the unit that the message names."""

    default_code = "too_large"

    def __init__(
        self, message: str, *, limit: int, code: str | None = None, hint: str | None = None
    ) -> None:
        self.limit = limit
        super().__init__(message, code=code, hint=hint, details={"limit": limit})


class _TryAgain(DetentError):
    """An error that is temporary: `retry_after_s` says when to try again."""

    def __init__(
        self, message: str, *, retry_after_s: int, code: str | None = None, hint: str | None = None
    ) -> None:
        self.retry_after_s = retry_after_s
        again = hint or f"Try again in {retry_after_s} s."
        super().__init__(message, code=code, hint=again, details={"retry_after_s": retry_after_s})


class TooMany(_TryAgain):
    """A rate or count limit was exceeded."""

    default_code = "too_many"


class Unavailable(_TryAgain):
    """The service is temporarily unavailable."""

    default_code = "unavailable"


class StoreUnavailable(Unavailable):
    """The store is temporarily unavailable; the message has its address."""


class Misconfigured(DetentError):
    """A setting is missing or invalid; `setting` is its name."""

    default_code = "misconfigured"

    def __init__(self, message: str, *, setting: str, hint: str | None = None) -> None:
        self.setting = setting
        super().__init__(
            message,
            hint=hint
            or f"Correct {setting}; `detent config show` shows where each value comes from.",
            details={"setting": setting},
        )


class Broken(DetentError):
    """An invariant is violated."""

    default_code = "broken"


class JobFailed(Exception):
    """A job ended without a result: `state`, `error_class` and `error` say how.

    It is not a DetentError, because the request itself was correct.
    """

    def __init__(self, job_id: str, state: str, error_class: str | None, error: str | None) -> None:
        super().__init__(f"job {job_id} is {state}: {error or 'no error was recorded'}")
        self.job_id, self.state, self.error_class, self.error = job_id, state, error_class, error
