"""Retention: every state of every lifecycle that is kept for a time, and that all others stay."""

import pytest

from detent.kernel.retention import JOB_ENDINGS, Ending, Retention, is_over
from detent.task_lifecycles import SHIPPED, all_lifecycles

DAY = 86_400_000_000
AT = 1_700_000_000_000_000

ENDINGS = {
    ("board", "done"): Ending.DONE,
    ("board", "cancelled"): Ending.CANCELLED,
    ("review", "completed"): Ending.DONE,
    ("review", "cancelled"): Ending.CANCELLED,
    ("review", "failed"): Ending.FAILED,
    ("review", "timed_out"): Ending.FAILED,
    ("review", "budget_exceeded"): Ending.FAILED,
    ("job", "completed"): Ending.DONE,
    ("job", "cancelled"): Ending.CANCELLED,
    ("job", "failed"): Ending.FAILED,
}
STATES = [
    (name, state)
    for name in ("board", "review", "job")
    for state in all_lifecycles()[name].state_names
]


def ending(lifecycle: str, state: str, retries_left: int | None = None) -> Ending | None:
    if lifecycle == "job":
        return JOB_ENDINGS.get(state)
    return SHIPPED[lifecycle].ending(state, retries_left)


@pytest.mark.parametrize(("lifecycle", "state"), STATES)
def test_how_each_state_is_an_end(lifecycle: str, state: str) -> None:
    expected = ENDINGS.get((lifecycle, state))
    assert ending(lifecycle, state) == expected
    assert ending(lifecycle, state, retries_left=1) == expected


@pytest.mark.parametrize(("lifecycle", "state"), STATES)
def test_no_retry_left_ends_a_blocked_task_and_nothing_else(lifecycle: str, state: str) -> None:
    found = ending(lifecycle, state, retries_left=0)
    if state == "blocked":
        assert found == Ending.FAILED
    else:
        assert found == ending(lifecycle, state)


def test_every_terminal_state_is_an_end() -> None:
    for name in ("board", "review", "job"):
        for state in all_lifecycles()[name].terminal:
            assert ending(name, state) is not None


def test_days_are_settings() -> None:
    assert [Retention().days(each) for each in Ending] == [30, 7, 14]
    short = Retention(done_days=1, cancelled_days=2, failed_days=3)
    assert [short.days(each) for each in Ending] == [1, 2, 3]


def test_what_a_run_left_is_kept_so_long_and_while_its_task_lives() -> None:
    assert not is_over(AT, 30, AT + 30 * DAY - 1, task_live=False)
    assert is_over(AT, 30, AT + 30 * DAY, task_live=False)
    assert not is_over(AT, 30, AT + 30 * DAY, task_live=True)
    assert not is_over(None, 30, AT + 30 * DAY, task_live=False)
