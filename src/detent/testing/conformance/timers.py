"""Checks of timers: due retries, expired waits, and deadlines."""

from detent.kernel import commands as c
from detent.store.types import DueTimers
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    SECOND_US,
    claim,
    claim_one,
    complete,
    do,
    job_of,
    keep,
    names,
    run_of,
    submit_job,
    submit_task,
    suspend,
    task_of,
)


def due_now(case: Case, limit: int = 100) -> DueTimers:
    with case.store.write() as tx:
        leases, waits, deadlines = tx.due(limit, tx.now())
        return DueTimers(list(leases), list(waits), list(deadlines))


@check
def a_retry_is_claimed_as_soon_as_it_is_due(case: Case) -> None:
    """By the claim itself: no keeper comes by."""
    task = submit_task(case.engine)
    claimed = claim_one(case.engine)
    do(case.engine, c.FailRun(claimed.grant, run_of(claimed), "network", "no route"))
    assert task_of(case.store, task).blocked_by == "retry"
    case.clock.advance(us=30 * SECOND_US - 1)
    assert claim(case.engine) == []
    case.clock.advance(us=1)
    again = claim_one(case.engine)
    assert (again.job.id, again.job.attempt, again.grant.fence) == (claimed.job.id, 2, 2)
    assert task_of(case.store, task).state == "doing"
    with case.store.read() as view:
        assert names(view, claimed.job.id)[-4:-2] == ["job_requeued", "job_running"]


@check
def a_retry_that_is_not_due_holds_up_no_other_job(case: Case) -> None:
    for _ in range(3):
        submit_job(case.engine, priority="P0")
    for claimed in claim(case.engine, 3):
        do(case.engine, c.FailRun(claimed.grant, run_of(claimed), "network", "no route"))
    behind = submit_job(case.engine, priority="P3")
    assert claim_one(case.engine).job.id == behind


@check
def a_delayed_retry_keeps_its_rank(case: Case) -> None:
    """It was there first: younger work of the same priority does not pass it when it is due."""
    old = submit_job(case.engine)
    claimed = claim_one(case.engine)
    do(case.engine, c.FailRun(claimed.grant, run_of(claimed), "network", "no route"))
    case.clock.advance(us=1)
    young = submit_job(case.engine)
    case.clock.advance(seconds=30)
    assert [each.job.id for each in claim(case.engine, 2)] == [old, young]


@check
def a_timer_is_due_at_its_time(case: Case) -> None:
    submit_task(case.engine)
    claimed = claim_one(case.engine)
    suspend(case.engine, claimed, "nap", "timer", due_at=case.clock() + SECOND_US)
    case.clock.advance(us=SECOND_US - 1)
    assert due_now(case) == DueTimers([], [], [])
    case.clock.advance(us=1)
    assert list(due_now(case).waits) == [(claimed.job.id, "nap")]
    keep(case.engine)
    assert due_now(case) == DueTimers([], [], [])
    again = claim_one(case.engine)
    assert (again.job.id, again.job.attempt) == (claimed.job.id, 1)
    with case.store.read() as view:
        (over,) = view.job_checkpoints(claimed.job.id)
        assert list(view.waits([claimed.job.id])) == []
    assert (over.name, over.value["outcome"]) == ("nap", "due")


@check
def a_signal_ends_a_wait_before_it_expires(case: Case) -> None:
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    later = case.clock() + 86_400 * SECOND_US
    suspend(case.engine, claimed, "hear", "signal", needs=("go", "now"), due_at=later)
    assert do(case.engine, c.SendSignal(claimed.job.id, "go", 1)) == "kept"
    assert claim(case.engine) == []
    assert do(case.engine, c.SendSignal(claimed.job.id, "now", 2)) == "delivered"
    case.clock.set(later)
    assert due_now(case).waits == []
    again = claim_one(case.engine)
    with case.store.read() as view:
        (heard,) = view.job_checkpoints(claimed.job.id)
    assert heard.value == {"outcome": "signalled", "value": {"go": 1, "now": 2}}
    complete(case.engine, again)
    with case.store.read() as view:
        assert list(view.signals([claimed.job.id])) == []


@check
def a_wait_that_is_not_ended_expires(case: Case) -> None:
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    suspend(case.engine, claimed, "hear", "signal", needs=("go",), due_at=case.clock() + SECOND_US)
    case.clock.advance(seconds=1)
    keep(case.engine)
    claim_one(case.engine)
    with case.store.read() as view:
        ((heard),) = view.checkpoints([(claimed.job.id, "hear"), (claimed.job.id, "other")])
    assert heard.value["outcome"] == "expired"


@check
def a_limit_on_the_queue_wait_passes(case: Case) -> None:
    late = submit_job(case.engine, options={"queue_timeout_ms": 1_000})
    claimed_in_time = submit_job(case.engine, options={"queue_timeout_ms": 1_000}, intent="fast")
    case.clock.advance(us=SECOND_US - 1)
    claim_one(case.engine, intents=["fast"])
    assert due_now(case).deadlines == []
    case.clock.advance(us=1)
    assert list(due_now(case).deadlines) == [late]
    keep(case.engine)
    ended = job_of(case.store, late)
    assert (ended.state, ended.cancel_reason) == ("cancelled", "queue_timeout")
    assert job_of(case.store, claimed_in_time).state == "running"
    assert due_now(case).deadlines == []


@check
def a_limit_on_the_whole_job_passes(case: Case) -> None:
    """A running job is requested to stop; a suspended job is cancelled immediately."""
    options = {"job_timeout_ms": 5_000, "queue_timeout_ms": 1_000}
    submit_job(case.engine, options=options)
    submit_job(case.engine, options=options)
    running, asleep = claim(case.engine, 2)
    suspend(case.engine, asleep, "pause", "signal", needs=("go",))
    case.clock.advance(us=5 * SECOND_US)
    assert sorted(due_now(case).deadlines) == sorted([running.job.id, asleep.job.id])
    keep(case.engine)
    assert job_of(case.store, asleep.job.id).state == "cancelled"
    assert job_of(case.store, running.job.id).cancel_reason == "job_timeout"
    assert do(case.engine, c.ConfirmCancel(running.grant)) == "cancelled"
    assert due_now(case) == DueTimers([], [], [])


@check
def a_persons_retry_resets_the_limit(case: Case) -> None:
    """Also after the next claim, which reads the job's row again."""
    job = submit_job(case.engine, options={"job_timeout_ms": 5_000, "retry": {"retries": 0}})
    first = claim_one(case.engine)
    case.clock.advance(seconds=4)
    do(case.engine, c.FailRun(first.grant, run_of(first), "error", "it failed"))
    do(case.engine, c.RetryJob(job))
    claim_one(case.engine)
    assert job_of(case.store, job).job_deadline == case.clock() + 5 * SECOND_US
    case.clock.advance(us=5 * SECOND_US - 1)
    assert due_now(case).deadlines == []
    case.clock.advance(us=1)
    assert list(due_now(case).deadlines) == [job]


@check
def the_oldest_is_dealt_with_first(case: Case) -> None:
    """A bounded look takes what has waited longest, of each kind."""
    order = []
    for number in range(3):
        fields = {"intent": f"i{number}", "options": {"job_timeout_ms": 1_000}}
        held, asleep = submit_job(case.engine, **fields), submit_job(case.engine, **fields)
        by_id = {each.job.id: each for each in claim(case.engine, 2)}
        due_at = case.clock() + SECOND_US
        suspend(case.engine, by_id[asleep], "nap", "timer", due_at=due_at)
        order.append((held, asleep))
        case.clock.advance(us=5)
    case.clock.advance(seconds=60)
    due = due_now(case, limit=2)
    assert [job for job, _ in due.leases] == [held for held, _ in order[:2]]
    assert [job for job, _ in due.waits] == [asleep for _, asleep in order[:2]]
    assert sorted(due.deadlines) == sorted(order[0])
