"""Checks of providers: reports of runs, also of many writers in parallel, change their health."""

from functools import partial

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.kernel.provider_health import MAX_FAILURES, OPEN_US, State, state_of
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    SECOND_US,
    claim,
    do,
    outcome,
    submit_job,
    together,
)

WRITERS = 4
NO_RESOURCE = "no_resource"


def providers(case: Case, *names: str, **health: int) -> None:
    """Providers of one service, each with enough capacity for every step."""
    row = {"capabilities": [], "capacity": 100, "service": "models", "health": health}
    case.engine.transaction(lambda tx: tx.put_rows("resources", dict.fromkeys(names, row)))


def claimed_jobs(case: Case, *names: str) -> list[Claimed]:
    """Jobs whose only step names these providers, each claimed."""
    for _ in range(WRITERS):
        submit_job(case.engine, options={"providers": list(names)})
    return claim(case.engine, WRITERS)


def start_all(case: Case, held: list[Claimed]) -> list[str]:
    """Start the steps on different stores at the same time: the run, or why there is none."""
    starts = [c.StartStep(each.grant, "dig") for each in held]
    engines = case.others(len(starts))
    work = zip(engines, starts, strict=True)
    return together(*(partial(outcome, engine, command) for engine, command in work))


def states(case: Case) -> dict[str, str]:
    with case.store.read() as view:
        return {each.id: state_of(each, view.now()).value for each in view.resources()}


@check
def a_rate_limit_is_stored_with_the_end_of_its_run(case: Case) -> None:
    providers(case, "first", "second")
    held = claimed_jobs(case, "first", "second")[0]
    run = do(case.engine, c.StartStep(held.grant, "dig"))
    reset_at = case.clock() + 600 * SECOND_US
    do(case.engine, c.FailRun(held.grant, run, "rate_limit", "429", reset_at=reset_at))
    assert states(case) == {"first": State.LIMITED, "second": State.AVAILABLE}
    do(case.another(), c.StartStep(held.grant, "dig"))
    with case.store.read() as view:
        (step,) = view.steps([held.job.id])
        assert step.resource == "second"
        first = next(each.health for each in view.resources() if each.id == "first")
    assert (first.limited_until, first.runs, first.limits) == (reset_at, 1, 1)


@check
def a_half_open_breaker_admits_one_step_of_many_writers(case: Case) -> None:
    providers(case, "first", "second", failures=MAX_FAILURES, open_until=1)
    held = claimed_jobs(case, "first", "second")
    started = start_all(case, held)
    assert started.count(NO_RESOURCE) == WRITERS - 1
    trial = next(each for each in started if each != NO_RESOURCE)
    owner = held[started.index(trial)]
    do(case.engine, c.FailRun(owner.grant, trial, "network", "503"))
    assert set(states(case).values()) == {State.OPEN}
    case.clock.advance(seconds=OPEN_US // SECOND_US + 1)
    assert set(states(case).values()) == {State.HALF_OPEN}


@check
def failures_of_many_writers_are_all_counted(case: Case) -> None:
    providers(case, "first")
    held = claimed_jobs(case, "first")
    runs = start_all(case, held)
    ends = [
        c.FailRun(each.grant, run, "network", "503") for each, run in zip(held, runs, strict=True)
    ]
    work = zip(case.others(WRITERS), ends, strict=True)
    together(*(partial(outcome, engine, command) for engine, command in work))
    with case.store.read() as view:
        (first,) = view.resources()
    assert (first.health.failures, first.health.runs) == (WRITERS, WRITERS)
    assert first.health.open_until >= case.clock() + OPEN_US - SECOND_US
