"""Checks of claims: each job is claimed once, in the order of rank, within the filter."""

from collections.abc import Callable

from detent.engine import Claimed, Engine
from detent.kernel import commands as c
from detent.kernel.priority import HOUR_US, OFFSETS_US, Priority
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim,
    claim_one,
    complete,
    do,
    job_of,
    keep,
    outcome,
    refusal,
    submit_job,
    submit_task,
    suspend,
    together,
)

CLAIMERS = 8
JOBS = 60


def drain(engine: Engine, worker: str) -> Callable[[], list[Claimed]]:
    """Claims a few at a time until nothing is left."""

    def work() -> list[Claimed]:
        taken: list[Claimed] = []
        while got := claim(engine, 3, worker):
            taken += got
        return taken

    return work


def claim_all_concurrently(engines: list[Engine]) -> None:
    ids = {submit_job(engines[0]) for _ in range(JOBS)}
    hands = together(*[drain(engine, f"w{number}") for number, engine in enumerate(engines)])
    claimed = [each for hand in hands for each in hand]
    assert len(claimed) == JOBS, "a job was claimed twice, or left"
    assert {each.job.id for each in claimed} == ids
    for worker, hand in enumerate(hands):
        assert {each.job.worker for each in hand} <= {f"w{worker}"}
    for each in claimed:
        assert complete(engines[0], each) == "completed"


@check
def no_job_is_claimed_twice_by_threads(case: Case) -> None:
    claim_all_concurrently([case.engine] * CLAIMERS)


@check
def no_job_is_claimed_twice_by_stores(case: Case) -> None:
    claim_all_concurrently(case.others(CLAIMERS))


@check
def a_claim_grants_what_it_says(case: Case) -> None:
    task = submit_task(case.engine, payload={"deep": 3})
    claimed = claim_one(case.engine, "w7")
    assert claimed.payload == {"deep": 3}
    assert claimed.task is not None
    assert (claimed.task.id, claimed.task.state) == (task, "doing")
    assert (claimed.job.state, claimed.job.worker, claimed.job.attempt) == ("running", "w7", 1)
    assert claimed.grant == (claimed.job.id, claimed.job.fence, claimed.job.nonce)
    assert claimed.lease_until == case.clock() + case.engine.lifetimes.lease_us
    assert job_of(case.store, claimed.job.id) == claimed.job


@check
def the_lowest_rank_comes_first(case: Case) -> None:
    """By priority at first, and first come first served within one."""
    order = []
    for priority in reversed(Priority):
        for _ in range(2):
            order.append((priority, submit_job(case.engine, priority=priority.value)))
            case.clock.advance(us=1)
    wanted = [job for _, job in sorted(order, key=lambda each: each[0])]
    assert [claim_one(case.engine).job.id for _ in order] == wanted


@check
def a_new_priority_moves_work_in_the_queue(case: Case) -> None:
    first, second, third = (submit_task(case.engine) for _ in range(3))
    do(case.engine, c.EditTask(third, {"priority": "P0"}))
    do(case.engine, c.EditTask(first, {"priority": "P3"}))
    assert [claim_one(case.engine).job.task_id for _ in range(3)] == [third, second, first]


@check
def a_new_priority_of_delayed_work_is_ranked_from_its_start(case: Case) -> None:
    """It does not pass work that was submitted before that time, with the same priority."""
    later = case.clock() + HOUR_US
    delayed = submit_task(case.engine, priority="P1", not_before=later)
    do(case.engine, c.EditTask(delayed, {"priority": "P2"}))
    case.clock.advance(us=HOUR_US // 2)
    assert claim(case.engine) == []
    earlier = submit_task(case.engine)
    case.clock.advance(us=HOUR_US // 2)
    assert [claim_one(case.engine).job.task_id for _ in range(2)] == [earlier, delayed]


@check
def work_that_has_waited_passes_younger_work_of_a_higher_priority(case: Case) -> None:
    for priority in (Priority.P1, Priority.P2, Priority.P3):
        old = submit_job(case.engine, priority=priority.value)
        case.clock.advance(us=OFFSETS_US[priority] - 1)
        older = submit_job(case.engine, priority="P0")
        case.clock.advance(us=2)
        young = submit_job(case.engine, priority="P0")
        assert [claim_one(case.engine).job.id for _ in range(3)] == [older, old, young]


@check
def a_claimer_gets_only_what_it_can_do(case: Case) -> None:
    dig = submit_job(case.engine, intent="dig", project="p")
    fill = submit_job(case.engine, intent="fill", project="q")
    assert claim(case.engine, intents=[]) == []
    assert claim(case.engine, intents=["paint"]) == []
    assert claim(case.engine, projects=["r"]) == []
    assert claim(case.engine, intents=["dig"], projects=["q"]) == []
    assert claim_one(case.engine, projects=["q"]).job.id == fill
    assert claim_one(case.engine, intents=["fill", "dig"]).job.id == dig


@check
def waiting_and_parked_work_is_never_claimed_nor_reclaimed(case: Case) -> None:
    resting = {}
    for state, fields in (
        ("waiting", {"kind": "timer", "due_at": case.clock() + 30_000_000}),
        ("parked", {"kind": "signal", "needs": ("go",)}),
    ):
        submit_task(case.engine)
        claimed = claim_one(case.engine)
        assert suspend(case.engine, claimed, "pause", **fields) == state
        resting[claimed.job.id] = claimed.grant.fence
    case.clock.advance(seconds=29)
    with case.store.write() as tx:
        assert list(tx.due(100, tx.now()).leases) == []
        assert tx.lease_counts(["intent:dig", "project:p"]).get("intent:dig", 0) == 0
    case.clock.advance(seconds=86_400)
    assert claim(case.engine, 10) == []
    with case.store.write() as tx:
        assert list(tx.due(100, tx.now()).leases) == []
    for job, fence in resting.items():
        assert refusal(case.engine, c.ReclaimJob(job, fence)) == "not_due"
        assert refusal(case.engine, c.ClaimJob(job, "w2", "n")) == "not_claimable"


@check
def work_that_waits_for_a_dependency_is_not_claimed(case: Case) -> None:
    first = submit_task(case.engine)
    second = submit_task(case.engine, depends_on=(first,))
    case.clock.advance(seconds=1)
    (claimed,) = claim(case.engine, 10)
    assert claimed.task is not None
    assert claimed.task.id == first
    complete(case.engine, claimed)
    released = claim_one(case.engine)
    assert released.task is not None
    assert released.task.id == second


@check
def work_leaves_the_queue_when_it_ends(case: Case) -> None:
    """Ended, cancelled and resting work has no row there; work that was handed back has one."""
    ids = [submit_job(case.engine) for _ in range(5)]
    done, failed, asleep, given_back = claim(case.engine, 4)
    complete(case.engine, done)
    do(case.engine, c.FailRun(failed.grant, failed.job.run_id or "", "cancelled", "no"))
    suspend(case.engine, asleep, "pause", "signal", needs=("go",))
    do(case.engine, c.HandBack(given_back.grant))
    (last,) = set(ids) - {each.job.id for each in (done, failed, asleep, given_back)}
    assert outcome(case.engine, c.CancelJob(last)) == "cancelled"
    again = claim_one(case.engine)
    assert again.job.id == given_back.job.id
    assert (again.grant.fence, again.job.attempt) == (2, 1)
    assert claim(case.engine, 10) == []
    assert keep(case.engine) == 0
