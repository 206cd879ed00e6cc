"""From how a run ended to the class of its failure."""

import errno
import socket
from datetime import UTC, datetime

import pytest

from detent.app.failures import (
    DependencyMissing,
    Failure,
    NeedsUser,
    NetworkError,
    OverBudget,
    RateLimited,
    ResourceFailed,
    Stopped,
    TimedOut,
)
from detent.errors import Invalid, Misconfigured, Refused
from detent.kernel import commands as c
from detent.worker import run_outcome

GRANT = c.Grant("j", 1, "n")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError("gone"), "network"),
        (BrokenPipeError(), "network"),
        (socket.gaierror("no such host"), "network"),
        (OSError(errno.ENETUNREACH, "unreachable"), "network"),
        (OSError(errno.ENOENT, "no file"), "error"),
        (TimeoutError(), "timeout"),
        (ValueError("wrong"), "error"),
        (MemoryError(), "error"),
        (KeyboardInterrupt(), "error"),
        (NetworkError(), "network"),
        (TimedOut(), "timeout"),
        (DependencyMissing(), "dependency"),
        (ResourceFailed(), "resource"),
        (NeedsUser(), "needs_user"),
        (OverBudget(), "budget"),
        (RateLimited(), "rate_limit"),
        (Misconfigured("The variable KEY is not set.", setting="x"), "needs_user"),
        (Failure("odd", error_class="network"), "network"),
    ],
)
def test_the_class_of_an_exception(error: BaseException, expected: str) -> None:
    assert run_outcome.of_exception(error).error_class == expected


def test_a_rate_limit_carries_its_reset() -> None:
    reset = datetime(2030, 1, 1, tzinfo=UTC)
    failure = run_outcome.of_exception(RateLimited("slow down", reset_at=reset))
    assert failure.reset_at == 1_893_456_000_000_000
    assert run_outcome.of_exception(RateLimited(reset_at=5)).reset_at == 5
    with pytest.raises(ValueError, match="a datetime with a time zone"):
        RateLimited(reset_at=datetime(2030, 1, 1))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "ended with exit code 1"),
        (-9, "was ended by SIGKILL"),
        (-200, "was ended by signal 200"),
    ],
)
def test_an_exit_code_other_than_zero_is_a_failure(code: int, text: str) -> None:
    failure = run_outcome.of_exit_code(code, "the last line")
    assert failure is not None
    assert text in failure.error
    assert failure.error.endswith("the last line")
    assert failure.exit_code == code
    assert run_outcome.of_exit_code(0) is None


def test_an_exit_of_the_interpreter_is_the_handlers_failure() -> None:
    failure = run_outcome.of_exception(SystemExit(3))
    assert (failure.error, failure.exit_code) == ("the handler called exit(3)", 3)


def test_an_error_is_shown_in_one_line_with_its_place_and_cut_short() -> None:
    assert len(run_outcome.shown(ValueError("x" * 5_000))) == run_outcome.LONGEST_ERROR
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("x")
    assert "test_outcome.py:" in run_outcome.shown(raised.value)
    assert run_outcome.shown(Invalid("a is wrong.", field="a", hint="Do b.")) == "a is wrong. Do b."


def test_the_text_of_a_failure_can_be_stored() -> None:
    error = ValueError("a\0b\udc80c\ud83d\ude00\ud83d")
    report = run_outcome.failed(GRANT, "r", run_outcome.of_exception(error))
    assert isinstance(report, c.FailRun)
    assert report.error == "ValueError: a\ufffdb\ufffdc\U0001f600\ufffd"


def test_an_interruption_is_found_in_groups() -> None:
    stopped = Stopped("cancel")
    group = BaseExceptionGroup("g", [ValueError(), BaseExceptionGroup("h", [stopped])])
    assert run_outcome.interrupted(group) is stopped
    assert run_outcome.interrupted(ValueError()) is None


def test_a_refused_report_becomes_a_failure_unless_the_grant_is_gone() -> None:
    report = c.SuspendRun(GRANT, "r", "sleep", "timer")
    instead = run_outcome.instead_of(report, Refused("used twice", code="name_used_twice"))
    assert isinstance(instead, c.FailRun)
    assert "used twice" in instead.error
    assert run_outcome.instead_of(report, Refused("old", code="stale_fence")) is None
    assert run_outcome.instead_of(instead, Refused("no")) is None
    assert run_outcome.instead_of(c.HandBack(GRANT), Refused("no")) is None
