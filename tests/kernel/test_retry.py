"""Retry rules: the numbers typed by hand, what an intent may override, and the shape of backoff."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Invalid
from detent.kernel.retry import (
    PLAIN,
    Again,
    Backoff,
    FailureClass,
    RetryPolicy,
    RetryRule,
    failure_class_from,
    policy_from,
    retries_left,
    verdict,
)
from detent.task_lifecycles import SHIPPED

S = 1_000_000
NOW = 1_700_000_000 * S
DEFAULT_POLICIES = {**{name: each.policy for name, each in SHIPPED.items()}, "job": PLAIN}
BOARD = DEFAULT_POLICIES["board"]
REVIEW = DEFAULT_POLICIES["review"]

# The delays in seconds before each retry, and then no retry is left.
DELAYS = {
    ("board", "network"): [30, 60, 120],
    ("board", "timeout"): [300],
    ("board", "cancelled"): [],
    ("board", "budget"): [],
    ("board", "needs_user"): [],
    ("board", "resource_limit"): [],
    ("board", "error"): [1, 2, 4],
    ("board", "resource"): [1, 2, 4],
    ("review", "network"): [30, 60, 120],
    ("review", "timeout"): [],
    ("review", "cancelled"): [],
    ("review", "budget"): [],
    ("review", "needs_user"): [],
    ("review", "resource_limit"): [],
    ("review", "error"): [],
    ("review", "resource"): [],
    ("job", "network"): [30, 60, 120],
    ("job", "timeout"): [300],
    ("job", "error"): [1, 2, 4],
}


def delays_s(policy: RetryPolicy, name: str) -> list[float]:
    """The delays that a policy gives when the same failure happens again and again."""
    delays = []
    for n in range(50):
        found = verdict(policy, FailureClass(name), {name: n}, 0, NOW)
        if found is None:
            break
        delays.append((found.not_before - NOW) / S)
    return delays


@pytest.mark.parametrize(("lifecycle", "name"), DELAYS)
def test_retries_and_delays_by_class(lifecycle: str, name: str) -> None:
    assert delays_s(DEFAULT_POLICIES[lifecycle], name) == DELAYS[lifecycle, name]


@pytest.mark.parametrize("policy", DEFAULT_POLICIES.values(), ids=DEFAULT_POLICIES)
def test_every_class_has_a_rule(policy: RetryPolicy) -> None:
    assert set(policy.rules) == {
        "network",
        "timeout",
        "dependency",
        "cancelled",
        "budget",
        "lost",
        "rate_limit",
        "error",
        "resource",
        "needs_user",
        "resource_limit",
    }


@pytest.mark.parametrize("policy", [BOARD, REVIEW], ids=["board", "review"])
def test_a_dependency_is_checked_every_five_minutes_without_limit(policy: RetryPolicy) -> None:
    found = verdict(policy, FailureClass.DEPENDENCY, {"dependency": 10_000}, 0, NOW)
    assert found == Again(NOW + 300 * S, immediate=False, counted=True, retries_left=None)
    assert retries_left(policy, FailureClass.DEPENDENCY, {"dependency": 10_000}, 0) is None


@pytest.mark.parametrize("policy", [BOARD, REVIEW], ids=["board", "review"])
def test_a_lost_worker_has_its_own_count_and_then_quarantine(policy: RetryPolicy) -> None:
    spent = {"network": 3, "error": 3, "lost": 99}
    for lost in (0, 1, 2):
        found = verdict(policy, FailureClass.LOST, spent, lost, NOW)
        assert found == Again(NOW, immediate=True, counted=True, retries_left=3 - lost)
    assert verdict(policy, FailureClass.LOST, {}, 3, NOW) is None


def test_lost_workers_do_not_use_up_the_retries_of_other_classes() -> None:
    policy = policy_from({"max_attempts": 2})
    assert isinstance(verdict(policy, FailureClass.ERROR, {"lost": 5}, 3, NOW), Again)


@pytest.mark.parametrize(
    ("reset_at", "not_before"),
    [
        (NOW + 3_600 * S, NOW + 3_600 * S),
        (None, NOW + 60 * S),
        (NOW, NOW + S),
        (NOW - 3_600 * S, NOW + S),
        (0, NOW + S),
    ],
)
def test_a_rate_limit_waits_for_its_reset_and_goes_on_with_the_same_attempt(
    reset_at: int | None, not_before: int
) -> None:
    spent = {"rate_limit": 500, "error": 3, "network": 3}
    for policy in (BOARD, REVIEW, policy_from({"max_attempts": 1})):
        found = verdict(policy, FailureClass.RATE_LIMIT, spent, 3, NOW, reset_at)
        assert found == Again(not_before, immediate=False, counted=False, retries_left=None)


@pytest.mark.parametrize(
    ("name", "failures", "policy"),
    [
        ("cancelled", {}, BOARD),
        ("budget", {}, BOARD),
        ("error", {}, REVIEW),
        ("network", {"network": 3}, BOARD),
        ("network", {"error": 1}, policy_from({"max_attempts": 2})),
        ("timeout", {"error": 1}, policy_from({"max_attempts": 2})),
    ],
)
def test_no_attempt_is_left(name: str, failures: Mapping[str, int], policy: RetryPolicy) -> None:
    assert verdict(policy, FailureClass(name), failures, 0, NOW) is None


def test_classes_are_counted_apart() -> None:
    found = verdict(BOARD, FailureClass.NETWORK, {"timeout": 1, "error": 3, "network": 1}, 0, NOW)
    assert found == Again(NOW + 60 * S, immediate=False, counted=True, retries_left=2)


@pytest.mark.parametrize(("failures", "left"), [({}, 3), ({"error": 2}, 1), ({"error": 7}, 0)])
def test_retries_left_is_never_negative(failures: dict[str, int], left: int) -> None:
    assert retries_left(BOARD, FailureClass.ERROR, failures, 0) == left


# ---- policies of an intent --------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["board", "review", "job"])
def test_an_empty_policy_is_the_default(lifecycle: str) -> None:
    assert policy_from({}, DEFAULT_POLICIES[lifecycle]) == DEFAULT_POLICIES[lifecycle]


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_max_attempts_counts_the_first_attempt(lifecycle: str) -> None:
    assert delays_s(policy_from({"max_attempts": 5}, DEFAULT_POLICIES[lifecycle]), "error") == [
        1,
        2,
        4,
        8,
    ]
    assert delays_s(policy_from({"max_attempts": 1}, DEFAULT_POLICIES[lifecycle]), "error") == []


def test_max_attempts_caps_every_class_that_is_the_works_fault_together() -> None:
    policy = policy_from({"max_attempts": 3})
    assert delays_s(policy, "network") == [30, 60]
    assert retries_left(policy, FailureClass.TIMEOUT, {"network": 1, "error": 1}, 0) == 0
    assert retries_left(policy, FailureClass.TIMEOUT, {"network": 1}, 0) == 1
    assert retries_left(policy, FailureClass.LOST, {"network": 2}, 0) == 3


def test_max_attempts_does_not_lengthen_the_table() -> None:
    policy = policy_from({"max_attempts": 10})
    assert delays_s(policy, "network") == [30, 60, 120]
    assert delays_s(policy, "timeout") == [300]


@pytest.mark.parametrize(
    ("given", "delays"),
    [
        ({"retries": 7}, [1, 2, 4, 8, 16, 30, 30]),
        ({"backoff": "linear"}, [1, 2, 3]),
        ({"backoff": "FIXED", "delay_ms": 2_500}, [2.5, 2.5, 2.5]),
        ({"backoff": "linear", "delay_ms": 10_000, "retries": 4}, [10, 20, 30, 30]),
        ({"delay_ms": 60_000}, [60, 60, 60]),
        ({"delay_ms": 60_000, "max_delay_ms": 100_000}, [60, 100, 100]),
        ({"delay_ms": 0}, [0, 0, 0]),
        ({"retries": 0}, []),
    ],
)
def test_an_intent_sets_its_own_policy(given: dict[str, object], delays: list[float]) -> None:
    policy = policy_from(given)
    assert delays_s(policy, "error") == delays
    assert delays_s(policy, "resource") == delays
    assert delays_s(policy, "network") == [30, 60, 120]


def test_an_intent_overrides_single_classes() -> None:
    given = {
        "classes": {
            "network": {"retries": 5},
            "timeout": {"retries": 2, "delay_ms": 1_000},
            "lost": {"retries": 1},
            "dependency": {"delay_ms": 60_000},
            "rate_limit": {"delay_ms": 5_000},
        }
    }
    policy = policy_from(given, REVIEW)
    assert delays_s(policy, "network") == [30, 60, 120, 120, 120]
    assert delays_s(policy, "timeout") == [1, 1]
    assert delays_s(policy, "error") == []
    assert verdict(policy, FailureClass.LOST, {}, 1, NOW) is None
    assert verdict(policy, FailureClass.DEPENDENCY, {}, 0, NOW) == Again(
        NOW + 60 * S, False, True, None
    )
    assert verdict(policy, FailureClass.RATE_LIMIT, {}, 0, NOW) == Again(
        NOW + 5 * S, False, False, None
    )


def test_the_most_that_an_intent_may_ask_for() -> None:
    month_ms = 2_592_000_000
    given = {"max_attempts": 1_001, "delay_ms": month_ms, "max_delay_ms": month_ms}
    policy = policy_from({**given, "classes": {"network": {"retries": 1_000}}})
    assert retries_left(policy, FailureClass.ERROR, {}, 0) == 1_000
    assert retries_left(policy, FailureClass.NETWORK, {}, 0) == 1_000
    found = verdict(policy, FailureClass.ERROR, {}, 0, NOW)
    assert found == Again(NOW + month_ms * 1_000, immediate=False, counted=True, retries_left=1_000)


def test_a_delay_of_zero_is_due_now() -> None:
    found = verdict(policy_from({"delay_ms": 0}), FailureClass.ERROR, {}, 0, NOW)
    assert found == Again(NOW, immediate=True, counted=True, retries_left=3)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "retry"),
        ("3", "retry"),
        ({"attempts": 3}, "retry.attempts"),
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"max_attempts": True}, "retry.max_attempts"),
        ({"max_attempts": 1_002}, "retry.max_attempts"),
        ({"max_attempts": 10**5_000}, "retry.max_attempts"),
        ({"retries": -1}, "retry.retries"),
        ({"retries": "3"}, "retry.retries"),
        ({"retries": 2.0}, "retry.retries"),
        ({"retries": None}, "retry.retries"),
        ({"backoff": "random"}, "retry.backoff"),
        ({"backoff": 2}, "retry.backoff"),
        ({"delay_ms": -1}, "retry.delay_ms"),
        ({"delay_ms": 2_592_000_001}, "retry.delay_ms"),
        ({"max_delay_ms": 999}, "retry.max_delay_ms"),
        ({"delay_ms": 50, "max_delay_ms": 49}, "retry.max_delay_ms"),
        ({"classes": []}, "retry.classes"),
        ({"classes": {"error": {"retries": 1}}}, "retry.classes.error"),
        ({"classes": {"cancelled": {"retries": 1}}}, "retry.classes.cancelled"),
        ({"classes": {"budget": {"retries": 1}}}, "retry.classes.budget"),
        ({"classes": {"network": 3}}, "retry.classes.network"),
        ({"classes": {"network": {"max_attempts": 3}}}, "retry.classes.network.max_attempts"),
        ({"classes": {"network": {"retries": -3}}}, "retry.classes.network.retries"),
        ({"classes": {"lost": {"delay_ms": 3}}}, "retry.classes.lost.delay_ms"),
        ({"classes": {"dependency": {"retries": 3}}}, "retry.classes.dependency.retries"),
    ],
)
def test_a_wrong_policy_names_the_field(given: object, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        policy_from(given)
    assert caught.value.field == field
    assert field in caught.value.message


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Invalid) as caught:
        policy_from({"classes": {"weather": {}}})
    assert caught.value.allowed == (
        *("network", "timeout", "resource_limit", "lost", "dependency", "rate_limit"),
    )


def test_failure_classes_are_read_in_any_letter_case() -> None:
    assert failure_class_from("Rate_Limit") is FailureClass.RATE_LIMIT
    with pytest.raises(Invalid) as caught:
        failure_class_from("weather")
    assert "network" in caught.value.allowed


# ---- backoff ----------------------------------------------------------------------------------

rules = st.builds(
    RetryRule,
    retries=st.none() | st.integers(0, 1_000),
    backoff=st.sampled_from(Backoff),
    first_us=st.integers(0, 10**13),
    cap_us=st.integers(0, 10**13),
)


@given(rules, st.integers(0, 10_000))
def test_backoff_never_falls_and_never_passes_its_cap(rule: RetryRule, n: int) -> None:
    assert 0 <= rule.delay_us(n) <= rule.delay_us(n + 1) <= rule.cap_us


@given(rules, st.integers(0, 50))
def test_backoff_is_the_formula_under_its_cap(rule: RetryRule, n: int) -> None:
    grown = {
        Backoff.EXPONENTIAL: rule.first_us * 2**n,
        Backoff.LINEAR: rule.first_us * (n + 1),
        Backoff.FIXED: rule.first_us,
    }
    assert rule.delay_us(n) == min(grown[rule.backoff], rule.cap_us)


@given(
    st.integers(1, 20),
    st.lists(st.sampled_from(["network", "timeout", "error", "resource"]), max_size=60),
)
def test_no_mix_of_failures_gets_past_max_attempts(cap: int, classes: list[str]) -> None:
    policy, failures, attempts = policy_from({"max_attempts": cap}), dict[str, int](), 1
    for name in classes:
        found = verdict(policy, FailureClass(name), failures, 0, NOW)
        if found is None:
            break
        failures[name] = failures.get(name, 0) + 1
        attempts += 1
    assert attempts <= cap
