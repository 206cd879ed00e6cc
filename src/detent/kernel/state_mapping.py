"""Maps the state of a task to MCP and A2A tasks, and to the counterpart of its lifecycle.

The phase and the ending of the state decide. A blocked task is mapped by its reason: some reasons
pass by themselves, some wait for a person, and a blocked task with no retry left has failed. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from detent.kernel.retention import Ending
from detent.kernel.task_lifecycle import Phase, TaskLifecycle, Trigger


class BlockReason(StrEnum):
    """Why a task is blocked."""

    QUESTION = "question"
    SUBTASKS = "subtasks"
    DEPENDENCY = "dependency"
    RETRY = "retry"
    BUDGET = "budget"
    RATE_LIMIT = "rate_limit"
    RESOURCE = "resource"
    NEEDS_USER = "needs_user"
    ERROR = "error"


# Only a person ends these; all others end by themselves.
WAITS_FOR_PERSON = frozenset(
    {BlockReason.QUESTION, BlockReason.BUDGET, BlockReason.NEEDS_USER, BlockReason.ERROR}
)


class McpStatus(StrEnum):
    """The status of a task in the Model Context Protocol, as on the wire."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class A2aState(StrEnum):
    """The state of a task in the Agent2Agent protocol 1.0, as on the wire."""

    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"


@dataclass(frozen=True, slots=True)
class View:
    """The mapped states of a task; `other` is its state in the counterpart, if there is one."""

    other: str | None
    mcp: McpStatus
    a2a: A2aState


# MCP has no state before working; A2A has.
WAITING = (McpStatus.WORKING, A2aState.SUBMITTED)
WORKING = (McpStatus.WORKING, A2aState.WORKING)
ASKING = (McpStatus.INPUT_REQUIRED, A2aState.INPUT_REQUIRED)
ENDED: Mapping[Ending, tuple[McpStatus, A2aState]] = MappingProxyType(
    {
        Ending.DONE: (McpStatus.COMPLETED, A2aState.COMPLETED),
        Ending.FAILED: (McpStatus.FAILED, A2aState.FAILED),
        Ending.CANCELLED: (McpStatus.CANCELLED, A2aState.CANCELED),
    }
)


def seen(
    lifecycle: TaskLifecycle,
    state: str,
    reason: str | None = None,
    retries_left: int | None = None,
) -> View:
    """How a task in this state looks from elsewhere; `reason` is that of a blocked one."""
    return View(
        _other(lifecycle, state, reason, retries_left),
        *_protocols(lifecycle, state, reason, retries_left),
    )


def _protocols(
    lifecycle: TaskLifecycle, state: str, reason: str | None, retries_left: int | None
) -> tuple[McpStatus, A2aState]:
    ending = lifecycle.ending(state, retries_left)
    if ending is not None:
        return ENDED[ending]
    found = lifecycle.by_state[state]
    if found.under_review:
        return ASKING
    if found.phase is Phase.BLOCKED:
        return ASKING if reason in WAITS_FOR_PERSON else WORKING
    return WORKING if found.phase is Phase.WORKING else WAITING


def _other(
    lifecycle: TaskLifecycle, state: str, reason: str | None, retries_left: int | None
) -> str | None:
    counterpart = lifecycle.counterpart
    if counterpart is None:
        return None
    blocked = lifecycle.phase(state) is Phase.BLOCKED
    if blocked and retries_left == 0 and counterpart.failed:
        return counterpart.failed.get(reason or "", counterpart.failed.get(BlockReason.ERROR))
    return counterpart.states.get(state)


def mapped(lifecycles: Iterable[TaskLifecycle]) -> list[dict[str, object]]:
    """All states of these lifecycles as plain values, a blocked task by each reason.

    `failed`: no retry is left.
    """
    rows = []
    for lifecycle in lifecycles:
        for state in lifecycle.states:
            blocked = state.phase is Phase.BLOCKED
            reasons = tuple(BlockReason) if blocked else (None,)
            rows += [_row(lifecycle, state.name, reason, None) for reason in reasons]
            if blocked and _fails_while_blocked(lifecycle):
                rows += [_row(lifecycle, state.name, BlockReason.ERROR, 0)]
                rows += [_row(lifecycle, state.name, BlockReason.BUDGET, 0)]
    return rows


def _fails_while_blocked(lifecycle: TaskLifecycle) -> bool:
    """Whether a failed job blocks the task, because the lifecycle has no failed state."""
    failed = lifecycle.by_trigger[Trigger.JOB_FAILED]
    return any("task_blocked" in rule.then for rule in failed)


def _row(
    lifecycle: TaskLifecycle, state: str, reason: str | None, retries_left: int | None
) -> dict[str, object]:
    view = seen(lifecycle, state, reason, retries_left)
    return {
        "lifecycle": lifecycle.id,
        "state": state,
        "reason": None if reason is None else str(reason),
        "failed": retries_left == 0,
        "other": view.other,
        "mcp": view.mcp.value,
        "a2a": view.a2a.value,
    }
