"""The decisions of critics: the next state of a plan step, and the default critic.

Pure: two tables and their lookups. The worker calls the critics of an app.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from detent.kernel.retry import FailureClass

MAX_REPLANS = 3


class Decision(StrEnum):
    """The five decisions of a critic about the result of a plan step."""

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
# No retry is left, the answer is no decision, or the critic raised an exception.
OTHER_STATE = "failed_fatal"

# None: the step fails.
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
        FailureClass.RESOURCE_LIMIT: Decision.RETRY,
    }
)


def decision_from(answer: object) -> Decision | None:
    """Return the decision that an answer names, in any letter case; None if it names none."""
    try:
        return Decision(answer.lower()) if isinstance(answer, str) else None
    except ValueError:
        return None


def next_state(answer: object, retries_left: int) -> str:
    """Return the next state of a running step after a critic's answer."""
    decision = decision_from(answer)
    if decision is None or (decision is Decision.RETRY and retries_left <= 0):
        return OTHER_STATE
    return NEXT_STATES[decision]


def requests_plan(answer: object, replans: int, *, has_planner: bool) -> bool:
    """Whether the answer requests a new plan version."""
    return decision_from(answer) is Decision.REPLAN and has_planner and replans < MAX_REPLANS


def default_decision(failure_class: FailureClass | None) -> Decision | None:
    """Return the decision of the default critic: accept success, else by the failure class."""
    return Decision.ACCEPT if failure_class is None else DEFAULT_DECISIONS[failure_class]
