"""A new plan version that asks for nothing but what is done already."""

import pytest

from detent.kernel import commands as c
from tests.kernel.stories.world import WORKER, Story, plan


def replanning(lifecycle: str) -> Story:
    """A is done, and the critic of B has asked for a new plan."""
    s = Story()
    s.submit(lifecycle, planner="think")
    s.claim()
    s.do(c.RecordPlan(s.grant(), plan("A", "B < A")), WORKER)
    s.start("A")
    s.succeed(step="A", result="a")
    s.start("B")
    s.fail(step="B", decision="replan")
    return s


@pytest.mark.parametrize(
    ("lifecycle", "end"), [("board", "task_completed"), ("review", "task_ready")]
)
def test_a_new_plan_with_only_finished_steps_ends_immediately(lifecycle: str, end: str) -> None:
    s = replanning(lifecycle)
    assert s.do(c.RecordPlan(s.grant(), plan("A")), WORKER) == f"job_completed {end}"
    assert s.job().result == {"A": "a"}


def test_a_new_plan_of_which_all_is_done_after_the_worker_was_lost() -> None:
    s = replanning("review")
    s.reclaim()
    s.claim()
    events = s.do(c.RecordPlan(s.grant(), plan("A")), WORKER)
    assert events == "task_started job_completed task_ready"


def test_a_new_plan_does_not_end_what_a_person_asked_to_cancel() -> None:
    s = replanning("review")
    s.cancel("T")
    assert s.do(c.RecordPlan(s.grant(), plan("A")), WORKER) == ""
    assert s.stopped() == "job_cancelled task_cancelled"
