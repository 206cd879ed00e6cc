"""Plans: failures among siblings, critics, switching resources, new plan versions."""

import pytest

from detent.kernel import commands as c
from detent.kernel.entities import Resource
from detent.kernel.plan_steps import planner_is_due
from tests.kernel.stories.world import MINUTE, WORKER, Story, plan, running_plan

GPU = {"capabilities_required": ["gpu"]}
R1, R2 = Resource("r1", ("gpu",)), Resource("r2", ("gpu",))
NO_DELAY = {"retry": {"delay_ms": 0}}

# ---- failures among siblings -----------------------------------------------------------------


def test_a_step_that_is_retried_later_while_nothing_else_can_run() -> None:
    s = running_plan("board", "A", plan=plan("A", "B < A"))
    assert s.fail("network", step="A") == (
        "A:run_failed(network) A:step_failed_retryable(network) A:step_retrying(30s) "
        "job_retrying(30s) task_blocked(retry)"
    )
    assert s.task().retries_left == 3
    assert s.due() == "job_requeued(due) task_unblocked"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(2) A:run_started task_started"
    )
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded"
    assert s.start("B") == "B:step_leased B:step_running B:run_queued(1) B:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_completed task_completed"


@pytest.mark.parametrize("verb", [c.UnblockTask("T"), c.RetryTask("T")])
def test_a_person_does_not_want_to_wait_for_the_step(verb: c.Command) -> None:
    s = running_plan("board", "A", plan=plan("A"))
    s.fail("network", step="A")
    assert s.do(verb) == "task_unblocked job_requeued(released)"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(2) A:run_started task_started"
    )


def test_a_step_that_fails_beside_a_live_sibling_is_retried_in_place() -> None:
    s = running_plan("review", "A", "B", plan=plan("A", "B"))
    events = s.fail(step="A")
    assert events == "A:run_failed(error) A:step_failed_retryable(error) A:step_retrying(1s)"
    assert s.refused(c.StartStep(s.grant(), "A"), WORKER).code == "step_not_startable"
    s.later(1)
    assert s.start("A") == "A:step_running A:run_queued(2) A:run_started"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded job_completed task_ready"


@pytest.mark.parametrize(
    ("lifecycle", "end"), [("board", "task_blocked(error,0)"), ("review", "task_failed(error)")]
)
def test_a_step_that_fails_for_good_beside_a_live_sibling(lifecycle: str, end: str) -> None:
    s = running_plan(lifecycle, "A", "B", plan=plan("A", "B", "C < A", max_retries=0))
    assert s.fail(step="A") == (
        "A:run_failed(error) A:step_failed_fatal(error) A:step_failed(retry)"
    )
    assert s.succeed(step="B", result="kept") == (
        f"B:run_succeeded B:step_succeeded job_failed(error) {end}"
    )
    assert s.step("B").result == "kept"
    assert s.step("C").state == "waiting_deps"


def test_a_step_for_cleaning_up_runs_after_a_failure() -> None:
    clean = {"name": "Z", "needs": ["A"], "when": "all_done"}
    s = running_plan("board", "A", plan=plan("A", clean, max_retries=0))
    assert s.fail(step="A") == (
        "A:run_failed(error) A:step_failed_fatal(error) A:step_failed(retry)"
    )
    assert s.start("Z") == "Z:step_leased Z:step_running Z:run_queued(1) Z:run_started"
    assert s.succeed(step="Z") == (
        "Z:run_succeeded Z:step_succeeded job_failed(error) task_blocked(error,0)"
    )


def test_a_rate_limit_of_a_step_uses_up_no_retry_and_no_attempt() -> None:
    s = running_plan("board", "A", plan=plan("A", max_retries=0))
    assert s.fail("rate_limit", step="A", reset_at=s.now + 10 * MINUTE) == (
        "A:run_failed(rate_limit) A:step_failed_retryable(rate_limit) A:step_retrying(600s) "
        "job_retrying(600s) task_blocked(rate_limit)"
    )
    s.due()
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(1) A:run_started task_started"
    )


def test_a_pending_retry_of_a_step_is_no_failure_to_dependents() -> None:
    s = running_plan("review", "A", plan=plan("A", max_retries=1))
    s.submit("review", "W", depends_on=("T",))
    assert s.fail(step="A") == (
        "A:run_failed(error) A:step_failed_retryable(error) A:step_retrying(1s) "
        "job_retrying(1s) task_blocked(retry)"
    )
    assert s.task("W").state == "queued"


# ---- critics ---------------------------------------------------------------------------------


def test_a_critic_that_wants_another_try_and_one_that_says_nonsense() -> None:
    s = running_plan("review", "A", plan=plan("A"), **NO_DELAY)
    assert s.succeed(step="A", decision="retry") == (
        "A:run_succeeded A:step_failed_retryable(error) A:step_retrying(0s)"
    )
    assert s.start("A") == "A:step_running A:run_queued(2) A:run_started"
    assert s.succeed(step="A", decision="shrug") == (
        "A:run_succeeded A:step_failed_fatal(error) A:step_failed(failed) "
        "job_failed(error) task_failed(error)"
    )


def test_a_critic_that_accepts_a_failure() -> None:
    s = running_plan("review", "A", plan=plan("A"))
    assert s.fail(step="A", decision="accept") == (
        "A:run_failed(error) A:step_succeeded job_completed task_ready"
    )


def test_a_critic_that_judges_a_time_limit() -> None:
    s = running_plan("review", "A", plan=plan("A"))
    command = c.TimeOutRun(s.grant(), s.run_id(step="A"), decision="shrug")
    assert s.do(command, WORKER) == (
        "A:run_timed_out(run) A:step_failed_fatal(timeout) A:step_failed(failed) "
        "job_failed(timeout) task_timed_out"
    )


# ---- a person's retry ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [("board", "task_unblocked"), ("review", "task_retried"), ("job", "")],
)
def test_a_failed_plan_is_taken_up_in_a_new_version(lifecycle: str, events: str) -> None:
    s = running_plan(lifecycle, "A", "B", plan=plan("A", "B", "C < A B", max_retries=0))
    s.succeed(step="B", result="b")
    s.fail(step="A")
    assert s.do(c.RetryJob(s.job_id(""))).split() == [
        *([events] if events else []),
        "job_requeued(retried)",
        *("A:step_pending", "C:step_pending", "C:step_waiting_deps(A)"),
    ]
    assert s.fact("plan_generated").plan_version == 2
    assert s.fact("plan_generated").carried == {"B": "b"}
    s.claim("", "A")
    assert s.succeed(step="A", result="a") == "A:run_succeeded A:step_succeeded"
    s.start("C")
    assert s.succeed(step="C", result="c").startswith(
        "C:run_succeeded C:step_succeeded job_completed"
    )
    assert s.job().result == {"A": "a", "B": "b", "C": "c"}


# ---- resources -------------------------------------------------------------------------------


def test_a_resource_that_fails_is_switched_in_place() -> None:
    s = running_plan("board", "A", plan=plan("A", **GPU), resources=(R1, R2))
    assert s.step("A").resource == "r1"
    assert s.fail("resource", step="A") == (
        "A:run_failed(resource) A:step_failed_resource(r1) A:step_switching_resource(r1)"
    )
    assert s.start("A") == "A:step_leased(r2) A:step_running(r2) A:run_queued(1) A:run_started"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_completed task_completed"
    assert s.world.in_use("r1") == s.world.in_use("r2") == 0


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_no_other_resource_is_free_now(lifecycle: str) -> None:
    s = Story(R1, R2)
    s.submit_job("K", plan=plan("A", avoid=["r1"], **GPU))
    s.claim("K", "A")
    s.submit(lifecycle, plan=plan("A", **GPU))
    s.claim("T", "A")
    s.fail("resource", step="A")
    assert s.refused(c.StartStep(s.grant(), "A"), WORKER).code == "no_resource"
    assert s.rest() == "job_waiting(resource) task_blocked(resource)"
    assert s.wake("resource:1") == ""
    assert s.facts() == ["wait_postponed"]
    s.succeed("K", "A")
    assert s.wake("resource:1") == "task_unblocked wait_completed(available)"
    assert s.claim("T", "A") == (
        "job_running A:step_leased(r2) A:step_running(r2) "
        "A:run_queued(1) A:run_started task_started"
    )


def test_a_person_may_look_for_a_resource_earlier() -> None:
    s = running_plan(
        "board", "B", plan=plan("B", {"name": "A", "needs": ["B"], **GPU}), resources=(R1,)
    )
    s.world.resources["r1"] = R1._replace(healthy=False)
    s.succeed(step="B")
    assert s.rest() == "job_waiting(resource) task_blocked(resource)"
    assert s.do(c.UnblockTask("T")) == "task_unblocked wait_completed(unblocked)"


def test_no_resource_is_left() -> None:
    s = running_plan("review", "A", plan=plan("A", **GPU), resources=(R1,))
    assert s.fail("resource", step="A") == (
        "A:run_failed(resource) A:step_failed_resource(r1) A:step_switching_resource(r1) "
        "A:step_failed_fatal(resource) A:step_failed(no_resource) "
        "job_failed(resource) task_failed(resource)"
    )


def test_a_step_that_asked_for_nothing_has_nothing_to_switch_to() -> None:
    s = running_plan("board", "A", plan=plan("A"), resources=(R1,))
    assert s.fail("resource", step="A") == (
        "A:run_failed(resource) A:step_failed_resource A:step_switching_resource(local) "
        "A:step_failed_fatal(resource) A:step_failed(no_resource) "
        "job_failed(resource) task_blocked(error,0)"
    )


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [("board", "task_blocked(error,0)"), ("review", "task_failed(resource)")],
)
def test_no_resource_can_ever_fit(lifecycle: str, events: str) -> None:
    s = Story(R1)
    s.submit(lifecycle, plan=plan("A", capabilities_required=["printer"]))
    s.claim()
    assert s.refused(c.StartStep(s.grant(), "A"), WORKER).code == "no_resource"
    assert s.rest() == f"job_failed(resource) {events}"
    assert s.step("A").state == "pending"
    assert "step A" in str(s.job().error)


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_no_resource_is_free_before_anything_has_started(lifecycle: str) -> None:
    s = Story(R1._replace(healthy=False))
    s.submit(lifecycle, plan=plan("A", **GPU))
    s.claim()
    assert s.rest() == "job_waiting(resource)"
    assert s.task().state in ("todo", "queued")
    s.world.resources["r1"] = R1
    assert s.wake("resource:1") == "wait_completed(available)"
    assert s.claim("T", "A").endswith("A:run_queued(1) A:run_started task_started")


def test_resources_are_chosen_by_label_and_never_from_the_avoid_list() -> None:
    rooms = (
        Resource("r1", ("gpu",), {"room": "a"}),
        Resource("r2", ("gpu",), {"room": "b"}),
        Resource("r3", ("gpu",), {"room": "b"}),
    )
    asked = {"label_selector": {"room": "b"}, "avoid": ["r2"], **GPU}
    s = running_plan("board", "A", plan=plan("A", **asked), resources=rooms)
    assert s.step("A").resource == "r3"


def test_a_retry_prefers_the_resource_that_the_step_had() -> None:
    s = running_plan("board", "A", plan=plan("A", **GPU), resources=(R1, R2), **NO_DELAY)
    s.fail("resource", step="A")
    s.start("A")
    events = s.fail(step="A")
    assert events == "A:run_failed(error) A:step_failed_retryable(error) A:step_retrying(0s)"
    assert s.start("A") == "A:step_running(r2) A:run_queued(2) A:run_started"


def test_a_retry_that_is_due_waits_for_its_resource() -> None:
    s = Story(R1)
    s.submit("board", plan=plan("A", **GPU), options=NO_DELAY)
    s.claim("T", "A")
    s.fail(step="A")
    s.submit_job("K", plan=plan("A", **GPU))
    s.claim("K", "A")
    assert s.rest() == "job_waiting(resource) task_blocked(resource)"
    assert s.step("A").state == "retrying"
    s.succeed("K", "A")
    s.wake("resource:1")
    assert s.claim("T", "A") == (
        "job_running A:step_running(r1) A:run_queued(2) A:run_started task_started"
    )


def test_a_plan_does_not_rest_while_a_step_can_start() -> None:
    s = running_plan("board", "A", plan=plan("A", "B"))
    assert s.refused(c.RestPlan(s.grant()), WORKER).code == "still_running"
    s.succeed(step="A")
    assert s.refused(c.RestPlan(s.grant()), WORKER).code == "step_can_start"


# ---- new plan versions -----------------------------------------------------------------------


def planned(lifecycle: str, first: dict[str, object], *starting: str) -> Story:
    s = Story()
    s.submit(lifecycle, planner="think")
    s.claim()
    s.do(c.RecordPlan(s.grant(), first), WORKER)
    for name in starting:
        s.start(name)
    return s


def test_a_critic_asks_for_a_new_plan_and_what_is_finished_is_kept() -> None:
    s = planned("board", plan("A", "B < A", "C < B"), "A")
    s.succeed(step="A", result="a")
    s.start("B")
    assert s.fail(step="B", decision="replan") == (
        "B:run_failed(error) B:step_failed_fatal(error) B:step_failed(replan)"
    )
    assert s.facts() == ["replan_requested"]
    assert s.refused(c.StartStep(s.grant(), "B"), WORKER).code == "step_not_startable"
    events = s.do(c.RecordPlan(s.grant(), plan("A", "D < A")), WORKER)
    assert events == "D:step_pending"
    assert s.fact("plan_generated").plan_version == 2
    assert s.fact("plan_generated").carried == {"A": "a"}
    assert s.refused(c.RecordPlan(s.grant(), plan("A")), WORKER).code == "plan_not_wanted"
    assert s.start("D") == "D:step_leased D:step_running D:run_queued(1) D:run_started"
    assert s.succeed(step="D") == "D:run_succeeded D:step_succeeded job_completed task_completed"


def test_without_a_planner_it_just_fails() -> None:
    s = running_plan("review", "A", plan=plan("A"))
    assert s.fail(step="A", decision="replan") == (
        "A:run_failed(error) A:step_failed_fatal(error) A:step_failed(replan) "
        "job_failed(error) task_failed(error)"
    )


def test_the_fourth_new_plan_is_one_too_many() -> None:
    s = planned("board", plan("A"), "A")
    for _ in range(3):
        s.fail(step="A", decision="replan")
        s.do(c.RecordPlan(s.grant(), plan("A")), WORKER)
        s.start("A")
    assert s.fail(step="A", decision="replan") == (
        "A:run_failed(error) A:step_failed_fatal(error) A:step_failed(replan) "
        "job_failed(error) task_blocked(error,0)"
    )


def test_the_planner_waits_for_what_is_still_going_on() -> None:
    s = planned("review", plan("A", "B", "C < B"), "A", "B")
    s.fail(step="A", decision="replan")
    assert s.refused(c.RecordPlan(s.grant(), plan("A", "B")), WORKER).code == "still_running"
    events = s.fail(step="B", decision="retry")
    assert events == (
        "B:run_failed(error) B:step_failed_retryable(error) B:step_retrying(1s) "
        "job_retrying(1s) task_blocked(retry)"
    )
    s.due()
    s.claim("T", "B")
    assert s.succeed(step="B", result="b") == "B:run_succeeded B:step_succeeded"
    assert s.refused(c.StartStep(s.grant(), "C"), WORKER).code == "step_not_startable"
    assert s.do(c.RecordPlan(s.grant(), plan("A", "B")), WORKER) == "A:step_pending"
    assert s.fact("plan_generated").carried == {"B": "b"}
    s.start("A")
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded job_completed task_ready"


def test_two_critics_that_ask_for_a_new_plan_get_one() -> None:
    s = planned("review", plan("A", "B"), "A", "B")
    s.fail(step="A", decision="replan")
    s.fail(step="B", decision="replan")
    assert "replan_requested" not in s.facts()
    assert s.job().replans == 1
    assert s.do(c.RecordPlan(s.grant(), plan("A")), WORKER) == "A:step_pending"


def test_the_worker_is_lost_while_the_planner_works() -> None:
    s = planned("review", plan("A"), "A")
    s.fail(step="A", decision="replan")
    assert s.reclaim() == "job_requeued(lost) task_blocked(retry) task_unblocked"
    assert s.claim() == "job_running"
    assert s.do(c.RecordPlan(s.grant(), plan("A")), WORKER) == "A:step_pending"
    assert s.start("A") == (
        "A:step_leased A:step_running A:run_queued(1) A:run_started task_started"
    )


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [("board", "job_retrying(1s)"), ("review", "job_failed(error) task_failed(error)")],
)
def test_a_planner_that_fails_at_first(lifecycle: str, events: str) -> None:
    s = Story()
    s.submit(lifecycle, planner="think")
    s.claim()
    assert s.do(c.FailPlan(s.grant(), "error", "no idea"), WORKER) == events


def test_a_planner_that_fails_later() -> None:
    s = planned("board", plan("A"), "A")
    assert s.refused(c.FailPlan(s.grant(), "error", "no idea"), WORKER).code == "plan_not_wanted"
    s.fail(step="A", decision="replan")
    assert s.do(c.FailPlan(s.grant(), "network", "away"), WORKER) == (
        "job_retrying(30s) task_blocked(retry)"
    )
    s.due()
    assert s.claim() == "job_running"
    assert s.do(c.RecordPlan(s.grant(), plan("A")), WORKER) == "A:step_pending"


def test_a_plan_that_is_no_plan_is_invalid() -> None:
    s = Story()
    s.submit("review", planner="think")
    s.claim()
    assert s.refused(c.RecordPlan(s.grant(), plan("A < B", "B < A")), WORKER).code == "invalid"


def test_a_worker_that_can_do_nothing_says_so() -> None:
    s = Story()
    s.submit("review", planner="think")
    s.claim()
    assert planner_is_due(s.world, s.job())
    assert s.refused(c.RestPlan(s.grant()), WORKER).code == "nothing_to_wait_for"
    s.do(c.RecordPlan(s.grant(), plan("A")), WORKER)
    assert not planner_is_due(s.world, s.job())
    s.cancel()
    assert s.rest() == "job_cancelled task_cancelled"
