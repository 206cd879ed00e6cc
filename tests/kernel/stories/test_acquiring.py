"""A step that waits for its resource too long: its wait expires, and the job fails and says so."""

import pytest

from detent.kernel import commands as c
from detent.kernel.entities import Resource
from tests.kernel.stories.world import SECOND, Story, plan, running_plan

GPU = {"capabilities_required": ["gpu"]}
R1 = Resource("r1", ("gpu",))
SICK = R1._replace(healthy=False)


def lacking(lifecycle: str = "review", **limit: object) -> Story:
    """A is done; C lacks its resource, and the job rests."""
    steps = plan("A", {"name": "C", "needs": ["A"], **GPU, **limit})
    s = running_plan(lifecycle, "A", plan=steps, resources=(SICK,))
    s.later(100).succeed(step="A")
    assert s.rest().startswith("job_waiting(resource)")
    return s


def wait_of(s: Story) -> str:
    (wait,) = s.waits()
    return wait


def waited(s: Story) -> list[str]:
    """Let the keeper look until it says something."""
    events: list[str] = []
    for _ in range(100):
        if woken := s.wake(wait_of(s)):
            events.append(woken)
        if not s.waits():
            return events
    raise AssertionError("it waits without end")


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [("review", "task_failed(resource)"), ("board", "task_blocked(error,0)")],
)
def test_the_wait_expires_and_the_job_fails(lifecycle: str, events: str) -> None:
    s = lacking(lifecycle, acquire_timeout_ms=30_000)
    began = s.now
    assert waited(s) == ["task_unblocked wait_completed(expired)"]
    assert s.now == began + 30 * SECOND  # at its limit, not at the next look after it
    s.claim("T")
    assert s.rest() == f"job_failed(resource) {events}"
    assert s.job().error == "step C waited longer for a resource than its limit allows"


def test_the_limit_of_the_job_counts_for_steps_without_one() -> None:
    steps = plan({"name": "C", **GPU})
    s = running_plan("job", plan=steps, resources=(SICK,), acquire_timeout_ms=2_000)
    s.rest()
    began = s.now
    waited(s)
    assert s.now == began + 2 * SECOND
    s.claim()
    assert s.rest() == "job_failed(resource)"


def test_a_resource_that_comes_before_the_limit_is_taken() -> None:
    s = lacking(acquire_timeout_ms=30_000)
    s.wake(wait_of(s))
    s.world.resources["r1"] = R1
    assert waited(s) == ["task_unblocked wait_completed(available)"]
    s.claim("T", "C")
    assert s.succeed(step="C").endswith("job_completed task_ready")


def test_a_resource_that_comes_at_the_last_moment_is_taken() -> None:
    s = lacking(acquire_timeout_ms=30_000)
    waited(s)
    s.world.resources["r1"] = R1
    s.claim("T", "C")
    assert s.succeed(step="C").endswith("job_completed task_ready")


def test_another_that_is_quicker_each_time_does_not_restart_the_wait() -> None:
    s = lacking(acquire_timeout_ms=12_000)
    began = s.now
    while s.now < began + 12 * SECOND:
        s.world.resources["r1"] = R1
        s.wake(wait_of(s))
        s.world.resources["r1"] = SICK
        s.claim("T")
        events = s.rest()
    assert events == "job_failed(resource) task_failed(resource)"


def test_a_step_that_only_lost_its_worker_rests_first() -> None:
    steps = plan({"name": "C", **GPU, "acquire_timeout_ms": 5_000})
    s = running_plan("job", plan=steps, resources=(SICK,))
    s.later(3_600).reclaim()
    s.claim()
    assert s.rest() == "job_waiting(resource)"


def test_after_a_question_the_limit_counts_from_the_answer() -> None:
    steps = plan({"name": "C", **GPU, "acquire_timeout_ms": 5_000})
    s = running_plan("board", "C", plan=steps, resources=(R1,))
    s.fail("needs_user", step="C")
    s.world.resources["r1"] = SICK
    s.later(3_600).do(c.AnswerTask("T", "confirm"))
    answered = s.now
    s.claim("T")
    assert s.rest().startswith("job_waiting(resource)")
    assert waited(s) == ["wait_completed(expired)"]
    assert s.now == answered + 5 * SECOND


def test_after_a_sleep_of_its_own_the_limit_counts_from_its_end() -> None:
    steps = plan({"name": "C", **GPU, "acquire_timeout_ms": 5_000})
    s = running_plan("job", "C", plan=steps, resources=(R1,))
    s.suspend("timer", "nap", step="C", seconds=3_600)
    s.world.resources["r1"] = SICK
    s.wake("nap")
    woken = s.now
    s.claim()
    assert s.rest() == "job_waiting(resource)"
    waited(s)
    assert s.now == woken + 5 * SECOND
    s.claim()
    assert s.rest() == "job_failed(resource)"


def test_a_run_since_the_sleep_resets_the_count() -> None:
    steps = plan({"name": "C", **GPU, "acquire_timeout_ms": 5_000})
    s = running_plan("job", "C", plan=steps, resources=(R1,))
    s.suspend("timer", "nap", step="C", seconds=60)
    s.wake("nap")
    s.claim()
    s.start("C")
    s.world.resources["r1"] = SICK
    s.later(3_600).hand_back()
    s.claim()
    assert s.rest() == "job_waiting(resource)"
    for _ in range(10):
        s.wake(wait_of(s))
    assert s.job().state != "failed"


def test_without_a_limit_it_waits_as_long_as_it_takes() -> None:
    s = lacking()
    for _ in range(50):
        s.wake(wait_of(s))
    assert s.job().state == "parked"
