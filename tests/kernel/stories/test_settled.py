"""Subtasks that a parent no longer waits for: completed, handled by its code, or dismissed."""

from collections.abc import Callable

import pytest

from detent.kernel import commands as c
from tests.kernel.stories.test_subtasks import family
from tests.kernel.stories.world import Story

AGENT = c.Actor("agent", "P")
OUTCOMES = {"outcomes": True}


def failed_family(lifecycle: str) -> Story:
    """P has ended and waits for C, which has failed."""
    s = family(lifecycle)
    s.submit(lifecycle, "C", parent_id="P", options={"retry": {"max_attempts": 1}})
    s.succeed("P")
    s.claim("C")
    s.fail(at="C")
    return s


ENDS: list[tuple[str, Callable[[Story], str], str]] = [
    ("review", lambda s: s.fail(at="C"), "failed"),
    ("review", lambda s: s.time_out(at="C"), "timed_out"),
    ("review", lambda s: s.fail("budget", "C"), "budget_exceeded"),
    ("review", lambda s: s.cancel("C") + s.stopped("C"), "cancelled"),
    ("board", lambda s: s.fail("budget", "C"), "blocked"),
    ("board", lambda s: s.cancel("C") + s.stopped("C"), "cancelled"),
]


@pytest.mark.parametrize(("lifecycle", "end", "state"), ENDS, ids=[f"{a}-{b}" for a, _, b in ENDS])
def test_a_person_dismisses_a_subtask_however_it_failed(
    lifecycle: str, end: Callable[[Story], str], state: str
) -> None:
    s = family(lifecycle, "C")
    s.succeed("P")
    s.claim("C")
    end(s)
    assert (s.task("C").state, s.task("P").state) == (state, "blocked")
    closed = "P:task_ready" if lifecycle == "review" else "P:task_started P:task_completed"
    assert s.do(c.DismissSubtask("C", "not needed")) == closed
    assert s.answer == "dismissed"
    dismissed = s.last[0]
    assert (dismissed.stream, dismissed.actor) == ("P", "person")
    assert s.fact("subtask_dismissed").task_id == "C"
    assert s.fact("subtask_dismissed").state == state
    assert s.fact("subtask_dismissed").reason == "not needed"
    assert s.task("C").state == state
    parent = s.task("P")
    assert (parent.open_subtasks, parent.failed_subtask, parent.settled) == (0, None, ("C",))


def test_the_child_has_no_event_of_its_dismissal() -> None:
    s = failed_family("review")
    before = s.world.versions["C"]
    s.do(c.DismissSubtask("C"))
    assert s.world.versions["C"] == before


def test_the_parent_waits_until_the_last_one_is_settled() -> None:
    s = family("review", "C", "D")
    s.succeed("P")
    s.claim("C")
    s.claim("D")
    s.fail(at="C")
    assert s.do(c.DismissSubtask("C")) == ""
    assert (s.task("P").state, s.task("P").open_subtasks) == ("blocked", 1)
    assert s.succeed("D") == "D:run_succeeded D:job_completed D:task_completed P:task_ready"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_dismissing_twice_appends_nothing(lifecycle: str) -> None:
    s = failed_family(lifecycle)
    s.do(c.DismissSubtask("C"))
    assert s.do(c.DismissSubtask("C", "again")) == ""
    assert (s.answer, s.last) == ("repeated", [])


def test_a_live_subtask_is_not_dismissed() -> None:
    s = family("review", "C")
    refusal = s.refused(c.DismissSubtask("C"))
    assert (refusal.code, refusal.details["legal"]) == ("not_dismissible", ["cancel"])
    assert "Only a subtask that failed, timed out, was cancelled or exceeded" in str(refusal)
    s.claim("C")
    s.suspend("question", at="C")
    assert s.refused(c.DismissSubtask("C")).details["state"] == "blocked"


def test_a_board_subtask_that_will_be_retried_is_live() -> None:
    s = family("board", "C")
    s.claim("C")
    s.fail(at="C")
    assert s.task("C").retries_left == 3
    assert s.refused(c.DismissSubtask("C")).code == "not_dismissible"


def test_a_completed_subtask_is_not_dismissed() -> None:
    s = family("review", "C")
    s.claim("C")
    s.succeed("C")
    refusal = s.refused(c.DismissSubtask("C"))
    assert (refusal.code, refusal.details["legal"]) == ("not_dismissible", [])
    assert refusal.hint == "There is nothing to do: its parent does not wait for it."


def test_only_a_subtask_is_dismissed() -> None:
    s = failed_family("review")
    refusal = s.refused(c.DismissSubtask("P"))
    assert (refusal.code, str(refusal)) == (
        "not_dismissible",
        "Task P is not a subtask, so no task waits for it.",
    )


def test_a_run_of_the_tree_dismisses_nothing() -> None:
    s = failed_family("review")
    assert s.refused(c.DismissSubtask("C"), AGENT).code == "own_work"


# ---- nested ----------------------------------------------------------------------------------


def nested(lifecycle: str) -> Story:
    """P, its subtask C, and G below that; the jobs of P and C have completed, G has failed."""
    s = family(lifecycle, "C")
    s.claim("C")
    s.submit(lifecycle, "G", parent_id="C", options={"retry": {"max_attempts": 1}})
    s.succeed("P")
    s.succeed("C")
    s.claim("G")
    s.fail(at="G")
    return s


def test_nested_review_tasks() -> None:
    s = nested("review")
    assert (s.task("C").state, s.task("P").state) == ("completed", "blocked")
    assert s.do(c.DismissSubtask("G")) == "P:task_ready"
    assert s.facts() == ["subtask_dismissed", "subtask_dismissed"]
    assert [each.stream for each in s.last if each.event.name == "subtask_dismissed"] == ["C", "P"]


def test_nested_board_tasks_close_from_below() -> None:
    s = nested("board")
    assert (s.task("C").state, s.task("P").state) == ("blocked", "blocked")
    assert s.refused(c.DismissSubtask("C")).code == "not_dismissible"
    assert s.do(c.DismissSubtask("G")) == (
        "C:task_started C:task_completed P:task_started P:task_completed"
    )
    assert (s.task("C").open_subtasks, s.task("P").open_subtasks) == (0, 0)


def test_a_dismissal_settles_what_failed_below() -> None:
    s = family("review", "C")
    s.claim("C")
    s.submit("review", "G", parent_id="C")
    s.submit("review", "H", parent_id="C")
    s.succeed("P")
    s.claim("G")
    s.fail(at="G")
    s.fail(at="C")
    assert s.do(c.DismissSubtask("C")) == ""
    assert s.task("P").settled == ("C", "G")
    assert s.task("P").open_subtasks == 1, "H is live and still counts"
    assert s.cancel("H") == "H:job_cancelled H:task_cancelled"
    assert s.do(c.DismissSubtask("H")) == "P:task_ready"


# ---- run again after a dismissal ------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_subtask_that_is_retried_after_its_dismissal_stays_settled(lifecycle: str) -> None:
    s = failed_family(lifecycle)
    s.submit(lifecycle, "D", parent_id="P")
    s.do(c.DismissSubtask("C"))
    s.do(c.RetryTask("C"))
    s.claim("C")
    s.fail(at="C")
    assert (s.facts(), s.task("P").failed_subtask) == ([], None), "no task above is notified"
    s.do(c.RetryTask("C"))
    s.claim("C")
    assert s.succeed("C").endswith("C:task_completed")
    assert (s.task("P").state, s.task("P").open_subtasks) == ("blocked", 1)
    assert s.do(c.DismissSubtask("C")) == "", "settled: nothing is to be done"
    s.claim("D")
    assert "P:task_" in s.succeed("D")


# ---- handled by the parent's code -----------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_handler_that_receives_outcomes_settles_the_failed_ones(lifecycle: str) -> None:
    s = family(lifecycle, "D")
    s.submit(lifecycle, "C", parent_id="P", options={"retry": {"max_attempts": 1}})
    s.suspend("subtasks", needs=("task:C", "task:D"), detail=OUTCOMES, at="P")
    s.claim("C")
    s.fail(at="C")
    assert s.task("P").settled == (), "the handler has received nothing yet"
    s.claim("D")
    assert "P:wait_completed(signalled)" in s.succeed("D")
    assert s.fact("subtask_handled").task_id == "C"
    assert (s.task("P").settled, s.task("P").open_subtasks) == (("C",), 0)
    s.claim("P")
    assert s.succeed("P").split()[-1] in ("P:task_ready", "P:task_completed")


def test_what_failed_before_the_handler_waits_is_settled_too() -> None:
    s = family("review", "C")
    s.claim("C")
    s.fail(at="C")
    s.suspend("subtasks", needs=("task:C",), detail=OUTCOMES, at="P")
    assert (s.task("P").settled, s.task("P").open_subtasks) == (("C",), 0)


def test_a_handler_that_wants_results_settles_nothing() -> None:
    s = family("review", "C")
    s.suspend("subtasks", needs=("task:C",), at="P")
    s.claim("C")
    s.fail(at="C")
    s.claim("P")
    assert s.succeed("P").endswith("P:task_blocked(subtasks)")
    assert s.do(c.DismissSubtask("C")) == "P:task_ready"


def test_a_subtask_that_was_retried_before_its_outcome_is_received_still_counts() -> None:
    s = family("review", "C")
    s.claim("C")
    s.fail(at="C")
    s.do(c.RetryTask("C"))
    s.suspend("subtasks", needs=("task:C",), detail=OUTCOMES, at="P")
    s.claim("C")
    assert s.task("P").settled == ()
    s.succeed("C")
    assert (s.task("P").settled, s.task("P").open_subtasks) == ((), 0)


def test_handled_below_is_settled_above() -> None:
    s = family("review", "C")
    s.claim("C")
    s.submit("review", "G", parent_id="C")
    s.suspend("subtasks", needs=("task:G",), detail=OUTCOMES, at="C")
    s.succeed("P")
    s.claim("G")
    s.fail(at="G")
    assert [each.stream for each in s.last if each.event.name == "subtask_handled"] == ["C", "P"]
    s.claim("C")
    assert s.succeed("C").endswith("C:task_completed P:task_ready")


def test_a_handled_subtask_is_not_dismissed_as_well() -> None:
    s = family("review", "C")
    s.claim("C")
    s.fail(at="C")
    s.suspend("subtasks", needs=("task:C",), detail=OUTCOMES, at="P")
    assert s.do(c.DismissSubtask("C")) == ""
    assert (s.answer, s.last) == ("repeated", [])
