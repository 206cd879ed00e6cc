"""The critic's table: every decision, the edge of the retries, everything that is no decision."""

import pytest

from detent.kernel.critic import (
    Decision,
    decision_from,
    default_decision,
    next_state,
    requests_plan,
)
from detent.kernel.lifecycles.step import STEP
from detent.kernel.retry import FailureClass


@pytest.mark.parametrize(
    ("answer", "retries", "state"),
    [
        ("accept", 0, "succeeded"),
        ("accept", 9, "succeeded"),
        ("retry", 0, "failed_retryable"),
        ("retry", 2, "failed_retryable"),
        ("retry", 3, "failed_fatal"),
        ("retry", 4, "failed_fatal"),
        ("switch_resource", 9, "failed_resource"),
        ("replan", 0, "failed_fatal"),
        ("needs_user", 9, "needs_user"),
        ("Accept", 0, "succeeded"),
        ("SWITCH_RESOURCE", 0, "failed_resource"),
        ("maybe", 0, "failed_fatal"),
        ("", 0, "failed_fatal"),
        (None, 0, "failed_fatal"),
        (True, 0, "failed_fatal"),
        (0, 0, "failed_fatal"),
        (["accept"], 0, "failed_fatal"),
        (RuntimeError("the critic broke"), 0, "failed_fatal"),
    ],
)
def test_what_a_running_step_becomes(answer: object, retries: int, state: str) -> None:
    assert next_state(answer, 3 - retries) == state


def test_without_retries_a_retry_fails() -> None:
    assert next_state(Decision.RETRY, 0) == "failed_fatal"


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("retries", [0, 3])
def test_every_decision_is_a_legal_move_of_a_running_step(decision: Decision, retries: int) -> None:
    state = next_state(decision, 3 - retries)
    assert STEP.next("running", f"step_{state}") == state


def test_there_are_five_decisions() -> None:
    expected = ["accept", "retry", "switch_resource", "replan", "needs_user"]
    assert [decision_from(name) for name in expected] == list(Decision)


@pytest.mark.parametrize(
    ("answer", "replans", "has_planner", "asks"),
    [
        ("replan", 0, True, True),
        ("replan", 2, True, True),
        ("replan", 3, True, False),
        ("replan", 0, False, False),
        ("retry", 0, True, False),
        (None, 0, True, False),
    ],
)
def test_replanning_asks_for_a_plan_at_most_three_times(
    answer: object, replans: int, has_planner: bool, asks: bool
) -> None:
    assert requests_plan(answer, replans, has_planner=has_planner) is asks


DEFAULTS = {
    None: "accept",
    "network": "retry",
    "timeout": "retry",
    "dependency": "retry",
    "lost": "retry",
    "rate_limit": "retry",
    "error": "retry",
    "resource": "switch_resource",
    "needs_user": "needs_user",
    "resource_limit": "retry",
    "cancelled": None,
    "budget": None,
}


@pytest.mark.parametrize("outcome", [None, *FailureClass])
def test_the_default_critic(outcome: FailureClass | None) -> None:
    assert default_decision(outcome) == DEFAULTS[outcome]
