"""Checks of fences: only the holder of the newest claim can report, renew or be reclaimed."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim,
    claim_one,
    complete,
    do,
    job_of,
    keep,
    names,
    outcome,
    refusal,
    submit_job,
    submit_task,
    suspend,
    together,
)

PLAN = {"steps": [{"name": "dig"}, {"name": "fill", "needs": ["dig"]}]}
NEEDS_PHONE = {"steps": [{"name": "call", "capabilities_required": ["phone"]}]}

RUN = "<the run>"
#: Every kind of report with its fields after the grant.
REPORTS: Mapping[type[c.Report], tuple[Any, ...]] = {
    c.RecordCheckpoint: ("page-1", {"read": True}),
    c.BeginEffect: ("mail", "manual"),
    c.SuspendRun: (RUN, "pause", "signal", ("go",)),
    c.RequestPermission: (RUN, "permission-1", None, {"text": "May I?"}),
    c.CompleteRun: (RUN, "done"),
    c.FailRun: (RUN, "network", "no route"),
    c.TimeOutRun: (RUN,),
    c.ConfirmCancel: (),
    c.HandBack: (),
    c.ChargeRun: (RUN, 5),
    c.ReserveFunds: (RUN,),
    c.ReportProgress: (RUN, 0.5, "half"),
    c.AddEvidence: (RUN, "a.log", "log", "0" * 64, 9),
    c.OpenSession: ("session-1",),
    c.RecordPlan: (PLAN,),
    c.FailPlan: ("network", "no route"),
    c.StartStep: ("dig",),
    c.RestPlan: (),
}
#: What a task must bring along for the report to be fit.
OPTIONS: Mapping[type[c.Report], Mapping[str, Any]] = {
    c.RecordPlan: {"planner": "surveyor"},
    c.FailPlan: {"planner": "surveyor"},
    c.StartStep: {"plan": PLAN},
    c.RestPlan: {"plan": NEEDS_PHONE},
}


def lose(case: Case, claimed: Claimed) -> None:
    """The lease runs out and the keeper takes the job away."""
    case.clock.advance(us=case.engine.lifetimes.lease_us)
    keep(case.engine)
    assert job_of(case.store, claimed.job.id).worker is None


def twice_claimed(case: Case, kind: type[c.Report]) -> tuple[Claimed, Claimed]:
    """A job whose first worker was lost and whose second one is at work."""
    task = submit_task(case.engine, intent=kind.__name__, options=OPTIONS.get(kind, {}))
    able = [kind.__name__, "dig", "call"]
    first = claim_one(case.engine, "w1", intents=able)
    lose(case, first)
    second = claim_one(case.engine, "w2", intents=able)
    if kind is c.ConfirmCancel:
        assert do(case.engine, c.CancelTask(task)) == "requested"
    return first, second


def report(kind: Any, grant: c.Grant, run: str | None) -> c.Command:
    fields = [run or "" if each is RUN else each for each in REPORTS[kind]]
    command: c.Command = kind(grant, *fields)
    return command


@check
def a_stale_fence_is_refused_for_every_report(case: Case) -> None:
    """It changes nothing; the holder's report is accepted until the end of the job."""
    kinds = {each.__name__ for each in c.Report.__subclasses__()}
    assert {kind.__name__ for kind in REPORTS} == kinds, "a kind of report is not checked"
    phone = {"capabilities": ["phone"], "healthy": False}
    case.engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": phone}))
    for kind in REPORTS:
        first, second = twice_claimed(case, kind)
        grant, run = second.grant, second.job.run_id
        stale = [report(kind, first.grant, each) for each in (first.job.run_id, run)]
        stale.append(report(kind, grant._replace(nonce="guessed"), run))
        stale.append(report(kind, grant._replace(fence=grant.fence + 1), run))
        refuse_all(case, stale)
        do(case.engine, report(kind, grant, run))
        end(case, second)
        refuse_all(case, [*stale, report(kind, grant, run)])


def refuse_all(case: Case, commands: list[c.Command]) -> None:
    before = picture(case.store)
    for command in commands:
        assert refusal(case.engine, command) == "stale_fence", command
    assert picture(case.store) == before


def end(case: Case, claimed: Claimed) -> None:
    """Whatever state the job is in, it is cancelled if it has not ended."""
    if outcome(case.engine, c.CancelJob(claimed.job.id)) == "requested":
        do(case.engine, c.ConfirmCancel(claimed.grant))
    assert job_of(case.store, claimed.job.id).ended_at is not None


@check
def a_heartbeat_renews_only_what_is_still_held(case: Case) -> None:
    kept, done, asleep, lost = (submit_job(case.engine, intent=name) for name in "abcd")
    mine = {each.job.id: each for each in claim(case.engine, 4, "w1")}
    grants = [each.grant[:2] for each in mine.values()]
    complete(case.engine, mine[done])
    suspend(case.engine, mine[asleep], "pause", "signal", needs=("go",))
    do(case.engine, c.HandBack(mine[lost].grant))
    claim_one(case.engine, "w2", intents=["d"])
    assert case.engine.renew("w1", grants) == {mine[kept].grant[:2]}
    assert case.engine.renew("w2", grants) == set()
    assert case.engine.renew("w1", [(kept, 7), ("missing", 1)]) == set()
    assert case.engine.renew("w1", []) == set()


@check
def a_job_that_is_not_renewed_is_lost_alone(case: Case) -> None:
    """Jobs that were claimed together are renewed one by one."""
    for _ in range(3):
        submit_job(case.engine)
    lost, *kept = claim(case.engine, 3)
    case.clock.advance(us=case.engine.lifetimes.lease_us // 2)
    grants = [each.grant[:2] for each in kept]
    assert case.engine.renew("w1", grants) == set(grants)
    case.clock.advance(us=case.engine.lifetimes.lease_us // 2 + 1)
    with case.store.write() as tx:
        assert list(tx.due(10, tx.now()).leases) == [lost.grant[:2]]
    assert keep(case.engine) == 1
    assert case.engine.renew("w1", [lost.grant[:2], *grants]) == set(grants)


@check
def a_renewed_lease_is_not_due(case: Case) -> None:
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    lease_us = case.engine.lifetimes.lease_us
    case.clock.advance(us=lease_us - 1)
    assert keep(case.engine) == 0
    assert case.engine.renew("w1", [claimed.grant[:2]]) == {claimed.grant[:2]}
    case.clock.advance(us=lease_us - 1)
    assert keep(case.engine) == 0
    case.clock.advance(us=1)
    with case.store.write() as tx:
        assert list(tx.due(10, tx.now()).leases) == [claimed.grant[:2]]


@check
def a_heartbeat_leaves_no_event(case: Case) -> None:
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    before = picture(case.store)["log"]
    case.engine.renew("w1", [claimed.grant[:2]])
    assert picture(case.store)["log"] == before


@check
def heartbeats_come_through_while_others_write(case: Case) -> None:
    """On one store, from a thread of their own."""
    submit_job(case.engine)
    claimed = claim_one(case.engine)

    def beat() -> set[int]:
        return {len(case.engine.renew("w1", [claimed.grant[:2]])) for _ in range(20)}

    def write() -> set[int]:
        return {len(submit_job(case.engine)) > 0 for _ in range(20)}

    assert together(beat, write, write) == [{1}, {True}, {True}]
    assert complete(case.engine, claimed) == "completed"


@check
def a_reclaim_is_guarded_by_the_fence(case: Case) -> None:
    """A keeper that acts on what it saw before the next claim takes nothing away."""
    job = submit_job(case.engine)
    first = claim_one(case.engine, "w1")
    lose(case, first)
    second = claim_one(case.engine, "w2")
    before = picture(case.store)
    assert refusal(case.engine, c.ReclaimJob(job, first.grant.fence)) == "not_due"
    assert picture(case.store) == before
    assert complete(case.engine, second) == "completed"
    assert refusal(case.engine, c.ReclaimJob(job, second.grant.fence)) == "not_due"


@check
def keepers_at_the_same_time_reclaim_once(case: Case) -> None:
    ids = [submit_job(case.engine) for _ in range(20)]
    assert len(claim(case.engine, 20)) == 20
    case.clock.advance(us=case.engine.lifetimes.lease_us)
    together(*[partial(keep, engine) for engine in case.others(4)])
    with case.store.read() as view:
        for job, _ in view.jobs(ids):
            assert (job.state, job.lost) == ("queued", 1)
            assert names(view, job.id).count("job_requeued") == 1
    assert {each.job.attempt for each in claim(case.engine, 20)} == {2}


@check
def a_fence_only_rises(case: Case) -> None:
    submit_job(case.engine)
    fences = []
    for _ in range(3):
        claimed = claim_one(case.engine)
        fences.append(claimed.grant.fence)
        do(case.engine, c.HandBack(claimed.grant))
    claimed = claim_one(case.engine)
    suspend(case.engine, claimed, "pause", "signal", needs=("go",))
    do(case.engine, c.SendSignal(claimed.job.id, "go"))
    fences += [claimed.grant.fence, claim_one(case.engine).grant.fence]
    assert fences == [1, 2, 3, 4, 5]
