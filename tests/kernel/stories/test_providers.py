"""Providers: rate limits, switches, the circuit breaker, and work that waits for a reset."""

import pytest

from detent.kernel import commands as c
from detent.kernel.entities import Health, Resource
from detent.kernel.provider_health import OPEN_US, State, state_of
from tests.kernel.stories.world import DAY, MINUTE, SECOND, WORKER, Story, plan, running_plan

A = Resource("a", (), service="one")
B = Resource("b", (), service="two")
#: The same service as A, with another key.
A2 = Resource("a2", (), service="one")


def begun(*resources: Resource, lifecycle: str = "review", **options: object) -> Story:
    """Work without a plan that uses the first of its providers."""
    names = [each.id for each in resources]
    return running_plan(lifecycle, "build", resources=resources, providers=names, **options)


def health(s: Story, name: str) -> Health:
    return s.world.resources[name].health


def state(s: Story, name: str) -> State:
    return state_of(s.world.resources[name], s.now)


def limit(s: Story, seconds: float | None = 600, step: str = "build") -> str:
    reset_at = None if seconds is None else s.now + int(seconds * SECOND)
    return s.fail("rate_limit", step=step, reset_at=reset_at)


def fail_service(s: Story, times: int) -> None:
    """Failures in a row of the running step, which is retried on the same provider."""
    for left in range(times, 0, -1):
        s.fail("network", step="build")
        if left > 1:
            s.due()
            s.claim("", "build")


# ---- rate limits -----------------------------------------------------------------------------


def test_at_a_rate_limit_the_next_run_uses_another_provider() -> None:
    s = begun(A, B)
    session = c.OpenSession(s.grant(), "session", s.run_id(step="build"))
    s.do(session, WORKER)
    assert limit(s) == (
        "build:run_failed(rate_limit) build:step_failed_resource(a) build:step_switching_resource"
    )
    assert s.start("build") == (
        "build:step_leased(b) build:step_running(b) build:run_queued(1) build:run_started"
    )
    assert s.task().session_id == "session"
    assert (state(s, "a"), state(s, "b")) == (State.LIMITED, State.AVAILABLE)
    assert s.succeed(step="build", result="done").endswith("job_completed task_ready")
    assert s.job().result == "done"


def test_a_step_of_a_plan_switches_too() -> None:
    steps = plan("A", {"name": "C", "needs": ["A"], "providers": ["a", "b"]})
    s = running_plan("board", "A", plan=steps, resources=(A, B))
    s.succeed(step="A")
    s.start("C")
    assert limit(s, step="C").endswith("C:step_failed_resource(a) C:step_switching_resource")
    assert s.start("C").startswith("C:step_leased(b) C:step_running(b)")


def test_without_permission_to_switch_it_waits_for_the_stated_reset() -> None:
    s = begun(A, B, switch_provider=False)
    assert limit(s).endswith("job_retrying(600s) task_blocked(rate_limit)")
    s.due()
    assert "step_running(a)" in s.claim("", "build")


def test_if_all_providers_are_limited_it_waits_for_the_first_reset() -> None:
    s = begun(A, B)
    limit(s, 600)
    s.start("build")
    assert limit(s, 900).endswith("job_retrying(600s) task_blocked(rate_limit)")
    s.due()
    assert "step_running(a)" in s.claim("", "build")


def test_work_that_begins_while_all_providers_are_limited_is_checked_at_the_first_reset() -> None:
    s = Story(A._replace(health=Health(limited_until=10**18)), B)
    s.world.resources["b"] = B._replace(health=Health(limited_until=s.now + 2 * MINUTE))
    s.submit("review", providers=["a", "b"])
    s.claim()
    assert s.refused(c.StartStep(s.grant(), "build")).code == "no_resource"
    s.rest()
    (wait,) = s.waits()
    began = s.now
    assert s.wake(wait) == "wait_completed(available)"
    assert s.now == began + 2 * MINUTE
    assert "step_leased(b)" in s.claim("", "build")


def test_a_limit_that_a_person_has_ended_lets_the_work_continue() -> None:
    s = begun(A, B)
    limit(s)
    s.start("build")
    limit(s)
    s.world.resources["b"] = B
    s.do(c.UnblockTask("T"))
    assert "step_running(b)" in s.claim("", "build")


@pytest.mark.parametrize("seconds", [None, -5, 400 * 24 * 3_600])
def test_a_missing_past_or_impossible_reset_counts_as_a_minute_and_a_failure(
    seconds: float | None,
) -> None:
    s = begun(A)
    assert limit(s, seconds).endswith("job_retrying(60s) task_blocked(rate_limit)")
    found = health(s, "a")
    assert (found.limited_until, found.stated, found.failures) == (s.now + MINUTE, False, 1)


def test_personal_accounts_are_not_rotated() -> None:
    mine, yours = (each._replace(personal=True) for each in (A, B))
    s = begun(mine, yours)
    assert limit(s).endswith("job_retrying(600s) task_blocked(rate_limit)")
    key = Resource("key", (), service="three")
    s = begun(mine, yours, key)
    limit(s)
    assert s.start("build").startswith("build:step_leased(key)")


def test_capacity_moves_work_to_the_next_provider() -> None:
    s = begun(A, B)
    s.submit("review", "U", options={"providers": ["a", "b"]})
    assert "U:build:step_leased(b)" in s.claim("U", "build").replace("U.build:", "U:build:")


def test_the_usage_of_a_day_is_counted_for_the_provider_that_had_the_run() -> None:
    s = begun(A, B)
    s.do(c.ChargeRun(s.grant(), s.run_id(step="build"), 300_000, 7, 9), WORKER)
    limit(s)
    s.start("build")
    s.do(c.ChargeRun(s.grant(), s.run_id(step="build"), 100_000, 1, 2), WORKER)
    s.succeed(step="build")
    a, b = health(s, "a"), health(s, "b")
    assert (a.runs, a.limits, a.cost, a.tokens_in, a.tokens_out) == (1, 1, 300_000, 7, 9)
    assert (b.runs, b.limits, b.cost, b.tokens_in, b.tokens_out) == (1, 0, 100_000, 1, 2)
    s.now += DAY
    s.submit("review", "U", options={"providers": ["b"]})
    s.claim("U", "build")
    s.succeed("U", step="build")
    assert (health(s, "b").runs, health(s, "b").cost) == (1, 0)


def test_a_stale_worker_cannot_change_the_health() -> None:
    s = begun(A, B)
    grant, run_id = s.grant(), s.run_id(step="build")
    s.reclaim()
    before = s.world.resources["a"].health
    late = c.FailRun(grant, run_id, "rate_limit", "late", reset_at=s.now + DAY)
    assert s.refused(late, WORKER).code == "stale_fence"
    assert s.world.resources["a"].health == before


# ---- the circuit breaker ---------------------------------------------------------------------


def test_three_failures_open_the_breaker_of_the_service_for_thirty_minutes() -> None:
    s = begun(A, A2, B, retry={"classes": {"network": {"retries": 5}}})
    fail_service(s, 3)
    assert [state(s, name) for name in ("a", "a2", "b")] == [State.OPEN, State.OPEN, "available"]
    assert health(s, "a").open_until == s.now + OPEN_US
    s.due()
    assert "step_running(b)" in s.claim("", "build")


def test_after_thirty_minutes_one_step_tries_and_success_closes_the_breaker() -> None:
    s = begun(A, A2, retry={"classes": {"network": {"retries": 5}}})
    fail_service(s, 3)
    s.now += OPEN_US
    assert state(s, "a") is State.HALF_OPEN
    s.claim("", "build")
    s.submit("review", "U", options={"providers": ["a2"]})
    s.claim("U")
    assert s.refused(c.StartStep(s.grant("U"), "build")).code == "no_resource"
    s.succeed(step="build")
    assert (state(s, "a"), state(s, "a2")) == (State.AVAILABLE, State.AVAILABLE)
    s.start("build", "U")


def test_a_failed_trial_opens_the_breaker_again() -> None:
    s = begun(A, retry={"classes": {"network": {"retries": 5}}})
    fail_service(s, 3)
    s.now += OPEN_US
    s.claim("", "build")
    s.time_out("idle", step="build")
    assert health(s, "a").open_until == s.now + OPEN_US


def test_a_lost_trial_lets_another_step_try() -> None:
    s = begun(A, retry={"classes": {"network": {"retries": 5}}})
    fail_service(s, 3)
    s.now += OPEN_US
    s.claim("", "build")
    s.reclaim()
    assert state(s, "a") is State.HALF_OPEN
    s.claim("", "build")


def test_failures_of_the_work_do_not_open_the_breaker() -> None:
    s = begun(A, lifecycle="board", retry={"retries": 9, "delay_ms": 0})
    for _ in range(4):
        s.fail("error", step="build")
        s.start("build")
    assert (health(s, "a").failures, state(s, "a")) == (0, State.AVAILABLE)


def test_work_with_providers_keeps_the_retries_of_its_lifecycle() -> None:
    s = begun(A)
    assert s.fail("error", step="build").endswith("job_failed(error) task_failed(error)")
