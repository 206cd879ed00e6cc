"""Work that needs a person: confirmed, refused, expired, beside a sibling and without a plan."""

import pytest

from detent.kernel import commands as c
from detent.kernel.entities import Resource
from tests.kernel.stories.world import WORKER, Story, plan, running, running_plan

#: How a person's word shows on the task, before the job wakes.
WORD = {"board": "task_unblocked", "review": "task_answered({})"}
END = {"board": "task_completed", "review": "task_ready"}
FAILED = {"board": "task_blocked(error,0)", "review": "task_failed(needs_user)"}


def asking(lifecycle: str, **more: object) -> Story:
    """Step A wants to be confirmed, and nothing else is live."""
    s = running_plan(lifecycle, "A", plan=plan("A"), **more)
    assert s.fail("needs_user", step="A") == (
        "A:run_failed(needs_user) A:step_needs_user "
        "job_parked(confirmation) task_blocked(needs_user)"
    )
    return s


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_confirmed(lifecycle: str) -> None:
    s = asking(lifecycle)
    assert s.task().blocked_detail["options"] == ["confirm", "refuse"]
    events = WORD[lifecycle].format("answered")
    assert s.do(c.AnswerTask("T", "confirm")) == f"{events} wait_completed(answered)"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:run_queued(1) A:run_started task_started"
    )
    assert s.succeed(step="A") == (
        f"A:run_succeeded A:step_succeeded job_completed {END[lifecycle]}"
    )


def test_a_run_that_ended_well_may_need_a_person_too() -> None:
    s = running_plan("review", "A", plan=plan("A"))
    assert s.succeed(step="A", decision="needs_user") == (
        "A:run_succeeded A:step_needs_user job_parked(confirmation) task_blocked(needs_user)"
    )


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_refused(lifecycle: str) -> None:
    s = asking(lifecycle)
    events = WORD[lifecycle].format("answered")
    assert s.do(c.AnswerTask("T", "refuse")) == f"{events} wait_completed(answered)"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:step_failed_fatal(needs_user) A:step_failed(refused) "
        f"job_failed(needs_user) {FAILED[lifecycle]}"
    )
    assert s.answer is None


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_expired(lifecycle: str) -> None:
    s = asking(lifecycle, confirm_timeout_ms=3_600_000)
    events = WORD[lifecycle].format("expired")
    assert s.wake(s.waits()[0]) == f"{events} wait_completed(expired)"
    assert s.claim("T", "A") == (
        "job_running A:step_running A:step_failed_fatal(needs_user) A:step_failed(expired) "
        f"job_failed(needs_user) {FAILED[lifecycle]}"
    )


def test_only_confirm_and_refuse_are_answers() -> None:
    assert asking("board").refused(c.AnswerTask("T", "perhaps")).code == "not_an_option"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_live_sibling_keeps_the_task_in_work_until_it_ends(lifecycle: str) -> None:
    s = running_plan(lifecycle, "A", "B", plan=plan("A", "B"))
    assert s.fail("needs_user", step="A") == "A:run_failed(needs_user) A:step_needs_user"
    assert s.succeed(step="B") == (
        "B:run_succeeded B:step_succeeded job_parked(confirmation) task_blocked(needs_user)"
    )
    events = WORD[lifecycle].format("answered")
    assert s.do(c.AnswerTask("T", "confirm")) == f"{events} wait_completed(answered)"
    assert s.step("A").state == "needs_user"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_confirmed_while_the_sibling_is_live(lifecycle: str) -> None:
    s = running_plan(lifecycle, "A", "B", plan=plan("A", "B"))
    s.fail("needs_user", step="A")
    wait = s.waits()[0]
    assert s.do(c.AnswerTask("T", "confirm")) == ""
    assert (s.answer, s.facts()) == ("answered", ["wait_ended"])
    assert s.do(c.AnswerTask("T", "confirm", wait)) == ""
    assert s.answer == "repeated"
    assert s.refused(c.AnswerTask("T", "refuse", wait)).code == "already_answered"
    assert s.start("A") == "A:step_running A:run_queued(1) A:run_started"
    assert s.succeed(step="B") == "B:run_succeeded B:step_succeeded"
    assert s.succeed(step="A") == (
        f"A:run_succeeded A:step_succeeded job_completed {END[lifecycle]}"
    )


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_an_effect_that_a_person_must_decide_about(lifecycle: str) -> None:
    s = running(lifecycle)
    s.do(c.BeginEffect(s.grant(), "pay", "manual"), WORKER)
    s.reclaim()
    s.claim()
    assert s.suspend("confirmation", "pay:decide") == (
        "run_succeeded(suspended) job_parked(confirmation) task_blocked(needs_user)"
    )
    events = WORD[lifecycle].format("answered")
    assert s.do(c.AnswerTask("T", "it was paid")) == f"{events} wait_completed(answered)"
    assert s.claim() == "job_running run_queued(2) run_started task_started"


def test_a_job_alone() -> None:
    s = Story()
    s.submit_job(critic="strict")
    s.claim("", "build")
    assert s.fail("needs_user", step="build") == (
        "build:run_failed(needs_user) build:step_needs_user job_parked(confirmation)"
    )
    assert s.do(c.AnswerJob("J", "confirm")) == "wait_completed(answered)"
    assert s.claim("", "build") == (
        "job_running build:step_running build:run_queued(1) build:run_started"
    )
    assert s.succeed(step="build") == "build:run_succeeded build:step_succeeded job_completed"


def test_a_confirmed_step_takes_its_resource_again() -> None:
    gpus = Resource("r1", ("gpu",)), Resource("r2", ("gpu",))
    asked = plan("A", capabilities_required=["gpu"])
    s = running_plan("board", "A", plan=asked, resources=gpus)
    s.fail("needs_user", step="A")
    assert s.world.in_use("r1") == 0
    s.do(c.AnswerTask("T", "confirm"))
    assert s.claim("T", "A") == (
        "job_running A:step_running(r1) A:run_queued(1) A:run_started task_started"
    )
