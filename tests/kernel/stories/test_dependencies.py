"""Tasks that depend on tasks: waiting, release, failure, and taking up again."""

from typing import Any

import pytest

from detent.kernel import commands as c
from detent.kernel import events as e
from tests.kernel.stories.world import WORKER, Story, running


def at_work(lifecycle: str, **more: Any) -> Story:
    """D is at work; others will depend on it."""
    s = Story()
    s.submit(lifecycle, "D", **more)
    s.claim("D")
    return s


def test_a_review_task_waits_in_the_queue_until_its_dependency_is_accepted() -> None:
    s = at_work("review")
    events = s.submit("review", "W", depends_on=("D",))
    assert events == "W:task_created W:task_queued W:job_created"
    assert s.refused(c.ClaimJob("W-j1", "w", "n"), WORKER).code == "not_claimable"
    assert s.succeed("D") == "D:run_succeeded D:job_completed D:task_ready"
    assert s.refused(c.ClaimJob("W-j1", "w", "n"), WORKER).code == "not_claimable"
    assert s.do(c.RejectTask("D", "again")) == "D:task_rejected(1)"
    assert s.do(c.QueueTask("D")) == "D:task_queued D.j2:job_created"
    s.claim("D")
    assert s.succeed("D") == "D.j2:run_succeeded D.j2:job_completed D:task_ready"
    assert s.do(c.AcceptTask("D")) == "D:task_accepted"
    assert s.facts() == ["dependency_done"]
    assert s.claim("W") == "W:job_running W:run_queued(1) W:run_started W:task_started"


def test_a_board_task_is_blocked_immediately_and_released_with_its_dependency() -> None:
    s = at_work("board")
    assert s.submit("board", "W", depends_on=("D",)) == (
        "W:task_created W:task_queued W:job_created W:task_blocked(dependency)"
    )
    assert s.look("W") == ""
    assert s.refused(c.RetryTask("W")).code == "dependency_open"
    assert s.refused(c.UnblockTask("W")).code == "dependency_open"
    assert s.succeed("D") == "D:run_succeeded D:job_completed D:task_completed W:task_unblocked"
    assert s.claim("W") == "W:job_running W:run_queued(1) W:run_started W:task_started"


def test_the_last_of_two_dependencies_releases() -> None:
    s = at_work("board")
    s.submit("board", "E")
    s.claim("E")
    s.submit("board", "W", depends_on=("D", "E"))
    assert s.succeed("E") == "E:run_succeeded E:job_completed E:task_completed"
    assert s.succeed("D") == "D:run_succeeded D:job_completed D:task_completed W:task_unblocked"


def test_a_dependency_that_is_done_already_holds_nothing_up() -> None:
    s = at_work("board")
    s.succeed("D")
    events = s.submit("board", "W", depends_on=("D",))
    assert events == "W:task_created W:task_queued W:job_created"
    assert s.claim("W").startswith("W:job_running")


def test_a_failed_dependency_fails_what_depends_on_it_all_the_way() -> None:
    s = at_work("review")
    s.submit("review", "W", depends_on=("D",))
    s.submit("review", "X", depends_on=("W",))
    assert s.fail(at="D") == (
        "D:run_failed(error) D:job_failed(error) D:task_failed(error) "
        "W:job_cancelled(dependency) W:task_failed(dependency) "
        "X:job_cancelled(dependency) X:task_failed(dependency)"
    )
    refusal = s.refused(c.QueueTask("W"))
    assert (refusal.code, refusal.details["failed"]) == ("dependency_failed", ["D"])
    assert s.refused(c.RetryTask("W")).code == "dependency_failed"
    assert s.do(c.QueueTask("D")) == "D:task_retried D:job_requeued(retried)"
    assert s.do(c.QueueTask("W")) == "W:task_retried W.j2:job_created"
    assert s.refused(c.ClaimJob("W-j2", "w", "n"), WORKER).code == "not_claimable"
    s.claim("D")
    s.succeed("D")
    assert s.do(c.AcceptTask("D")) == "D:task_accepted"
    assert s.claim("W") == "W.j2:job_running W.j2:run_queued(1) W.j2:run_started W:task_started"


@pytest.mark.parametrize(
    ("command", "events"),
    [
        (c.CancelTask("T"), "job_cancelled task_cancelled"),
        (
            c.ExpireJob("T-j1", "queue"),
            "job_cancelled(queue_timeout) task_cancelled(queue_timeout)",
        ),
    ],
)
def test_a_cancelled_dependency_fails_what_depends_on_it(command: c.Command, events: str) -> None:
    s = Story()
    s.submit("review", queue_timeout_ms=1)
    s.submit("review", "W", depends_on=("T",))
    s.later(1)
    failed = "W:job_cancelled(dependency) W:task_failed(dependency)"
    assert s.do(command) == f"{events} {failed}"


@pytest.mark.parametrize(
    ("error_class", "events"),
    [
        ("timeout", "run_failed(timeout) job_failed(timeout) task_timed_out"),
        ("budget", "run_failed(budget) job_failed(budget) task_budget_exceeded"),
    ],
)
def test_every_failure_of_a_dependency_fails_what_depends_on_it(
    error_class: str, events: str
) -> None:
    s = running("review")
    s.submit("review", "W", depends_on=("T",))
    failed = "W:job_cancelled(dependency) W:task_failed(dependency)"
    assert s.fail(error_class) == f"{events} {failed}"


def test_on_the_board_what_depends_on_a_failure_stays_blocked_until_that_is_done() -> None:
    s = at_work("board", retry={"retries": 0})
    s.submit("board", "W", depends_on=("D",))
    s.submit("board", "X", depends_on=("W",))
    assert s.fail(at="D") == (
        "D:run_failed(error) D:job_failed(error) D:task_blocked(error,0) "
        "W:job_cancelled(dependency)"
    )
    assert (s.task("W").state, s.task("W").failed_dependency) == ("blocked", "D")
    assert s.task("X").failed_dependency is None  # it waits, as W does
    assert s.look("W") == ""
    assert s.refused(c.RetryTask("W")).code == "dependency_failed"
    assert s.do(c.RetryTask("D")) == "D:task_unblocked D:job_requeued(retried)"
    s.claim("D")
    assert s.succeed("D") == (
        "D:run_succeeded D:job_completed D:task_completed W:task_unblocked W.j2:job_created"
    )
    assert s.claim("W").startswith("W.j2:job_running")


def test_on_the_board_a_cancelled_dependency_leaves_the_other_blocked() -> None:
    s = Story()
    s.submit("board", "D")
    s.submit("board", "W", depends_on=("D",))
    assert s.cancel("D") == "D:job_cancelled D:task_cancelled W:job_cancelled(dependency)"
    assert s.cancel("W") == "W:task_cancelled"


def test_a_pending_retry_is_no_failure_to_dependents() -> None:
    s = at_work("board", retry={"retries": 1})
    s.submit("board", "W", depends_on=("D",))
    assert s.fail(at="D") == "D:run_failed(error) D:job_retrying(1s) D:task_blocked(retry)"
    assert s.task("W").failed_dependency is None


def test_a_review_task_that_is_queued_after_its_dependency_has_failed() -> None:
    s = at_work("review")
    s.fail(at="D")
    assert s.submit("review", "W", depends_on=("D",)) == (
        "W:task_created W:task_queued W:job_created "
        "W:job_cancelled(dependency) W:task_failed(dependency)"
    )


def test_a_board_task_that_is_queued_after_its_dependency_has_failed() -> None:
    s = at_work("board", retry={"retries": 0})
    s.fail(at="D")
    assert s.submit("board", "W", depends_on=("D",)) == (
        "W:task_created W:task_queued W:job_created "
        "W:job_cancelled(dependency) W:task_blocked(dependency)"
    )
    assert s.task("W").retries_left is None


def test_a_failure_that_was_taken_up_again_does_not_count() -> None:
    """W was created while D had failed, and is run while D is on its way again."""
    s = at_work("review")
    s.fail(at="D")
    s.submit("review", "W", queue=False, depends_on=("D",))
    assert s.facts() == ["dependency_failed"]
    s.do(c.QueueTask("D"))
    assert s.do(c.QueueTask("W")) == "W:task_queued W:job_created"


@pytest.mark.parametrize("name", ["W", "missing"])
def test_a_dependency_must_be_another_task_that_exists(name: str) -> None:
    command = c.SubmitTask("W", "demo", "board", "build", "cli", depends_on=(name,))
    assert Story().refused(command).code == "invalid"


def test_a_second_dependency_that_fails_finds_the_job_cancelled_already() -> None:
    s = at_work("board", retry={"retries": 0})
    s.submit("board", "E")
    s.submit("board", "W", depends_on=("D", "E"))
    assert s.fail(at="D").endswith("W:job_cancelled(dependency)")
    assert s.cancel("E") == "E:job_cancelled E:task_cancelled"
    assert s.refused(c.RetryTask("W")).details["failed"] == ["D", "E"]


def test_the_keeper_releases_what_a_lost_wake_up_left_blocked() -> None:
    """Another writer's log: the dependency was done, and the task was not unblocked."""
    s = at_work("board")
    s.submit("board", "W", depends_on=("D",))
    s.happened("W", (e.DependencyDone("D"), None))
    assert s.look("W") == "W:task_unblocked"
    assert s.answer is True
