"""Checks of races to an end: cancels against claims and reports, in trees too. Nobody hangs."""

from functools import partial

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work import (
    claim,
    claim_one,
    completion,
    do,
    job_of,
    names,
    outcome,
    submit_job,
    submit_task,
    task_of,
    together,
)

ROUNDS = 10


@check
def a_cancel_and_a_success_at_once(case: Case) -> None:
    """Whoever is first, the success that was reported stays, and the canceller is told."""
    other = case.another()
    for _ in range(ROUNDS):
        task = submit_task(case.engine)
        claimed = claim_one(case.engine)
        reported, asked = together(
            partial(outcome, case.engine, completion(claimed)),
            partial(outcome, other, c.CancelTask(task)),
        )
        assert reported == "completed"
        assert asked in ("requested", "illegal_transition")
        assert task_of(case.store, task).state == "done"
        with case.store.read() as view:
            assert names(view, claimed.job.id)[-1] == "job_completed"


@check
def of_two_ends_reported_at_once_one_wins(case: Case) -> None:
    other = case.another()
    for _ in range(ROUNDS):
        submit_task(case.engine)
        claimed = claim_one(case.engine)
        assert do(case.engine, c.CancelJob(claimed.job.id)) == "requested"
        outcomes = together(
            partial(outcome, case.engine, completion(claimed)),
            partial(outcome, other, c.ConfirmCancel(claimed.grant)),
        )
        assert outcomes in (["completed", "stale_fence"], ["stale_fence", "cancelled"])
        assert job_of(case.store, claimed.job.id).state in outcomes


@check
def a_cancel_and_a_claim_at_once(case: Case) -> None:
    other = case.another()
    for _ in range(ROUNDS):
        job = submit_job(case.engine)
        claimed, asked = together(
            partial(claim, case.engine, 5), partial(outcome, other, c.CancelJob(job))
        )
        assert (len(claimed), asked) in ((1, "requested"), (0, "cancelled"))
        for each in claimed:
            assert do(case.engine, c.ConfirmCancel(each.grant)) == "cancelled"
        assert job_of(case.store, job).state == "cancelled"


@check
def trees_end_without_deadlock(case: Case) -> None:
    """Subtasks report to their parent while the parent's cancel comes down to them."""
    engines = [case.another() for _ in range(6)]
    for _ in range(ROUNDS // 2):
        top = submit_task(case.engine)
        follower = submit_task(case.engine, depends_on=(top,))
        children = {submit_task(case.engine, parent_id=top) for _ in range(4)}
        work = claim(case.engine, 10)
        assert len(work) == 5
        below = [each for each in work if each.job.task_id in children]
        outcomes = together(
            *[
                partial(outcome, engine, completion(each))
                for engine, each in zip(engines, below, strict=False)
            ],
            partial(outcome, engines[4], c.CancelTask(top)),
            partial(outcome, engines[5], c.CancelTask(follower)),
        )
        assert outcomes == ["completed"] * 4 + ["requested", "cancelled"]
        finish(case, next(each for each in work if each.job.task_id == top))
        assert task_of(case.store, top).open_subtasks == 0


def finish(case: Case, claimed: Claimed) -> None:
    assert outcome(case.engine, c.ConfirmCancel(claimed.grant)) == "cancelled"
