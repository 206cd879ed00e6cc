"""Both task lifecycles seen from elsewhere: every state typed by hand, every reason of a block."""

import pytest

from detent.kernel.state_mapping import BlockReason, View, mapped
from detent.kernel.state_mapping import seen as seen_in
from detent.task_lifecycles import SHIPPED

EXPECTED = {
    ("board", "inbox"): ("pending", "working", "SUBMITTED"),
    ("board", "todo"): ("queued", "working", "SUBMITTED"),
    ("board", "doing"): ("running", "working", "WORKING"),
    ("board", "blocked"): ("blocked", "working", "WORKING"),
    ("board", "done"): ("completed", "completed", "COMPLETED"),
    ("board", "cancelled"): ("cancelled", "cancelled", "CANCELED"),
    ("review", "pending"): ("inbox", "working", "SUBMITTED"),
    ("review", "queued"): ("todo", "working", "SUBMITTED"),
    ("review", "running"): ("doing", "working", "WORKING"),
    ("review", "ready"): ("blocked", "input_required", "INPUT_REQUIRED"),
    ("review", "blocked"): ("blocked", "working", "WORKING"),
    ("review", "failed"): ("blocked", "failed", "FAILED"),
    ("review", "timed_out"): ("blocked", "failed", "FAILED"),
    ("review", "budget_exceeded"): ("blocked", "failed", "FAILED"),
    ("review", "completed"): ("done", "completed", "COMPLETED"),
    ("review", "cancelled"): ("cancelled", "cancelled", "CANCELED"),
}
OTHER = {"board": "review", "review": "board"}


def seen(
    lifecycle: str, state: str, reason: str | None = None, retries_left: int | None = None
) -> View:
    return seen_in(SHIPPED[lifecycle], state, reason, retries_left)


STATES = [(name, state) for name in OTHER for state in SHIPPED[name].state_names]


@pytest.mark.parametrize(("lifecycle", "state"), STATES)
def test_every_state_has_its_view(lifecycle: str, state: str) -> None:
    view = seen(lifecycle, state)
    other, mcp, a2a = EXPECTED[lifecycle, state]
    assert (view.other, view.mcp, view.a2a) == (other, mcp, f"TASK_STATE_{a2a}")
    assert other in SHIPPED[OTHER[lifecycle]].state_names


def test_no_view_is_of_a_state_that_does_not_exist() -> None:
    rows = mapped(SHIPPED.values())
    assert {(row["lifecycle"], row["state"]) for row in rows} == set(STATES)


@pytest.mark.parametrize("lifecycle", OTHER)
def test_states_of_one_board_come_back_from_the_other(lifecycle: str) -> None:
    other = OTHER[lifecycle]
    once_there = {seen(other, state).other for name, state in STATES if name == other}
    for state in once_there:
        assert state is not None
        there = seen(lifecycle, state).other
        assert there is not None
        assert seen(other, there).other == state


@pytest.mark.parametrize("lifecycle", OTHER)
@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("question", "input_required"),
        ("needs_user", "input_required"),
        ("budget", "input_required"),
        ("error", "input_required"),
        ("subtasks", "working"),
        ("dependency", "working"),
        ("retry", "working"),
        ("rate_limit", "working"),
        ("resource", "working"),
    ],
)
def test_a_blocked_task_is_mapped_by_its_reason(lifecycle: str, reason: str, status: str) -> None:
    view = seen(lifecycle, "blocked", reason, retries_left=2)
    assert view.other == "blocked"
    assert (view.mcp, view.a2a) == (status, f"TASK_STATE_{status.upper()}")


@pytest.mark.parametrize("reason", BlockReason)
def test_a_board_task_with_no_retry_left_has_failed(reason: BlockReason) -> None:
    view = seen("board", "blocked", reason, retries_left=0)
    assert view.other == ("budget_exceeded" if reason == "budget" else "failed")
    assert (view.mcp, view.a2a) == ("failed", "TASK_STATE_FAILED")


def test_a_reason_left_over_from_a_block_does_not_matter_elsewhere() -> None:
    assert seen("board", "doing", "question", retries_left=0) == seen("board", "doing")


def test_the_reasons_of_a_block() -> None:
    assert set(BlockReason) == {
        "question",
        "subtasks",
        "dependency",
        "retry",
        "budget",
        "rate_limit",
        "resource",
        "needs_user",
        "error",
    }
