"""Priorities: their names and aliases, their head starts, and that nothing starves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Invalid
from detent.kernel.priority import Priority, priority_from, rank

MINUTE = 60_000_000
HOUR = 3_600_000_000
times = st.integers(0, 2**53)


@pytest.mark.parametrize(
    ("given_name", "priority"),
    [
        ("P0", "P0"),
        ("p1", "P1"),
        ("P2", "P2"),
        ("p3", "P3"),
        ("high", "P0"),
        ("Normal", "P2"),
        ("LOW", "P3"),
    ],
)
def test_names_and_aliases_in_any_letter_case(given_name: str, priority: str) -> None:
    assert priority_from(given_name) == priority


@pytest.mark.parametrize("wrong", ["P4", "P", "", "medium", " P0", "P０", 0, None, True, ["P0"]])
def test_anything_else_is_answered_with_what_is_allowed(wrong: object) -> None:
    with pytest.raises(Invalid) as caught:
        priority_from(wrong, "tasks[3].priority")
    assert caught.value.field == "tasks[3].priority"
    assert caught.value.allowed == ("P0", "P1", "P2", "P3", "high", "normal", "low")


@pytest.mark.parametrize(
    ("priority", "offset"), [("P0", 0), ("P1", 10 * MINUTE), ("P2", HOUR), ("P3", 6 * HOUR)]
)
def test_head_starts(priority: str, offset: int) -> None:
    assert rank(Priority(priority), 1_234_567) == 1_234_567 + offset


@given(st.sampled_from(Priority), times, times)
def test_within_a_priority_first_come_is_first_served(
    priority: Priority, first: int, second: int
) -> None:
    assert (rank(priority, first) < rank(priority, second)) == (first < second)


@given(times)
def test_at_the_same_time_the_higher_priority_is_first(at: int) -> None:
    ranks = [rank(priority, at) for priority in Priority]
    assert ranks == sorted(set(ranks))


@given(st.sampled_from(Priority), st.sampled_from(Priority), times)
def test_nothing_waits_behind_work_that_came_six_hours_later(
    old: Priority, new: Priority, at: int
) -> None:
    assert rank(old, at) < rank(new, at + 6 * HOUR + 1)
