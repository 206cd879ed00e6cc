"""The health of a provider after any sequence of ended runs."""

from hypothesis import given
from hypothesis import strategies as st

from detent.kernel import events as e
from detent.kernel.entities import Health, Resource, Run
from detent.kernel.provider_health import (
    MAX_FAILURES,
    OPEN_US,
    State,
    end_of,
    is_usable,
    of_provider,
    of_service,
    state_of,
    usable_from,
)

START = 1_700_000_000_000_000
RUN = Run("r", "j", "running", 1, 1, "w", START, cost=5)
#: By what a run shows: an answer, a failure of the service, or nothing.
ANSWERS = (e.RunSucceeded(), e.RunFailed("budget", "spent"))
FAILURES = (
    *(e.RunFailed("network", "503"), e.RunFailed("rate_limit", "529"), e.RunTimedOut("idle", "")),
    e.RunFailed("rate_limit", "429", reset_at=START - 1),
    e.RunFailed("rate_limit", "429", reset_at=START * 2),
)
NOTHING = (
    *(e.RunFailed("error", "bug"), e.RunCancelled("worker_lost"), e.RunTimedOut("run", "")),
    *(e.RunSucceeded("suspended"), e.RunFailed("needs_user", "401")),
)
gaps = st.integers(0, 2 * OPEN_US)


@given(st.lists(st.tuples(st.sampled_from((*ANSWERS, *FAILURES, *NOTHING)), gaps)))
def test_the_breaker_is_open_after_three_failures_in_a_row(ends: list[tuple[e.Event, int]]) -> None:
    health, now, in_a_row, opened, limited_until = Health(), START, 0, 0, 0
    for event, gap in ends:
        now += gap
        end = end_of(event, now)
        health = of_provider(of_service(health, end, now), RUN, end, now)
        if event in ANSWERS:
            in_a_row, opened = 0, 0
        elif event in FAILURES:
            in_a_row += 1
            opened = now + OPEN_US if in_a_row >= MAX_FAILURES else 0
        assert (health.failures, health.open_until) == (in_a_row, opened)
        assert health.limited_until >= limited_until
        limited_until = health.limited_until
        resource = Resource("a", (), service="s", health=health)
        for later in (now, limited_until, health.open_until, now + OPEN_US):
            free = later >= max(limited_until, health.open_until)
            assert is_usable(resource, later, 0) == free
            assert is_usable(resource, later, 1) == (free and not opened)
            assert usable_from(resource, later) == max(later, limited_until, health.open_until)
        assert (state_of(resource, now) is State.OPEN) == (opened > now)
    if ends:
        assert health.cost == 5 * health.runs > 0
