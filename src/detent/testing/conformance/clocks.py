"""Checks of the store's clock: one write with a fast clock, a clock set back, and the reset."""

from detent.engine import Engine
from detent.kernel import commands as c
from detent.store.clock import SLEW
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    SECOND_US,
    claim,
    claim_one,
    complete,
    do,
    job_of,
    keep,
    run_of,
    submit_job,
    suspend,
)

HOUR_US = 3_600 * SECOND_US


def now(engine: Engine) -> int:
    with engine.store.read() as view:
        return view.now()


def ahead(engine: Engine) -> int:
    with engine.store.read() as view:
        return view.ahead()


def write_an_hour_ahead(case: Case) -> int:
    """One submission by a process whose clock is an hour fast; the time that it wrote."""
    true = case.clock()
    case.clock.set(true + HOUR_US)
    submit_job(case.engine, intent="other")
    case.clock.set(true)
    return true + HOUR_US


@check
def time_goes_on_after_one_write_with_a_fast_clock(case: Case) -> None:
    """In the process that wrote it, and in those that were there before or come later."""
    first, second = case.others(2)
    assert now(first) == now(second) == case.clock()
    at = write_an_hour_ahead(case)
    for each in (case.engine, first, second):
        assert (now(each), ahead(each)) == (at, HOUR_US)
    case.clock.advance(seconds=100)
    for each in (case.engine, first):
        assert now(each) == at + 100 * SECOND_US - 100 * SECOND_US // SLEW
    submit_job(second)
    assert case.others(3)[2] is not first
    assert now(case.others(3)[2]) >= at


@check
def leases_retries_and_timers_go_on_after_one_write_with_a_fast_clock(case: Case) -> None:
    write_an_hour_ahead(case)
    for _ in range(3):
        submit_job(case.engine)
    lost, failed, asleep = claim(case.engine, 3, intents=["dig"])
    do(case.engine, c.FailRun(failed.grant, run_of(failed), "network", "no route"))
    due_at = now(case.engine) + 5 * SECOND_US
    suspend(case.engine, asleep, "nap", "timer", due_at=due_at)
    case.clock.advance(seconds=6)
    keep(case.engine)
    assert job_of(case.store, asleep.job.id).state == "queued"
    case.clock.advance(seconds=25)
    keep(case.engine)
    back = {each.job.id for each in claim(case.engine, 3, intents=["dig"])}
    assert back == {lost.job.id, failed.job.id, asleep.job.id}


@check
def time_never_goes_back_and_is_the_wall_clocks_when_that_has_caught_up(case: Case) -> None:
    at = write_an_hour_ahead(case)
    seen = [now(case.engine)]
    for _ in range(20):
        case.clock.advance(seconds=1)
        seen.append(now(case.engine))
        case.clock.advance(seconds=-0.25)
        seen.append(now(case.engine))
    assert seen == sorted(seen)
    assert seen[-1] > at
    case.clock.set(at + HOUR_US)
    assert (now(case.engine), ahead(case.engine)) == (at + HOUR_US, 0)
    case.clock.advance(seconds=1)
    assert now(case.engine) == case.clock()


@check
def an_offset_shrinks_by_itself(case: Case) -> None:
    submit_job(case.engine)
    at = case.clock()
    case.clock.advance(seconds=-1)
    assert now(case.engine) == at
    for _ in range(SLEW + 1):
        case.clock.advance(seconds=1)
        now(case.engine)
    assert ahead(case.engine) == 0


@check
def a_fast_write_without_an_event_counts(case: Case) -> None:
    """A renewed lease or an election has no event, and what it says is due in the same time."""
    other = case.another()
    case.clock.advance(seconds=HOUR_US // SECOND_US)
    with case.store.write() as tx:
        tx.put_rows("system_state", {"keeper": {"name": "fast", "until": tx.now()}})
    case.clock.set(case.clock() - HOUR_US)
    assert ahead(other) == HOUR_US


@check
def a_reset_brings_the_wall_clocks_time_back(case: Case) -> None:
    """In every process, without a change to the log; leases last as long as they would have."""
    other = case.another()
    write_an_hour_ahead(case)
    submit_job(case.engine)
    claimed = claim_one(case.engine, intents=["dig"])
    with case.store.read() as view:
        before = view.events(0, 100)
    with case.store.write() as tx:
        assert tx.reset_clock() == HOUR_US
    for each in (case.engine, other):
        assert (now(each), ahead(each)) == (case.clock(), 0)
    with case.store.write() as tx:
        assert tx.reset_clock() == 0
    with case.store.read() as view:
        assert view.events(0, 100) == before
    case.clock.advance(seconds=29)
    keep(case.engine)
    assert job_of(case.store, claimed.job.id).fence == 1
    complete(case.engine, claimed)
    submit_job(case.engine)
    with case.store.read() as view:
        times = [each.at for each in view.events(before[-1].position, 100)]
    assert times == sorted(times)
    assert max(times) == case.clock()
