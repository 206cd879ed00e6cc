"""Every error detent raises on purpose. Each says whose fault it is and what to do now.

DetentError
├── Refused          the rules say no: illegal, in conflict, stale (carries what would be legal)
├── Invalid          the input is wrong: which field, what was given, what is allowed
├── NotFound         there is no such thing (carries the known names where they are few)
├── Unauthorized     nobody knows who is asking
├── Forbidden        the asker is known and may not
├── TooLarge         a size limit was passed
├── TooMany          a rate or count limit was passed: try again after `retry_after_s`
├── Unavailable      not the asker's fault and not for ever: try again after `retry_after_s`
├── Misconfigured    the operator must set something: which setting
└── Broken           an invariant does not hold: stop, keep the data, report it

JobFailed is apart: the work itself did not end well, and whoever waited for its result hears it.

`CODES` is the one table from error code to HTTP status, exit code and words for people.
A new code is a new row there; the reference page is generated from it. Standard library only.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from detent.error_codes import CODES


class DetentError(Exception):
    """An error with a code from `CODES`, a message, what to do now, and details for machines."""

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
        row = CODES[self.code]  # a code without a row is a mistake in the program: fail at once
        self.message = message
        self.hint = hint or row.remedy
        self.details: dict[str, object] = dict(details or {})

    @property
    def status(self) -> int:
        """The HTTP status of this error's code."""
        return CODES[self.code].status

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this error."""
        return CODES[self.code].exit_code


class Refused(DetentError):
    """The rules say no; `legal` lists the events or actions that they would allow."""

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
    """The input is wrong: `field` was `given` where one of `allowed` was asked for."""

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
    """There is no such thing; `known` lists the names that exist where they are few."""

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
    """Nobody knows who is asking."""

    default_code = "unauthorized"


class Forbidden(DetentError):
    """The asker is known and may not."""

    default_code = "forbidden"


class TooLarge(DetentError):
    """A size limit was passed; `limit` says which number, in the unit the message names."""

    default_code = "too_large"

    def __init__(self, message: str, *, limit: int, code: str | None = None) -> None:
        self.limit = limit
        super().__init__(message, code=code, details={"limit": limit})


class _TryAgain(DetentError):
    """What TooMany and Unavailable share: when to try again."""

    def __init__(self, message: str, *, retry_after_s: int, code: str | None = None) -> None:
        self.retry_after_s = retry_after_s
        hint = f"Try again in {retry_after_s} s."
        super().__init__(message, code=code, hint=hint, details={"retry_after_s": retry_after_s})


class TooMany(_TryAgain):
    """A rate or count limit was passed."""

    default_code = "too_many"


class Unavailable(_TryAgain):
    """Not the asker's fault and not for ever."""

    default_code = "unavailable"


class Misconfigured(DetentError):
    """The operator must set something; `setting` names it."""

    default_code = "misconfigured"

    def __init__(self, message: str, *, setting: str, hint: str | None = None) -> None:
        self.setting = setting
        super().__init__(
            message,
            hint=hint
            or f"Correct {setting}; `detent config show` says where a setting comes from.",
            details={"setting": setting},
        )


class Broken(DetentError):
    """An invariant does not hold: stop."""

    default_code = "broken"


class JobFailed(Exception):
    """The work itself did not end well: `state`, `error_class` and `error` say how.

    Not one of the above: nobody has asked for anything wrong.
    """

    def __init__(self, job_id: str, state: str, error_class: str | None, error: str | None) -> None:
        super().__init__(f"job {job_id} is {state}: {error or 'no error was recorded'}")
        self.job_id, self.state, self.error_class, self.error = job_id, state, error_class, error
