"""Tasks below tasks: who waits for whom, what a failure means above, and gathering in code."""

from collections.abc import Callable

import pytest

from detent.kernel import commands as c
from detent.kernel.decide import submit
from tests.kernel.stories.world import WORKER, Story, running


def family(lifecycle: str, *children: str) -> Story:
    """A parent P at work with subtasks that are queued."""
    s = Story()
    s.submit(lifecycle, "P")
    s.claim("P")
    for child in children:
        s.submit(lifecycle, child, parent_id="P")
    return s


def test_a_review_parent_that_ends_first_waits_for_its_subtasks() -> None:
    s = Story()
    assert s.submit("review", "P") == "P:task_created P:task_queued P:job_created"
    assert s.claim("P") == "P:job_running P:run_queued(1) P:run_started P:task_started"
    events = s.submit("review", "C", queue=False, parent_id="P")
    assert events == "C:task_created C:task_queued C:job_created"
    assert s.facts() == ["subtask_added"]
    s.submit("review", "D", parent_id="P")
    assert s.succeed("P") == "P:run_succeeded P:job_completed P:task_blocked(subtasks)"
    assert s.task("P").blocked_detail == {"open": 2}
    assert s.claim("C") == "C:job_running C:run_queued(1) C:run_started C:task_started"
    assert s.claim("D") == "D:job_running D:run_queued(1) D:run_started D:task_started"
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_completed"
    assert s.succeed("D") == "D:run_succeeded D:job_completed D:task_completed P:task_ready"
    assert s.do(c.AcceptTask("P")) == "P:task_accepted"


def test_a_review_subtask_that_ends_before_its_parent() -> None:
    s = family("review", "C")
    s.claim("C")
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_completed"
    assert s.succeed("P") == (
        "P:run_succeeded P:job_completed P:task_blocked(subtasks) P:task_ready"
    )


def test_a_review_subtask_completes_over_its_own_subtask_but_the_root_waits_for_both() -> None:
    s = family("review", "C")
    s.claim("C")
    events = s.submit("review", "G", parent_id="C")
    assert events == "G:task_created G:task_queued G:job_created"
    assert s.facts() == ["subtask_added", "subtask_added"]
    assert s.succeed("P") == "P:run_succeeded P:job_completed P:task_blocked(subtasks)"
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_completed"
    assert s.claim("G") == "G:job_running G:run_queued(1) G:run_started G:task_started"
    assert s.succeed("G") == "G:run_succeeded G:job_completed G:task_completed P:task_ready"


def test_a_review_parent_stays_blocked_while_a_subtask_has_failed() -> None:
    s = family("review", "C", "D")
    s.succeed("P")
    s.claim("C")
    s.claim("D")
    assert s.fail(at="C") == "C:run_failed(error) C:job_failed(error) C:task_failed(error)"
    assert s.task("P").failed_subtask == "C"
    assert s.succeed("D") == "D:run_succeeded D:job_completed D:task_completed"
    assert s.do(c.QueueTask("C")) == "C:task_retried C:job_requeued(retried)"
    assert s.claim("C") == "C:job_running C:run_queued(1) C:run_started C:task_started"
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_completed P:task_ready"
    assert s.task("P").failed_subtask is None


def test_a_review_parent_whose_subtask_had_failed_is_run_again() -> None:
    s = family("review", "C")
    s.claim("C")
    s.fail(at="C")
    assert s.succeed("P") == "P:run_succeeded P:job_completed P:task_blocked(subtasks)"
    assert s.task("P").blocked_detail == {"open": 1, "failed": "C"}
    assert s.do(c.RetryTask("P")) == "P:task_unblocked P.j2:job_created"
    assert s.claim("P") == "P.j2:job_running P.j2:run_queued(1) P.j2:run_started P:task_started"
    assert s.succeed("P") == "P.j2:run_succeeded P.j2:job_completed P:task_blocked(subtasks)"


def test_a_review_parent_of_a_cancelled_subtask_stays_blocked() -> None:
    s = family("review", "C")
    s.succeed("P")
    assert s.cancel("C") == "C:job_cancelled C:task_cancelled"
    assert s.task("P").state == "blocked"
    assert s.cancel("P") == "P:task_cancelled"


def test_a_board_parent_that_ends_first_waits_for_its_subtasks() -> None:
    s = family("board", "C")
    assert s.succeed("P") == "P:run_succeeded P:job_completed P:task_blocked(subtasks)"
    assert s.claim("C") == "C:job_running C:run_queued(1) C:run_started C:task_started"
    assert s.succeed("C") == (
        "C:run_succeeded C:job_completed C:task_completed P:task_started P:task_completed"
    )


def test_a_board_subtask_that_ends_before_its_parent() -> None:
    s = family("board", "C")
    s.claim("C")
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_completed"
    assert s.succeed("P") == "P:run_succeeded P:job_completed P:task_completed"


def test_nested_board_tasks_close_from_below_in_one_transaction() -> None:
    s = family("board", "C")
    s.claim("C")
    s.submit("board", "G", parent_id="C")
    s.claim("G")
    s.succeed("P")
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_blocked(subtasks)"
    assert s.succeed("G") == (
        "G:run_succeeded G:job_completed G:task_completed C:task_started C:task_completed "
        "P:task_started P:task_completed"
    )


def test_a_board_subtask_that_is_out_of_retries_is_retried_by_a_person() -> None:
    s = family("board")
    s.submit("board", "C", parent_id="P", retry={"retries": 0})
    s.succeed("P")
    s.claim("C")
    assert s.fail(at="C") == "C:run_failed(error) C:job_failed(error) C:task_blocked(error,0)"
    assert (s.task("P").state, s.task("P").failed_subtask) == ("blocked", "C")
    assert s.do(c.RetryTask("C")) == "C:task_unblocked C:job_requeued(retried)"
    assert s.claim("C") == "C:job_running C:run_queued(1) C:run_started C:task_started"
    assert s.succeed("C") == (
        "C:run_succeeded C:job_completed C:task_completed P:task_started P:task_completed"
    )


def test_a_function_gathers_its_subtasks() -> None:
    s = family("review", "C")
    assert s.suspend("subtasks", needs=("task:C",), at="P") == (
        "P:run_succeeded(suspended) P:job_parked(subtasks)"
    )
    assert s.task("P").state == "running"
    assert s.claim("C") == "C:job_running C:run_queued(1) C:run_started C:task_started"
    assert s.succeed("C", result=5) == (
        "C:run_succeeded C:job_completed C:task_completed P:wait_completed(signalled)"
    )
    events = s.fact("wait_completed").value
    assert events == {
        "task:C": {"state": "completed", "result": 5, "error": None, "ending": "done"}
    }
    assert s.claim("P") == "P:job_running P:run_queued(1) P:run_started"
    assert s.succeed("P") == (
        "P:run_succeeded P:job_completed P:task_blocked(subtasks) P:task_ready"
    )


def test_gathering_wakes_for_a_subtask_that_has_failed_for_good() -> None:
    s = family("board")
    s.submit("board", "C", parent_id="P", retry={"retries": 0})
    s.suspend("subtasks", needs=("task:C",), at="P")
    s.claim("C")
    assert s.fail(at="C") == (
        "C:run_failed(error) C:job_failed(error) C:task_blocked(error,0) "
        "P:wait_completed(signalled)"
    )
    assert s.claim("P") == "P:job_running P:run_queued(1) P:run_started"
    assert s.fail(at="P") == "P:run_failed(error) P:job_retrying(1s) P:task_blocked(retry)"


def test_gathering_does_not_wake_for_a_subtask_that_will_be_retried() -> None:
    s = family("board", "C")
    s.suspend("subtasks", needs=("task:C",), at="P")
    s.claim("C")
    assert s.fail(at="C") == "C:run_failed(error) C:job_retrying(1s) C:task_blocked(retry)"
    assert s.task("P").failed_subtask is None


def test_a_job_alone_waits_for_a_job_that_it_made() -> None:
    s = Story()
    s.submit_job()
    s.claim()
    assert s.submit_job("K", "J") == "K:job_created"
    assert s.suspend("signal", needs=("job:K",)) == "run_succeeded(suspended) job_parked(signal)"
    s.claim("K")
    assert s.succeed("K", result=1) == "K:run_succeeded K:job_completed wait_completed(signalled)"


def waiting_for_a_job() -> Story:
    s = running("job")
    s.submit_job("K", "J")
    s.claim("K")
    s.suspend("signal", needs=("job:K",))
    return s


def test_a_job_alone_is_notified_of_a_job_that_failed() -> None:
    s = waiting_for_a_job()
    assert s.fail("budget", "K") == (
        "K:run_failed(budget) K:job_failed(budget) wait_completed(signalled)"
    )


def test_a_job_that_is_run_again_is_notified_of_what_ended_while_it_had_failed() -> None:
    s = running("job", retry={"max_attempts": 1})
    s.submit_job("K", "J")
    s.claim("K")
    s.fail()
    assert s.succeed("K") == "K:run_succeeded K:job_completed"
    s.do(c.RetryJob("J"))
    s.claim()
    assert s.suspend("subtasks", needs=("job:K",)).endswith("wait_completed(signalled)")


def test_a_task_that_is_run_again_is_notified_of_a_subtask_that_ended_while_it_had_failed() -> None:
    s = Story()
    s.submit("review", "P", options={"retry": {"max_attempts": 1}})
    s.claim("P")
    s.submit("review", "C", parent_id="P")
    s.claim("C")
    s.fail(at="P")
    s.succeed("C")
    s.do(c.RetryTask("P"))
    s.claim("P")
    assert "wait_completed(signalled)" in s.suspend("subtasks", needs=("task:C",), at="P")


def test_a_job_alone_is_notified_of_a_job_that_was_cancelled() -> None:
    s = waiting_for_a_job()
    s.cancel("K")
    assert s.stopped("K") == "K:run_cancelled K:job_cancelled wait_completed(signalled)"


@pytest.mark.parametrize(
    ("end", "events"),
    [
        (lambda s: s.fail(at="C"), "C:run_failed(error) C:job_failed(error) C:task_failed(error)"),
        (
            lambda s: s.time_out(at="C"),
            "C:run_timed_out(run) C:job_failed(timeout) C:task_timed_out",
        ),
        (
            lambda s: s.fail("budget", "C"),
            "C:run_failed(budget) C:job_failed(budget) C:task_budget_exceeded",
        ),
    ],
    ids=["failed", "timed out", "over its budget"],
)
def test_a_parent_is_notified_of_every_way_to_fail(
    end: Callable[[Story], str], events: str
) -> None:
    s = family("review", "C")
    s.suspend("subtasks", needs=("task:C",), at="P")
    s.claim("C")
    assert end(s) == f"{events} P:wait_completed(signalled)"
    assert s.task("P").failed_subtask == "C"


def test_a_parent_is_notified_of_a_cancelled_subtask() -> None:
    s = family("review", "C")
    s.suspend("subtasks", needs=("task:C",), at="P")
    assert s.cancel("C") == "C:job_cancelled C:task_cancelled P:wait_completed(signalled)"
    assert s.task("P").failed_subtask == "C"


def test_what_has_ended_or_is_under_review_takes_no_more_subtasks() -> None:
    s = family("review")
    s.succeed("P")
    command = c.SubmitTask("C", "demo", "review", "build", "cli", parent_id="P")
    assert s.refused(command).code == "parent_ended"
    s.do(c.AcceptTask("P"))
    assert s.refused(command).code == "parent_ended"


def test_a_tree_is_bounded_in_depth_and_number() -> None:
    s = Story()
    s.submit("board", "n0")
    for depth in range(1, submit.MAX_DEPTH + 1):
        s.submit("board", f"n{depth}", parent_id=f"n{depth - 1}")
    deeper = c.SubmitTask(
        "deeper", "demo", "board", "build", "cli", parent_id=f"n{submit.MAX_DEPTH}"
    )
    assert s.refused(deeper, WORKER).code == "too_deep"


def test_the_number_of_subtasks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "MAX_SUBTASKS", 1)
    s = family("board", "C")
    one_more = c.SubmitTask("D", "demo", "board", "build", "cli", parent_id="P")
    assert s.refused(one_more).code == "too_many_subtasks"


def test_an_ended_job_takes_no_more_jobs() -> None:
    s = running("job")
    s.succeed()
    assert s.refused(c.SubmitJob("K", "demo", "build", parent_job_id="J")).code == "parent_ended"
