"""Checks of the quotas of projects: submissions in a time, stored bytes, cost per day."""

from functools import partial

from detent.engine import CommandRequest, CommandResult, Engine, Idempotency
from detent.errors import TooMany
from detent.ids import new_id
from detent.kernel import commands as c
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.limits import set_limits
from detent.testing.conformance.work_actions import (
    PERSON,
    claim,
    claim_one,
    complete,
    do,
    refusal,
    run_of,
    submit_job,
    submit_task,
    together,
)

DAY_S = 86_400


def jobs(count: int, project: str = "barn") -> list[CommandRequest]:
    made = [c.SubmitJob(new_id(), project, "dig") for _ in range(count)]
    return [CommandRequest(job, PERSON, fresh=True) for job in made]


def accepted(engine: Engine, count: int) -> int:
    return sum(isinstance(each, CommandResult) for each in engine.execute(jobs(count)))


@check
def submissions_over_the_quota_are_refused_and_nothing_is_stored(case: Case) -> None:
    set_limits(case, **{"project:barn": {"submit_rate": 5, "submit_per_s": 60}})
    results = case.engine.execute([*jobs(8), *jobs(3, "field")])
    assert [isinstance(each, CommandResult) for each in results] == [True] * 5 + [False] * 3 + [
        True
    ] * 3
    refused = results[5]
    assert isinstance(refused, TooMany)
    assert (refused.code, refused.retry_after_s) == ("submission_quota", 60)
    case.clock.advance(seconds=58)
    (late,) = case.engine.execute(jobs(1))
    assert isinstance(late, TooMany)
    assert late.retry_after_s in (1, 2)
    assert len(claim(case.engine, 20)) == 8
    case.clock.advance(seconds=3)
    assert accepted(case.engine, 8) == 5


@check
def the_quota_of_submissions_holds_for_all_processes(case: Case) -> None:
    set_limits(case, **{"project:barn": {"submit_rate": 10, "submit_per_s": 60}})
    counts = together(*[partial(accepted, engine, 4) for engine in case.others(4)])
    assert sum(counts) == 10
    assert len(claim(case.engine, 20)) == 10


@check
def a_repeated_submission_counts_once(case: Case) -> None:
    set_limits(case, **{"project:barn": {"submit_rate": 1, "submit_per_s": 60}})
    key = Idempotency("barn", "once", "digest")
    first = do(case.engine, c.SubmitJob(new_id(), "barn", "dig"), key=key)
    assert do(case.engine, c.SubmitJob(new_id(), "barn", "dig"), key=key) == first
    assert refusal(case.engine, c.SubmitJob(new_id(), "barn", "dig")) == "submission_quota"


@check
def work_below_running_work_is_not_counted(case: Case) -> None:
    set_limits(case, **{"project:p": {"submit_rate": 1, "submit_per_s": 60}})
    parent = submit_task(case.engine)
    for _ in range(3):
        submit_task(case.engine, parent_id=parent)
    assert refusal(case.engine, c.SubmitJob(new_id(), "p", "dig")) == "submission_quota"


@check
def payloads_and_evidence_over_the_quota_are_refused(case: Case) -> None:
    set_limits(case, **{"project:barn": {"stored_bytes": 1_000}})
    submit_job(case.engine, project="barn", payload="x" * 598)
    large = c.SubmitJob(new_id(), "barn", "dig", payload="x" * 399)
    assert refusal(case.engine, large) == "storage_quota"
    held = claim_one(case.engine)
    add = partial(c.AddEvidence, held.grant, run_of(held))
    do(case.engine, add("a.log", "log", "0" * 64, 400))
    assert refusal(case.engine, add("b.log", "log", "1" * 64, 1)) == "storage_quota"
    with case.store.read() as view:
        assert view.stored_bytes("barn") == 1_000
        assert view.stored_bytes("field") == 0
    assert complete(case.engine, held) == "completed"
    submit_job(case.engine, project="field", payload="x" * 2_000)


@check
def a_project_over_its_cost_per_day_waits_for_the_next(case: Case) -> None:
    """Work that runs goes on; other projects do not wait."""
    set_limits(case, **{"project:barn": {"cost_per_day": 100}})
    ids = [submit_job(case.engine, project="barn") for _ in range(4)]
    held = claim(case.engine, 2)
    do(case.engine, c.ChargeRun(held[0].grant, run_of(held[0]), 60))
    do(case.engine, c.ChargeRun(held[0].grant, run_of(held[0]), 60))
    assert claim_one(case.engine).job.id == ids[2]
    do(case.engine, c.ChargeRun(held[1].grant, run_of(held[1]), 40))
    free = submit_job(case.engine, project="field")
    assert [each.job.id for each in claim(case.another(), 5)] == [free]
    assert complete(case.engine, held[0]) == "completed"
    set_limits(case, **{"project:barn": {"cost_per_day": 101}})
    assert claim_one(case.engine).job.id == ids[3], "a raised quota holds immediately"
    set_limits(case, **{"project:barn": {"cost_per_day": 100}})
    tomorrow = submit_job(case.engine, project="barn")
    assert claim(case.engine, 5) == []
    case.clock.advance(seconds=DAY_S)
    assert [each.job.id for each in claim(case.engine, 5)] == [tomorrow]
