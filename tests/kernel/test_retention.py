"""Retention: every state of every lifecycle that is kept for a time, and that all others stay."""

import pytest

from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.retention import Retention, expires_at, run_directory_expires_at

DAY = 86_400_000_000
AT = 1_700_000_000_000_000

DAYS = {
    ("board", "done"): 30,
    ("board", "cancelled"): 7,
    ("review", "completed"): 30,
    ("review", "cancelled"): 7,
    ("review", "failed"): 14,
    ("review", "timed_out"): 14,
    ("review", "budget_exceeded"): 14,
    ("job", "completed"): 30,
    ("job", "cancelled"): 7,
    ("job", "failed"): 14,
}
STATES = [
    (name, state) for name in ("board", "review", "job") for state in LIFECYCLES[name].state_names
]


@pytest.mark.parametrize(("lifecycle", "state"), STATES)
def test_how_long_each_state_is_kept(lifecycle: str, state: str) -> None:
    days = DAYS.get((lifecycle, state))
    expected = None if days is None else AT + days * DAY
    assert expires_at(lifecycle, state, AT) == expected
    assert expires_at(lifecycle, state, AT, retries_left=1) == expected


@pytest.mark.parametrize(("lifecycle", "state"), STATES)
def test_no_retry_left_ends_a_blocked_board_task_and_nothing_else(
    lifecycle: str, state: str
) -> None:
    found = expires_at(lifecycle, state, AT, retries_left=0)
    if (lifecycle, state) == ("board", "blocked"):
        assert found == AT + 14 * DAY
    else:
        assert found == expires_at(lifecycle, state, AT)


def test_every_terminal_state_expires() -> None:
    for name in ("board", "review", "job"):
        for state in LIFECYCLES[name].terminal:
            assert expires_at(name, state, AT) is not None


def test_days_are_settings() -> None:
    short = Retention(done_days=1, cancelled_days=2, failed_days=3, run_directory_days=4)
    assert expires_at("board", "done", AT, retention=short) == AT + DAY
    assert expires_at("job", "cancelled", AT, retention=short) == AT + 2 * DAY
    assert expires_at("review", "failed", AT, retention=short) == AT + 3 * DAY
    assert expires_at("board", "blocked", AT, 0, short) == AT + 3 * DAY
    assert run_directory_expires_at(AT, task_live=False, retention=short) == AT + 4 * DAY


def test_run_directories_are_kept_thirty_days_and_while_the_task_lives() -> None:
    assert run_directory_expires_at(AT, task_live=False) == AT + 30 * DAY
    assert run_directory_expires_at(AT, task_live=True) is None
    assert run_directory_expires_at(None, task_live=False) is None
