"""Durable waits of a run: timers, signals and questions. The run ends, and continues afterwards.

While a job waits, no worker holds it. When the wait is over, the handler is called again and finds
the outcome of the wait as a checkpoint.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from detent import failpoints
from detent.app.failures import Expired, Suspended
from detent.app.journal import WAIT, Journal
from detent.app.run_operations import BlockingCall, Operation
from detent.app.values import storable
from detent.errors import Invalid
from detent.kernel import commands as c

LONGEST_WAIT_S = 10 * 365 * 86_400
#: The value of a parameter `default` that was not given; None is a default.
MISSING: Any = object()


def wait(
    journal: Journal,
    name: str,
    kind: str,
    *,
    needs: Sequence[str] = (),
    timeout_s: float | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Operation[Any]:
    """The outcome of a wait that is over; otherwise suspend the run until it is."""
    known = yield from journal.find(name, WAIT)
    if known is not None:
        return known.value
    due_at = None
    if timeout_s is not None:
        due_at = (yield BlockingCall(journal.client.now)) + _microseconds(timeout_s)
    step = journal.run.step
    report = c.SuspendRun(
        journal.grant,
        journal.run.run_id,
        journal.prefix + name,
        kind,
        tuple(needs),
        due_at,
        detail or {},
        0 if step is None else step.hold_resource_ms * 1_000,
    )
    failpoints.hit("wait.before")
    journal.suspension = Suspended(report)
    raise journal.suspension


def sleep(journal: Journal, seconds: float, name: str) -> Operation[None]:
    """Wait for a time."""
    yield from wait(journal, name, "timer", timeout_s=seconds)


def wait_for(
    journal: Journal, signal: str, timeout_s: float | None, default: Any, name: str | None
) -> Operation[Any]:
    """Wait for a signal and return its value."""
    over = yield from wait(
        journal, name or f"signal:{signal}", "signal", needs=(signal,), timeout_s=timeout_s
    )
    if over["outcome"] == "signalled":
        return over["value"][signal]
    if default is MISSING:
        named = "" if name is None else f" (wait {name!r})"
        raise Expired(f"no signal {signal!r} came within {timeout_s} s{named}")
    return default


def ask(
    journal: Journal,
    question: str,
    choices: Sequence[Any],
    timeout_s: float | None,
    default: Any,
    name: str,
    kind: str = "question",
    *,
    other: bool = False,
) -> Operation[Any]:
    """Ask a person a question and wait for the answer."""
    detail = {"text": question, "options": storable(list(choices), "choices")}
    if other:
        detail["other"] = True
    if default is not MISSING:
        detail["default"] = storable(default, "default")
    over = yield from wait(journal, name, kind, timeout_s=timeout_s, detail=detail)
    if over["outcome"] == "expired":
        raise Expired(f"the question {question!r} was not answered within {timeout_s} s")
    return over["value"]


def _microseconds(seconds: float) -> int:
    try:
        fits = not isinstance(seconds, bool) and 0 <= seconds <= LONGEST_WAIT_S
    except TypeError:  # not a number, as timedelta(days=1) or "60"
        fits = False
    if not fits:
        raise Invalid(
            f"a wait must last from 0 to {LONGEST_WAIT_S} seconds, not {seconds!r}.",
            field="seconds",
            given=seconds,
        )
    return round(seconds * 1_000_000)
