"""Checks of plans in the queue: a worker claims them if it can run their next steps."""

from typing import Any

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.store.types import Query
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.limits import set_limits
from detent.testing.conformance.work_actions import claim, claim_one, do, job_of, keep, submit_job

PLANNED = "made"


def planned(case: Case, *rows: dict[str, Any], **fields: Any) -> str:
    """A job of the intent `made` with a plan of these steps."""
    options = {"plan": {"steps": list(rows)}}
    return submit_job(case.engine, intent=PLANNED, options=options, **fields)


def step(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "needs": list(needs), **more}


def start(case: Case, claimed: Claimed, name: str) -> str:
    run: str = do(case.engine, c.StartStep(claimed.grant, name))
    return run


def finish(case: Case, claimed: Claimed, name: str) -> None:
    do(case.engine, c.CompleteRun(claimed.grant, start(case, claimed, name)))


def refused(case: Case, *intents: str) -> bool:
    """Whether a worker with these intents gets nothing."""
    return claim(case.engine, 10, intents=list(intents)) == []


def limit(case: Case, rows: dict[str, Any]) -> None:
    set_limits(case, **rows)


@check
def a_plan_is_claimed_by_workers_that_can_run_a_step_of_its_frontier(case: Case) -> None:
    for intents in (["saw"], ["sow"], ["paint", "sow"]):
        job = planned(case, step("saw"), step("sow"), step("dig", "saw", "sow"))
        assert refused(case, "dig", "paint")
        assert refused(case, PLANNED), "the intent of the job runs none of its steps"
        claimed = claim_one(case.engine, intents=intents)
        assert claimed.job.id == job
        do(case.engine, c.CancelJob(job))
        do(case.engine, c.ConfirmCancel(claimed.grant))


@check
def a_plan_that_is_handed_back_goes_to_the_workers_of_its_next_steps(case: Case) -> None:
    job = planned(case, step("saw"), step("sow", "saw"), step("glue", "sow", intent="saw"))
    for name, intent in (("saw", "saw"), ("sow", "sow"), ("glue", "saw")):
        other = {"saw": "sow", "sow": "saw"}[intent]
        assert refused(case, other, "made")
        claimed = claim_one(case.another(), intents=[intent])
        assert (claimed.job.attempt, claimed.job.failures) == (1, {})
        finish(case, claimed, name)
        if name != "glue":
            assert do(case.engine, c.HandBack(claimed.grant)) == "queued"
    assert job_of(case.store, job).state == "completed"


@check
def a_job_that_needs_a_planner_is_claimed_by_workers_of_its_own_intent(case: Case) -> None:
    submit_job(case.engine, intent=PLANNED, options={"planner": True})
    assert refused(case, "saw")
    first = claim_one(case.engine, intents=[PLANNED])
    do(case.engine, c.RecordPlan(first.grant, {"steps": [step("saw")]}))
    do(case.engine, c.HandBack(first.grant))
    assert refused(case, PLANNED)
    finish(case, claim_one(case.engine, intents=["saw"]), "saw")


@check
def pauses_and_limits_of_a_plan_are_those_of_its_own_intent(case: Case) -> None:
    job = planned(case, step("saw"))
    for row in ({"paused": True}, {"running": 0}):
        limit(case, {f"intent:{PLANNED}": row})
        assert refused(case, "saw")
    limit(case, {f"intent:{PLANNED}": None, "intent:saw": {"paused": True}})
    assert claim_one(case.engine, intents=["saw"]).job.id == job


@check
def a_step_without_a_free_resource_brings_no_worker_until_there_is_one(case: Case) -> None:
    """Else its worker would claim the job and hand it back again and again."""
    phone = {"capabilities": ["phone"], "healthy": False}
    case.engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": phone}))
    planned(case, step("call", capabilities_required=["phone"]), step("sow"))
    do(case.engine, c.HandBack(claim_one(case.engine, intents=["call"]).grant))
    assert refused(case, "call")
    case.clock.advance(seconds=6)
    keep(case.engine)
    assert refused(case, "call")
    well = {**phone, "healthy": True}
    case.engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": well}))
    case.clock.advance(seconds=60)
    keep(case.engine)
    finish(case, claim_one(case.engine, intents=["call"]), "call")


@check
def a_step_that_waits_for_its_retry_brings_no_worker_before_its_time(case: Case) -> None:
    job = planned(case, step("saw"), step("sow"))
    claimed = claim_one(case.engine, intents=["saw"])
    failed = c.FailRun(claimed.grant, start(case, claimed, "saw"), "network", "no route")
    do(case.engine, failed)
    assert do(case.engine, c.HandBack(claimed.grant)) == "queued"
    assert refused(case, "saw")
    case.clock.advance(seconds=29)
    keep(case.engine)
    assert refused(case, "saw")
    case.clock.advance(seconds=2)
    keep(case.engine)
    again = claim_one(case.engine, intents=["saw"])
    with case.store.read() as view:
        assert list(view.waits([job])) == [], "a claim checks all steps again"
    finish(case, again, "saw")


@check
def a_frontier_of_very_many_intents_still_has_a_lane(case: Case) -> None:
    """The key of an index is limited in size; the first of the intents are named."""
    names = [f"{number:03}-{'ж' * 96}" for number in range(60)]
    job = planned(case, *(step(name) for name in names))
    with case.store.read() as view:
        (row,) = view.page(Query("queue", {"job_id": job}))
    assert len(row["lane"].encode()) < 1_100
    assert claim_one(case.engine, intents=names[:1]).job.id == job
