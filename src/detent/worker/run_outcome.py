"""From how a run ended to what is reported: exceptions and exit codes to failure classes. Pure.

Tables first; a class of failure that the handler states itself always counts.
"""

import errno
import os
import signal
import socket
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detent.app.failures import Failure, Interrupted
from detent.app.values import storable_text
from detent.errors import DetentError, Misconfigured, Refused
from detent.kernel import commands as c
from detent.kernel.retry import FailureClass
from detent.redaction import redact

LONGEST_ERROR = 2_000
#: The directories of detent's own code between the worker and a handler.
OWN = tuple(f"{Path(__file__).parent.parent / part}{os.sep}" for part in ("worker", "app"))

#: The first that fits counts: TimeoutError is an OSError too.
BY_TYPE: Sequence[tuple[type[BaseException], FailureClass]] = (
    (TimeoutError, FailureClass.TIMEOUT),
    (ConnectionError, FailureClass.NETWORK),
    (socket.gaierror, FailureClass.NETWORK),
    (socket.herror, FailureClass.NETWORK),
    (Misconfigured, FailureClass.NEEDS_USER),
)
#: Errors of the operating system that mean the network.
BY_ERRNO = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})


class Failed(NamedTuple):
    """What is known of a failure."""

    error_class: FailureClass
    error: str
    exit_code: int | None = None
    reset_at: int | None = None


def of_exception(error: BaseException) -> Failed:
    """Why a handler failed, by the exception that came out of it."""
    if isinstance(error, Failure):
        return Failed(error.error_class, shown(error), reset_at=error.reset_at)
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else None
        return Failed(FailureClass.ERROR, f"the handler called exit({error.code!r})", code)
    return Failed(_class_of(error), shown(error))


def _class_of(error: BaseException) -> FailureClass:
    for kind, failure_class in BY_TYPE:
        if isinstance(error, kind):
            return failure_class
    if isinstance(error, Refused) and error.code == "storage_quota":
        return FailureClass.RESOURCE_LIMIT
    if isinstance(error, OSError) and error.errno in BY_ERRNO:
        return FailureClass.NETWORK
    return FailureClass.ERROR


def shown(error: BaseException) -> str:
    """The error in one line: its type, its words, and where it was raised."""
    if isinstance(error, DetentError):
        text = error.text
    else:
        words = str(error)
        name = type(error).__name__
        text = f"{name}: {words}" if words and words != name else name
        text += _place(error)
    text = redact(text)
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 3]}..."


def _place(error: BaseException) -> str:
    """Where it came from: the innermost line that is not the worker's own, so that a wait which
    has expired names the line that waited."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(OWN)]
    found = (theirs or frames)[-1:]
    return f" ({found[0].filename}:{found[0].lineno})" if found else ""


def interrupted(error: BaseException) -> Interrupted | None:
    """The interruption in an exception, also in a group of them."""
    if isinstance(error, Interrupted):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(interrupted, error.exceptions)), None)
    return None


# ---- reports -------------------------------------------------------------------------------


def completed(grant: c.Grant, run_id: str, result: Any, exit_code: int | None = None) -> c.Report:
    return c.CompleteRun(grant, run_id, result, exit_code)


def failed(grant: c.Grant, run_id: str, failure: Failed) -> c.Report:
    """The report of a failure. A refused one would leave the job with its worker until the lease
    ends, so its text has only characters that every store can hold."""
    error_class, error, exit_code, reset_at = failure
    text = storable_text(error)
    return c.FailRun(grant, run_id, error_class.value, text, exit_code, reset_at)


def instead_of(report: c.Report, refusal: DetentError) -> c.Report | None:
    """What to report in place of a refused report: a failure, or nothing if the grant is gone."""
    run_id = getattr(report, "run_id", None)
    if refusal.code == "stale_fence" or run_id is None or isinstance(report, c.FailRun):
        return None
    return failed(report.grant, run_id, of_exception(refusal))


def of_exit_code(code: int, tail: str = "") -> Failed | None:
    """None if the command succeeded; a negative code is the signal that ended it."""
    if code == 0:
        return None
    how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    text = f"the command {how}" + (f": {tail}" if tail else "")
    return Failed(FailureClass.ERROR, redact(text)[:LONGEST_ERROR], code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
