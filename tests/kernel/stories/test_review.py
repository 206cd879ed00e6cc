"""Judging and changing: accept, reject, rounds, own work, editing, deleting."""

import pytest

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import ASSIGNED_TO
from detent.kernel.priority import Priority, rank
from tests.kernel.stories.world import DAY, SECOND, WORKER, Story, running

AGENT = c.Actor("agent", root_id="T")


def ready(**more: object) -> Story:
    s = running("review", **more)
    s.succeed()
    return s


# ---- rounds ----------------------------------------------------------------------------------


def test_rejected_once_and_then_accepted() -> None:
    s = ready()
    assert s.do(c.RejectTask("T", "use less salt")) == "task_rejected(1)"
    assert (s.task().rounds, s.task().comment) == (1, "use less salt")
    assert s.do(c.QueueTask("T")) == "task_queued j2:job_created"
    assert s.claim() == "j2:job_running j2:run_queued(1) j2:run_started task_started"
    assert s.succeed() == "j2:run_succeeded j2:job_completed task_ready"
    assert s.do(c.AcceptTask("T")) == "task_accepted"
    refusal = s.refused(c.RejectTask("T"))
    assert (refusal.code, refusal.details["legal"]) == ("illegal_transition", [])


def test_rejected_and_run_in_one_breath_in_the_same_session() -> None:
    s = running("review")
    s.do(c.OpenSession(s.grant(), "session-1"), WORKER)
    s.succeed()
    events = s.do(c.RejectTask("T", "again", run=True))
    assert events == "task_rejected(1) task_queued j2:job_created"
    assert s.task().session_id == "session-1"


def test_rejected_and_then_failed() -> None:
    s = ready()
    s.do(c.RejectTask("T", run=True))
    s.claim()
    assert s.fail() == "j2:run_failed(error) j2:job_failed(error) task_failed(error)"
    assert s.do(c.QueueTask("T")) == "task_retried j2:job_requeued(retried)"


def test_a_rejected_parent_whose_subtasks_are_all_completed() -> None:
    s = Story()
    s.submit("review", "P")
    s.claim("P")
    s.submit("review", "C", parent_id="P")
    s.claim("C")
    s.succeed("C")
    s.succeed("P")
    assert s.do(c.RejectTask("P", run=True)) == (
        "P:task_rejected(1) P:task_queued P.j2:job_created"
    )
    s.claim("P")
    assert s.succeed("P") == (
        "P.j2:run_succeeded P.j2:job_completed P:task_blocked(subtasks) P:task_ready"
    )


def test_rounds_are_capped() -> None:
    s = ready(max_rounds=1)
    s.do(c.RejectTask("T", run=True))
    s.claim()
    s.succeed()
    assert s.refused(c.RejectTask("T")).code == "rounds_used"
    assert s.refused(c.RejectTask("T", run=True)).code == "rounds_used"
    s.do(c.EditTask("T", {"options": {"max_rounds": 2}}))
    assert s.do(c.RejectTask("T")) == "task_rejected(2)"


def test_a_verdict_is_bound_to_what_was_reviewed() -> None:
    s = ready()
    seen = s.world.versions["T"]
    s.do(c.EditTask("T", {"title": "new"}))
    assert s.refused(c.AcceptTask("T", seen=seen)).code == "version_conflict"
    assert s.refused(c.RejectTask("T", seen=seen)).code == "version_conflict"
    assert s.do(c.AcceptTask("T", seen=seen + 1)) == "task_accepted"


def test_edits_and_cancels_can_name_the_version_that_was_seen() -> None:
    s = ready()
    seen = s.world.versions["T"]
    s.do(c.EditTask("T", {"title": "new"}, seen=seen))
    assert s.refused(c.EditTask("T", {}, 5_000_000, seen)).code == "version_conflict"
    assert s.refused(c.CancelTask("T", seen=seen)).code == "version_conflict"
    assert s.do(c.CancelTask("T", seen=seen + 1)) == "task_cancelled"


def test_exactly_one_verdict_wins() -> None:
    s = ready()
    s.do(c.AcceptTask("T"))
    for late in (c.AcceptTask("T"), c.RejectTask("T"), c.CancelTask("T")):
        assert s.refused(late).code == "illegal_transition"


def test_a_refusal_says_what_cannot_be_done_and_why() -> None:
    s = Story()
    s.do(c.SubmitTask("T", "demo", "review", "build", "api"))
    assert s.refused(c.AcceptTask("T")).message == "Task T cannot be accepted: it is pending."
    assert s.refused(c.ResumeTask("T")).message == "Task T cannot be resumed: it is pending."
    s.do(c.QueueTask("T"))
    assert s.refused(c.QueueTask("T")).message == "Task T cannot be run: it is queued."
    assert s.refused(c.UnblockTask("T")).message == "Task T cannot be unblocked: it is queued."
    s.claim()
    s.fail("network")
    assert s.refused(c.RejectTask("T")).message == (
        "Task T cannot be rejected: it is blocked (retry)."
    )
    s.do(c.CancelTask("T"))
    assert s.refused(c.CancelTask("T")).message == "Task T cannot be cancelled: it is cancelled."
    assert s.refused(c.CancelJob("T-j1")).message == "Task T cannot be cancelled: it is cancelled."
    assert s.refused(c.RetryTask("T")).message == "Task T cannot be retried: it is cancelled."


def test_a_verdict_after_another_one_is_not_a_version_conflict() -> None:
    s = ready()
    seen = s.world.versions["T"]
    s.do(c.AcceptTask("T", seen=seen))
    refusal = s.refused(c.AcceptTask("T", seen=seen))
    assert refusal.message == "Task T cannot be accepted: it is completed."


def test_a_board_task_that_is_not_blocked_cannot_be_retried() -> None:
    s = running("board")
    assert s.refused(c.RetryTask("T")).message == "Task T cannot be retried: it is doing."


# ---- own work --------------------------------------------------------------------------------

OWN_WORK: list[c.Command] = [
    c.AcceptTask("T"),
    c.RejectTask("T"),
    c.QueueTask("T"),
    c.RetryTask("T"),
    c.ResumeTask("T"),
    c.UnblockTask("T"),
    c.AnswerTask("T", "yes"),
    c.EditTask("T", {"title": "mine"}),
    c.AssignTask("T", "agent"),
    c.RaiseBudget("T", 10**9),
    c.DeleteTask("T"),
]


@pytest.mark.parametrize("command", OWN_WORK, ids=lambda command: type(command).__name__)
def test_an_agent_neither_judges_nor_widens_its_own_work(command: c.Command) -> None:
    assert ready().refused(command, AGENT).code == "own_work"


@pytest.mark.parametrize("task", ["T", "C"])
def test_an_agent_does_not_answer_for_its_parent_or_its_subtasks(task: str) -> None:
    s = running("review")
    s.submit("review", "C", parent_id="T")
    s.claim("C")
    s.suspend("question", at=task)
    assert s.refused(c.AnswerTask(task, "yes"), AGENT).code == "own_work"


def test_an_agent_that_works_on_something_else_may_judge() -> None:
    assert ready().do(c.AcceptTask("T"), c.Actor("reviewer", root_id="other")) == "task_accepted"


def test_an_agent_does_not_restart_its_own_job() -> None:
    s = running("job")
    s.fail("budget")
    own = c.Actor("agent", root_id="J")
    assert s.refused(c.RetryJob("J"), own).code == "own_work"


# ---- editing ---------------------------------------------------------------------------------


def test_a_new_priority_reaches_the_job_in_the_queue() -> None:
    s = Story()
    s.submit("board")
    s.later(5)
    assert s.do(c.EditTask("T", {"priority": "high"})) == ""
    assert s.facts() == ["task_edited", "job_reprioritised"]
    assert (s.task().priority, s.job().priority) == ("P0", "P0")
    assert s.job().rank == rank(Priority.P0, s.job().created_at)


def test_a_new_priority_of_a_delayed_job_is_ranked_from_its_start() -> None:
    s = Story()
    start = s.now + DAY
    s.submit("board", not_before=start)
    s.do(c.EditTask("T", {"priority": "P1"}))
    assert s.job().rank == rank(Priority.P1, start)
    s.later(2 * DAY / SECOND)
    s.do(c.EditTask("T", {"priority": "P3"}))
    assert s.job().rank == rank(Priority.P3, start)


def test_an_event_of_an_earlier_version_ranks_a_delayed_job_from_its_creation() -> None:
    s = Story()
    s.submit("board", not_before=s.now + DAY)
    s.happened(s.job_id(), (e.JobReprioritised("P1"), None))
    assert s.job().rank == rank(Priority.P1, s.job().created_at)


def test_a_new_priority_does_not_reach_a_job_that_has_ended() -> None:
    s = ready()
    s.do(c.EditTask("T", {"priority": "P3"}))
    assert s.facts() == ["task_edited"]
    s.do(c.RejectTask("T", run=True))
    assert s.job().priority == "P3"


def test_what_cannot_be_changed() -> None:
    s = ready()
    assert s.refused(c.EditTask("T", {"budget": 5})).code == "invalid"
    assert s.refused(c.EditTask("T", {"priority": "P9"})).code == "invalid"
    s.do(c.AcceptTask("T"))
    assert s.refused(c.EditTask("T", {"title": "late"})).code == "task_ended"


# ---- assignment ------------------------------------------------------------------------------


def test_a_task_is_assigned_to_one_person_at_a_time() -> None:
    s = ready()
    s.do(c.AssignTask("T", "ada"))
    assert s.facts() == ["task_assigned"]
    assert s.task().options == {ASSIGNED_TO: "ada"}
    s.do(c.AssignTask("T", "ada"))
    assert s.facts() == []
    s.do(c.AssignTask("T", "grace"))
    assert s.task().options == {ASSIGNED_TO: "grace"}
    s.do(c.AssignTask("T"))
    assert s.facts() == ["task_assigned"]
    assert s.task().options == {}


def test_an_assignment_stays_through_rounds_and_is_no_option_of_the_job() -> None:
    s = ready()
    s.do(c.AssignTask("T", "ada"))
    s.do(c.RejectTask("T", run=True))
    assert s.task().options == {ASSIGNED_TO: "ada"}
    assert s.job().options == {}


def test_a_task_that_has_ended_can_be_assigned() -> None:
    s = ready()
    s.do(c.AcceptTask("T"))
    s.do(c.AssignTask("T", "ada"))
    assert s.facts() == ["task_assigned"]


# ---- deleting --------------------------------------------------------------------------------


def refused_because(s: Story, task: str = "T") -> list[str]:
    refusal = s.refused(c.DeleteTask(task))
    assert refusal.code == "still_needed"
    reasons = refusal.details["reasons"]
    assert isinstance(reasons, list)
    return reasons


@pytest.mark.parametrize(
    ("lifecycle", "states"), [("board", ("todo", "doing")), ("review", ("queued", "running"))]
)
def test_queued_and_running_tasks_are_not_deleted(lifecycle: str, states: tuple[str, str]) -> None:
    s = Story()
    s.submit(lifecycle)
    assert refused_because(s) == [f"it is {states[0]}", "its job T-j1 is queued"]
    s.claim()
    assert refused_because(s) == [f"it is {states[1]}", "its job T-j1 is running"]


def test_a_task_with_a_live_job_is_not_deleted() -> None:
    s = running("board")
    s.suspend("question")
    assert refused_because(s) == ["its job T-j1 is parked"]


def test_a_task_with_live_subtasks_is_not_deleted() -> None:
    s = running("review")
    s.submit("review", "C", parent_id="T")
    s.succeed()
    assert refused_because(s) == ["its subtask C is queued"]


def test_a_task_that_another_one_waits_for_is_not_deleted() -> None:
    s = ready()
    s.submit("review", "W", depends_on=("T",))
    assert refused_because(s) == ["task W depends on it"]


def test_a_subtask_is_kept_as_long_as_its_parent() -> None:
    s = running("board")
    s.submit("board", "C", parent_id="T")
    s.claim("C")
    s.succeed("C")
    assert refused_because(s, "C") == ["its parent T has not ended"]
    s.succeed()
    assert s.do(c.DeleteTask("C")) == ""
    assert s.facts() == ["task_deleted"]


@pytest.mark.parametrize("end", [c.CancelTask("T"), c.AcceptTask("T")])
def test_an_ended_task_is_deleted(end: c.Command) -> None:
    s = ready()
    s.do(end)
    assert s.do(c.DeleteTask("T")) == ""
    tombstone = s.fact("task_deleted")
    assert (tombstone.events, tombstone.jobs, tombstone.runs) == (5, 1, 1)
    assert s.refused(c.DeleteTask("T")).code == "unknown_task"
    assert s.refused(c.CancelJob("T-j1")).code == "unknown_job"


def test_a_task_is_deleted_with_its_ended_subtasks() -> None:
    s = running("review")
    s.submit("review", "C", parent_id="T")
    s.claim("C")
    s.fail(at="C")
    s.succeed()
    s.cancel()
    assert s.do(c.DeleteTask("T")) == ""
    assert [each.stream for each in s.last] == ["C", "T"]
    assert s.refused(c.QueueTask("C")).code == "unknown_task"


def test_a_task_that_was_never_run_is_deleted() -> None:
    s = Story()
    s.submit("review", queue=False)
    assert s.do(c.DeleteTask("T")) == ""


def test_a_job_alone_is_deleted_when_it_has_ended() -> None:
    s = running("job")
    assert s.refused(c.DeleteJob("J")).code == "still_needed"
    s.succeed()
    assert s.do(c.DeleteJob("J")) == ""
    assert s.facts() == ["job_deleted"]
    assert s.refused(c.DeleteJob("J")).code == "unknown_job"


def test_a_job_is_deleted_with_the_jobs_below_it_and_waits_for_them() -> None:
    """Else a child could no longer report, and it would never be deleted."""
    s = running("job")
    s.submit_job("K", parent="J")
    s.succeed()
    refused = s.refused(c.DeleteJob("J"))
    assert (refused.code, refused.details["reasons"]) == ("still_needed", ["its child K is queued"])
    s.cancel("K")
    assert s.do(c.DeleteJob("J")) == ""
    assert s.facts() == ["job_deleted", "job_deleted"]
    assert s.refused(c.DeleteJob("K")).code == "unknown_job"


def test_a_job_of_a_task_is_deleted_with_the_task() -> None:
    s = ready()
    assert s.refused(c.DeleteJob("T-j1")).code == "still_needed"


def test_ids_are_given_once() -> None:
    s = running("board")
    assert s.refused(c.SubmitTask("T", "demo", "board", "build", "cli")).code == "task_exists"
    s.submit_job()
    assert s.refused(c.SubmitJob("J", "demo", "build")).code == "job_exists"
