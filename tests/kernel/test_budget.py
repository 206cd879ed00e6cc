"""Budgets: amounts read exactly, totals that lie, reservations along a tree, warning and excess."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Invalid
from detent.kernel.budget import (
    Budget,
    Exhausted,
    Reserved,
    budget_from,
    cost_from,
    dollars,
    is_warned,
    on_exceeded_from,
    reserve,
    settle,
)


@pytest.mark.parametrize(
    ("amount", "micro"),
    [
        (5, 5_000_000),
        (0.1, 100_000),
        (0.1 + 0.2, 300_000),
        ("2.50", 2_500_000),
        ("1e2", 100_000_000),
        (" 3 ", 3_000_000),
        (Decimal("0.000001"), 1),
        (0.0000014, 1),
        (1_000_000_000, 10**15),
        ("0." + "1" * 38, 111_111),
    ],
)
def test_amounts_become_whole_micro_dollars(amount: object, micro: int) -> None:
    assert budget_from(amount) == cost_from(amount) == micro


@pytest.mark.parametrize("amount", [0, 0.0, "0", -0.0, 0.0000001, "1e-999999999"])
def test_nothing_is_a_cost_but_no_budget(amount: object) -> None:
    assert cost_from(amount) == 0
    with pytest.raises(Invalid) as caught:
        budget_from(amount)
    assert caught.value.field == "max_budget_usd"


@pytest.mark.parametrize(
    "amount",
    [
        -1,
        -0.5,
        "-3",
        math.nan,
        math.inf,
        -math.inf,
        "NaN",
        "sNaN",
        "Infinity",
        1_000_000_001,
        "1e999999999",
        pytest.param(10**5_000, id="more digits than Python prints"),
        "1." + "0" * 39,
        True,
        None,
        "",
        "five",
        "1_000",
        "１２",
        "$5",
        [5],
        {"usd": 5},
    ],
)
def test_what_is_no_amount_is_refused_by_name(amount: object) -> None:
    for read in (budget_from, cost_from):
        with pytest.raises(Invalid) as caught:
            read(amount, "tasks[2].max_budget_usd")
        assert caught.value.field == "tasks[2].max_budget_usd"


@given(st.integers(1, 10**15))
def test_a_written_amount_is_read_back(micro: int) -> None:
    assert budget_from(dollars(micro)) == micro


@pytest.mark.parametrize(
    ("micro", "written"),
    [(0, "0.00"), (5_000_000, "5.00"), (1_500_000, "1.50"), (1, "0.000001"), (-250_000, "-0.25")],
)
def test_amounts_are_written_as_dollars(micro: int, written: str) -> None:
    assert dollars(micro) == written


def test_what_an_exceeded_budget_does() -> None:
    assert on_exceeded_from("Ask") == "ask"
    with pytest.raises(Invalid) as caught:
        on_exceeded_from("ignore")
    assert caught.value.allowed == ("stop", "ask")


# ---- settling ---------------------------------------------------------------------------------


def test_a_total_that_goes_back_adds_nothing_and_is_noticed() -> None:
    first = settle(0, 500)
    assert (first.total, first.added, first.went_back) == (500, 500, False)
    lie = settle(500, 100)
    assert (lie.total, lie.added, lie.went_back) == (500, 0, True)
    later = settle(lie.total, 650)
    assert (later.total, later.added, later.went_back) == (650, 150, False)
    assert settle(650, 650).went_back is False


@given(st.lists(st.integers(0, 10**9)))
def test_what_is_added_in_all_is_the_highest_total_ever_reported(reports: list[int]) -> None:
    total, added = 0, 0
    for reported in reports:
        settled = settle(total, reported)
        total, added = settled.total, added + settled.added
        assert settled.added >= 0
    assert added == total == max(reports, default=0)


# ---- reserving --------------------------------------------------------------------------------


def test_a_run_gets_the_least_that_is_left_from_itself_to_the_root() -> None:
    own, parent = Budget("own", 500, spent=100), Budget("parent", None, spent=10_000)
    root = Budget("root", 1_000, spent=700, reserved=50)
    assert reserve([own, parent]) == Reserved(400)
    assert reserve([own, parent, root]) == Reserved(250)
    assert reserve([parent]) == Reserved(None)
    assert reserve([]) == Reserved(None)


def test_a_run_does_not_start_on_an_empty_budget() -> None:
    full = Budget("own", 500)
    assert reserve([full, Budget("root", 100, spent=100)]) == Exhausted("root", spent=True)
    assert reserve([full, Budget("root", 100, spent=130)]) == Exhausted("root", spent=True)


def test_the_smallest_remaining_budget_decides_at_any_level() -> None:
    line = [Budget("own", 1), Budget("parent", 100, spent=100), Budget("root", 1)]
    assert reserve(line) == Exhausted("parent", spent=True)


def test_what_others_have_reserved_may_come_back() -> None:
    assert reserve([Budget("root", 100, spent=40, reserved=60)]) == Exhausted("root", spent=False)


@given(st.integers(1, 1_000), st.lists(st.integers(0, 400), max_size=20))
def test_runs_that_keep_to_their_reservations_never_exceed_the_tree(
    limit: int, wishes: list[int]
) -> None:
    root = Budget("root", limit)
    for wish in wishes:
        got = reserve([root])
        if isinstance(got, Exhausted):
            break
        assert got.amount is not None
        root = Budget("root", limit, root.spent, root.reserved + got.amount)
        cost = min(wish, got.amount)
        root = Budget("root", limit, root.spent + cost, root.reserved - got.amount)
        assert (root.reserved, root.spent <= limit) == (0, True)


# ---- spending ---------------------------------------------------------------------------------


def test_the_warning_comes_at_eighty_percent() -> None:
    assert [is_warned(1_000, spent) for spent in (0, 799, 800, 1_001)] == [False, False, True, True]
    assert not is_warned(None, 10**9)


def test_the_last_call_may_overshoot() -> None:
    assert Budget("own", 1_000, spent=1_250).remaining == 0
    assert (Budget("own", 1_000, spent=999).used_up, Budget("own", 1_000, spent=1_000).used_up) == (
        False,
        True,
    )
    assert not Budget("own", None, spent=10**9).used_up
