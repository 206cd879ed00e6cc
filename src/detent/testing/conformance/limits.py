"""Checks of limits: concurrency limits on an intent, a project or a key, rates, and pauses."""

from functools import partial
from typing import Any

from detent.engine import Claimed, Engine
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.commands import limit_commands as lc
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim,
    claim_one,
    complete,
    do,
    keep,
    run_of,
    submit_job,
    submit_task,
    suspend,
    task_of,
    together,
)

#: By the name of a limit, the fields of a job that it applies to.
UNDER = {
    "intent:saw": {"intent": "saw"},
    "project:barn": {"project": "barn"},
    "key:ladder": {"concurrency_key": "ladder"},
}


#: What checks set as the operator.
OPERATOR = c.Actor("operator")


def set_limits(case: Case, **rows: Any) -> None:
    """Bring limits to what is wanted by name; None ends whatever holds under the name."""
    for name, wanted in rows.items():
        numbers = {field: value for field, value in (wanted or {}).items() if field != "paused"}
        paused = bool(wanted and wanted.get("paused"))
        for command in (
            lc.SetLimit(name, **numbers) if numbers else lc.EndLimit(name),
            lc.SetPause(name) if paused else lc.EndPause(name),
        ):
            case.engine.do(command, OPERATOR)


def claimed_now(case: Case) -> list[Claimed]:
    """What eight claimers get who ask for more than they may have, at the same moment."""
    hands = together(*[partial(claim, engine, 5) for engine in case.others(8)])
    return [each for hand in hands for each in hand]


def limit_holds(case: Case, name: str) -> None:
    for _ in range(12):
        submit_job(case.engine, **UNDER[name])
    set_limits(case, **{name: {"running": 3}})
    running = claimed_now(case)
    assert len(running) == 3
    complete(case.engine, running.pop())
    suspend(case.engine, running.pop(), "pause", "signal", needs=("go",))
    running += claimed_now(case)
    assert len(running) == 3, "an ended or resting job still counts, or too many were let in"
    with case.store.write() as tx:
        assert tx.lease_counts([name]) == {name: 3}
    set_limits(case, **{name: None})


@check
def an_intents_limit_holds(case: Case) -> None:
    limit_holds(case, "intent:saw")
    assert len(claim(case.engine, 20)) == 7


@check
def a_projects_limit_holds(case: Case) -> None:
    limit_holds(case, "project:barn")
    assert len(claim(case.engine, 20)) == 7


@check
def a_keys_limit_holds(case: Case) -> None:
    limit_holds(case, "key:ladder")


@check
def a_key_without_a_limit_admits_one_at_a_time(case: Case) -> None:
    ids = [submit_job(case.engine, concurrency_key="ladder") for _ in range(4)]
    done = []
    while running := claimed_now(case):
        assert len(running) == 1
        complete(case.engine, running[0])
        done.append(running[0].job.id)
    assert sorted(done) == sorted(ids)


@check
def a_lost_lease_frees_its_place(case: Case) -> None:
    submit_job(case.engine, concurrency_key="ladder")
    first = claim_one(case.engine, "w1")
    assert claim(case.engine, 5, "w2") == []
    case.clock.advance(us=case.engine.lifetimes.lease_us)
    keep(case.engine)
    assert claim_one(case.engine, "w2").job.id == first.job.id


@check
def work_behind_a_full_limit_is_still_claimed(case: Case) -> None:
    """A claimer that asks for one is not kept from it by older work that has to wait."""
    set_limits(case, **{"intent:saw": {"running": 1}, "project:barn": {"running": 1}})
    for fields in (*UNDER.values(), {"concurrency_key": "rope"}):
        for _ in range(3):
            submit_job(case.engine, **fields)
            case.clock.advance(us=1)
    free = submit_job(case.engine)
    got = [claim_one(case.engine) for _ in range(5)]
    assert got[-1].job.id == free
    assert claim(case.engine, 20) == []


@check
def one_claim_fills_every_place_it_may(case: Case) -> None:
    for number in range(6):
        submit_job(case.engine, concurrency_key=f"rope-{number % 3}")
        case.clock.advance(us=1)
    assert len(claim(case.engine, 3)) == 3


@check
def a_rate_holds_and_its_window_passes(case: Case) -> None:
    """A rate limits the starts in each window, for all workers; the end of a job does not count."""
    for name, fields in UNDER.items():
        set_limits(case, **{name: {"rate": 4, "per_s": 60, "running": 100}})
        for _ in range(10):
            submit_job(case.engine, **fields)
        started = claimed_now(case)
        assert len(started) == 4
        complete(case.engine, started.pop())
        assert claimed_now(case) == []
        free = submit_job(case.engine)
        assert claim_one(case.engine).job.id == free, "a job without a rate must not wait"
        case.clock.advance(seconds=60)
        assert len(claimed_now(case)) == 4
        set_limits(case, **{name: None})
        claim(case.engine, 20)  # the rest, out of the next one's way


@check
def what_is_paused_is_not_claimed(case: Case) -> None:
    for name, fields in UNDER.items():
        job = submit_job(case.engine, **fields)
        other = submit_job(case.engine)
        set_limits(case, **{name: {"paused": True}})
        assert [each.job.id for each in claimed_now(case)] == [other]
        set_limits(case, **{name: None})
        assert claim_one(case.engine).job.id == job


@check
def everything_can_be_paused(case: Case) -> None:
    job = submit_job(case.engine)
    held = submit_job(case.engine, priority="P0")
    claimed = claim_one(case.engine)
    assert claimed.job.id == held
    set_limits(case, all={"paused": True})
    assert claimed_now(case) == []
    do(case.engine, c.ReportProgress(claimed.grant, claimed.job.run_id or "", 0.5))
    assert complete(case.engine, claimed) == "completed"
    set_limits(case, all=None)
    assert claim_one(case.engine).job.id == job


# ---- money -----------------------------------------------------------------------------------


@check
def money_is_checked_before_a_start(case: Case) -> None:
    """What others at work hold comes back when they end; what is spent must be raised."""
    parent = submit_task(case.engine, queue=True, budget=5)
    top = claim_one(case.engine)
    first, second = (submit_task(case.engine, parent_id=parent, budget=3) for _ in range(2))
    third = submit_task(case.engine, parent_id=parent, budget=3)
    held = {each.task.id: each for each in claim(case.engine, 2) if each.task is not None}
    assert held.keys() == {first, second}
    assert claim(case.engine, 5) == [], "all of the money is held"
    assert task_of(case.store, third).blocked_by == "budget"
    complete(case.engine, held[first])
    complete(case.engine, top)
    case.clock.advance(seconds=6)
    keep(case.engine)
    (again,) = claim(case.engine, 5)
    assert again.task is not None
    assert again.task.id == third
    do(case.engine, c.ChargeRun(again.grant, again.job.run_id or "", 5))
    fourth = submit_task(case.engine, parent_id=parent)
    assert claim(case.engine, 5) == [], "all of the money is spent"
    do(case.engine, c.EditTask(parent, {"title": "dearer"}, 9))
    (last,) = claim(case.engine, 5)
    assert last.job.task_id == fourth


@check
def money_that_is_reserved_for_a_run_is_promised_to_no_other(case: Case) -> None:
    """A subtask that is added while others run gets what is left, wherever it is claimed."""
    root = submit_task(case.engine, budget=100, queue=False)
    submit_task(case.engine, parent_id=root)
    first = claim_one(case.engine)
    assert do(case.engine, c.ReserveFunds(first.grant, run_of(first))) == 100
    submit_task(case.engine, parent_id=root)
    other = case.another()
    assert claim(other) == [], "all of it is reserved"
    do(case.engine, c.ChargeRun(first.grant, run_of(first), 40))
    assert do(other, c.ReserveFunds(first.grant, run_of(first))) == 30, "half of the rest"
    complete(case.engine, first)
    case.clock.advance(seconds=10)
    keep(case.engine)
    second = claim_one(other)
    assert do(other, c.ReserveFunds(second.grant, run_of(second))) == 60
    with case.store.read() as view:
        (run,) = view.runs([run_of(second)])
    assert (run.reserved, run.cost) == (60, 0)


# ---- events ----------------------------------------------------------------------------------


def limit_events(case: Case) -> list[tuple[str | None, str, str]]:
    """The events about limits: of which, what, by whom."""
    with case.store.read() as view:
        events = view.events(0, 1_000, stream=e.SYSTEM)
    return [(each.subject, each.name, each.actor) for each in events]


@check
def pauses_and_limits_are_events(case: Case) -> None:
    name = "project:barn"
    set_limits(case, **{name: {"running": 2}})
    case.engine.do(lc.SetPause(name, "the roof leaks"), OPERATOR)
    case.engine.do(lc.SetPause(name, "the roof leaks"), OPERATOR)  # nothing new
    with case.store.read() as view:
        row = view.rows("limits")[name]
        assert view.version_of(e.SYSTEM) == 2
        (_, paused) = view.events(0, 10, stream=e.SYSTEM)
    assert (row["running"], row["paused"], row["paused_by"]) == (2, True, "operator")
    assert (row["reason"], row["paused_at"]) == ("the roof leaks", paused.at)
    assert paused.project == "barn"
    set_limits(case, **{name: None})
    with case.store.read() as view:
        assert view.rows("limits") == {}
        assert view.version_of("nothing") == 0
    names = ("limit_set", "pause_set", "limit_ended", "pause_ended")
    assert limit_events(case) == [(name, each, "operator") for each in names]


@check
def a_pause_ends_with_an_event_before_anything_starts(case: Case) -> None:
    submit_job(case.engine, intent="saw")
    case.engine.do(lc.SetPause("intent:saw", for_us=60_000_000), OPERATOR)
    assert claim(case.engine) == []
    case.clock.set(case.clock.now + 59_999_999)
    assert case.engine.expire_pauses() == 0
    assert claim(case.engine) == []
    case.clock.set(case.clock.now + 1)
    assert len(claim(case.engine)) == 1
    with case.store.read() as view:
        log = [each.name for each in view.events(0, 100)]
        assert view.rows("limits") == {}
    assert log.index("pause_ended") < log.index("job_running")
    assert limit_events(case)[-1] == ("intent:saw", "pause_ended", "clock")
    assert case.engine.expire_pauses() == 0


@check
def nothing_starts_between_a_pause_and_its_end(case: Case) -> None:
    """Whatever claims at the same moment as the pause begins."""
    for _ in range(60):
        submit_job(case.engine, intent="saw")

    def pausing() -> None:
        for _ in range(5):
            case.engine.do(lc.SetPause("intent:saw"), OPERATOR)
            case.engine.do(lc.EndPause("intent:saw"), OPERATOR)

    def claiming(engine: Engine) -> None:
        for _ in range(10):
            claim(engine)

    together(pausing, *[partial(claiming, engine) for engine in case.others(3)])
    case.engine.do(lc.SetPause("all"), OPERATOR)
    with case.store.read() as view:
        log = [each.name for each in view.events(0, 1_000)]
    paused = False
    for name in log:
        paused = (paused or name == "pause_set") and name != "pause_ended"
        assert not (paused and name == "job_running"), "work has started under a pause"
    assert log.count("pause_set") == 6
