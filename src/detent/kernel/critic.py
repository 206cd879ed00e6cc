"""What a critic's decision does to its step, and what the default critic decides.

Pure: two tables and their lookups. Calling a critic that somebody wrote is the worker's business.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from detent.kernel.retry import FailureClass

MAX_REPLANS = 3


class Decision(StrEnum):
    """The five things that a critic may say about a step's result."""

    ACCEPT = "accept"
    RETRY = "retry"
    SWITCH_RESOURCE = "switch_resource"
    REPLAN = "replan"
    NEEDS_USER = "needs_user"


NEXT_STATES: Mapping[Decision, str] = MappingProxyType(
    {
        Decision.ACCEPT: "succeeded",
        Decision.RETRY: "failed_retryable",
        Decision.SWITCH_RESOURCE: "failed_resource",
        Decision.REPLAN: "failed_fatal",
        Decision.NEEDS_USER: "needs_user",
    }
)
# No retry left, an answer that is none of the five, or a critic that raised.
OTHERWISE = "failed_fatal"

# None as a decision: nothing that a step can do helps, it fails.
DEFAULT_DECISIONS: Mapping[FailureClass, Decision | None] = MappingProxyType(
    {
        FailureClass.NETWORK: Decision.RETRY,
        FailureClass.TIMEOUT: Decision.RETRY,
        FailureClass.DEPENDENCY: Decision.RETRY,
        FailureClass.CANCELLED: None,
        FailureClass.BUDGET: None,
        FailureClass.LOST: Decision.RETRY,
        FailureClass.RATE_LIMIT: Decision.RETRY,
        FailureClass.ERROR: Decision.RETRY,
        FailureClass.RESOURCE: Decision.SWITCH_RESOURCE,
        FailureClass.NEEDS_USER: Decision.NEEDS_USER,
    }
)


def decision_from(answer: object) -> Decision | None:
    """The decision that a critic's answer names, in any letter case; None if it names none."""
    try:
        return Decision(answer.lower()) if isinstance(answer, str) else None
    except ValueError:
        return None


def next_state(answer: object, retries_left: int) -> str:
    """The state that a running step enters on a critic's answer."""
    decision = decision_from(answer)
    if decision is None or (decision is Decision.RETRY and retries_left <= 0):
        return OTHERWISE
    return NEXT_STATES[decision]


def asks_for_plan(answer: object, replans: int, *, has_planner: bool) -> bool:
    """Whether the answer also asks the planner for a new plan version."""
    return decision_from(answer) is Decision.REPLAN and has_planner and replans < MAX_REPLANS


def default_decision(failure_class: FailureClass | None) -> Decision | None:
    """The default critic: accepts success (no failure class), else goes by the class."""
    return Decision.ACCEPT if failure_class is None else DEFAULT_DECISIONS[failure_class]
