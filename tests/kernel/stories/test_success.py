"""Work that ends well: both task lifecycles, a job alone, and plans of every origin."""

from detent.kernel import commands as c
from detent.kernel.entities import Resource
from tests.kernel.stories.world import WORKER, Story, plan


def test_a_board_task_by_the_one_call_gate() -> None:
    s = Story()
    assert s.submit("board") == "task_created task_queued job_created"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed(exit_code=0) == "run_succeeded job_completed task_completed"
    assert s.states() == "done completed"
    assert s.fact("run_succeeded").exit_code == 0


def test_a_board_task_that_is_created_first_and_queued_later() -> None:
    s = Story()
    assert s.submit("board", queue=False) == "task_created"
    assert s.do(c.QueueTask("T")) == "task_queued job_created"
    assert s.refused(c.QueueTask("T")).code == "illegal_transition"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_completed"
    assert s.states() == "done completed"


def test_a_review_task_is_ready_and_then_accepted() -> None:
    s = Story()
    assert s.submit("review", queue=False) == "task_created"
    assert s.do(c.QueueTask("T")) == "task_queued job_created"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_ready"
    assert s.do(c.AcceptTask("T", "good")) == "task_accepted"
    assert s.states() == "completed completed"


def test_a_review_task_that_is_created_and_run_immediately() -> None:
    s = Story()
    assert s.submit("review") == "task_created task_queued job_created"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_ready"


def test_a_job_alone_takes_six_events() -> None:
    s = Story()
    assert s.submit_job() == "job_created"
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.succeed(result=42) == "run_succeeded job_completed"
    assert len(s.log) == 6
    assert s.job().result == 42


def test_a_board_task_with_a_plan() -> None:
    s = Story()
    assert s.submit("board", plan=plan("A", "B < A")) == (
        "task_created task_queued job_created A:step_pending B:step_pending B:step_waiting_deps(A)"
    )
    assert s.facts() == ["plan_generated"]
    assert s.claim() == "job_running"
    assert s.start("A") == "A:step_leased A:step_running A:run_queued(1) A:run_started task_started"
    assert s.fact("step_leased").resource == "local"
    assert s.succeed(step="A", result="a") == "A:run_succeeded A:step_succeeded"
    assert s.start("B") == "B:step_leased B:step_running B:run_queued(1) B:run_started"
    assert s.succeed(step="B", result="b") == (
        "B:run_succeeded B:step_succeeded job_completed task_completed"
    )
    assert s.job().result == {"A": "a", "B": "b"}


def test_a_review_task_with_a_plan() -> None:
    s = Story()
    s.submit("review", plan=plan("A", "B < A"))
    assert s.claim("T", "A") == (
        "job_running A:step_leased A:step_running A:run_queued(1) A:run_started task_started"
    )
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded"
    assert s.start("B") == "B:step_leased B:step_running B:run_queued(1) B:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_completed task_ready"
    assert s.do(c.AcceptTask("T")) == "task_accepted"


def test_a_step_that_waits_for_another_cannot_start() -> None:
    s = Story()
    s.submit("board", plan=plan("A", "B < A"))
    s.claim()
    assert s.refused(c.StartStep(s.grant(), "B"), WORKER).code == "step_not_startable"


def test_a_job_that_asks_for_a_resource_runs_as_a_plan_of_one_step() -> None:
    s = Story(Resource("r1", ("gpu",)))
    assert s.submit_job(capabilities_required=["gpu"]) == "job_created build:step_pending"
    assert s.facts() == ["plan_generated"]
    assert s.claim("", "build") == (
        "job_running build:step_leased(r1) build:step_running(r1) "
        "build:run_queued(1) build:run_started"
    )
    events = s.succeed(step="build", result=42)
    assert events == "build:run_succeeded build:step_succeeded job_completed"
    assert s.job().result == 42  # as if there were no plan


def test_a_job_that_names_a_critic_runs_as_a_plan_of_one_step() -> None:
    s = Story()
    assert s.submit_job(critic="strict") == "job_created build:step_pending"


def test_a_plan_that_a_planner_makes_after_the_claim() -> None:
    s = Story()
    assert s.submit("review", planner="think") == "task_created task_queued job_created"
    assert s.claim() == "job_running"
    assert s.task().state == "queued"
    assert s.do(c.RecordPlan(s.grant(), plan("A")), WORKER) == "A:step_pending"
    assert s.facts() == ["plan_generated"]
    assert s.start("A") == "A:step_leased A:step_running A:run_queued(1) A:run_started task_started"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_completed task_ready"
