"""Maps the state of a task to the other lifecycle, and to MCP and A2A tasks.

Tables only. A blocked task is mapped by its reason: some reasons pass by themselves, some wait
for a person, and a board task with no retry left has failed. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType


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
    """The mapped states of a task; `other` is its state in the other lifecycle."""

    other: str
    mcp: McpStatus
    a2a: A2aState


# MCP knows no state before working; A2A does.
def _waiting(other: str) -> View:
    return View(other, McpStatus.WORKING, A2aState.SUBMITTED)


def _working(other: str) -> View:
    return View(other, McpStatus.WORKING, A2aState.WORKING)


def _asking(other: str) -> View:
    return View(other, McpStatus.INPUT_REQUIRED, A2aState.INPUT_REQUIRED)


def _completed(other: str) -> View:
    return View(other, McpStatus.COMPLETED, A2aState.COMPLETED)


def _failed(other: str) -> View:
    return View(other, McpStatus.FAILED, A2aState.FAILED)


def _cancelled(other: str) -> View:
    return View(other, McpStatus.CANCELLED, A2aState.CANCELED)


VIEWS: Mapping[tuple[str, str], View] = MappingProxyType(
    {
        ("board", "inbox"): _waiting("pending"),
        ("board", "todo"): _waiting("queued"),
        ("board", "doing"): _working("running"),
        ("board", "blocked"): _working("blocked"),
        ("board", "done"): _completed("completed"),
        ("board", "cancelled"): _cancelled("cancelled"),
        ("review", "pending"): _waiting("inbox"),
        ("review", "queued"): _waiting("todo"),
        ("review", "running"): _working("doing"),
        # Not done before a person has accepted it.
        ("review", "ready"): _asking("blocked"),
        ("review", "blocked"): _working("blocked"),
        # The board has no failed state: a failure stays blocked with no retry left.
        ("review", "failed"): _failed("blocked"),
        ("review", "timed_out"): _failed("blocked"),
        ("review", "budget_exceeded"): _failed("blocked"),
        ("review", "completed"): _completed("done"),
        ("review", "cancelled"): _cancelled("cancelled"),
    }
)
# A blocked board task with no retry left: by its reason, or else as failed.
BOARD_FAILURES: Mapping[str, View] = MappingProxyType(
    {BlockReason.BUDGET: _failed("budget_exceeded")}
)
BOARD_FAILED = _failed("failed")


def seen(
    lifecycle: str, state: str, reason: str | None = None, retries_left: int | None = None
) -> View:
    """How a task in this state looks from elsewhere; `reason` is that of a blocked one."""
    view = VIEWS[lifecycle, state]
    if state != "blocked":
        return view
    if lifecycle == "board" and retries_left == 0:
        return BOARD_FAILURES.get(reason or "", BOARD_FAILED)
    if reason in WAITS_FOR_PERSON:
        return replace(view, mcp=McpStatus.INPUT_REQUIRED, a2a=A2aState.INPUT_REQUIRED)
    return view


def mapped() -> list[dict[str, object]]:
    """Both lifecycles state by state as plain values, what is blocked by each reason apart.

    `failed`: no retry is left, which on the board is how a task fails.
    """
    rows = []
    for lifecycle, state in VIEWS:
        reasons = tuple(BlockReason) if state == "blocked" else (None,)
        rows += [_row(lifecycle, state, reason, None) for reason in reasons]
        if (lifecycle, state) == ("board", "blocked"):
            rows += [_row(lifecycle, state, BlockReason.ERROR, 0)]
            rows += [_row(lifecycle, state, BlockReason.BUDGET, 0)]
    return rows


def _row(
    lifecycle: str, state: str, reason: str | None, retries_left: int | None
) -> dict[str, object]:
    view = seen(lifecycle, state, reason, retries_left)
    return {
        "lifecycle": lifecycle,
        "state": state,
        "reason": None if reason is None else str(reason),
        "failed": retries_left == 0,
        "other": view.other,
        "mcp": view.mcp.value,
        "a2a": view.a2a.value,
    }
