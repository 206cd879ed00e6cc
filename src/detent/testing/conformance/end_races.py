"""Checks of races at the end of work: cancels against claims and reports, without deadlocks."""

from functools import partial

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim,
    claim_one,
    complete,
    completion,
    do,
    job_of,
    names,
    outcome,
    run_of,
    submit_job,
    submit_task,
    suspend,
    task_of,
    together,
)

ROUNDS = 10


@check
def a_cancel_and_a_success_at_the_same_time(case: Case) -> None:
    """In either order the reported success is kept, and the cancel is refused."""
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
def of_two_ends_reported_at_the_same_time_one_wins(case: Case) -> None:
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
def a_cancel_and_a_claim_at_the_same_time(case: Case) -> None:
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
    engines = case.others(6)
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


@check
def the_last_subtask_releases_what_waits_for_its_parent(case: Case) -> None:
    """One report changes its job, its task, the parent and the tasks that depend on it."""
    top = submit_task(case.engine)
    follower = submit_task(case.engine, depends_on=(top,))
    middle = submit_task(case.engine, parent_id=top)
    submit_task(case.engine, parent_id=middle)
    work = claim(case.engine, 10)
    assert len(work) == 3
    for claimed in work:
        assert outcome(case.engine, completion(claimed)) == "completed"
    assert task_of(case.store, top).state == "done"
    assert claim_one(case.engine).job.task_id == follower


@check
def a_handler_settles_the_failures_that_it_receives(case: Case) -> None:
    """The first subtask has failed long before the last one ends the wait for both."""
    once = {"retry": {"max_attempts": 1}}
    top = submit_task(case.engine)
    parent = claim_one(case.engine)
    children = [submit_task(case.engine, parent_id=top, options=once) for _ in range(2)]
    needs = tuple(f"task:{each}" for each in children)
    suspend(case.engine, parent, "both", "subtasks", needs=needs, detail={"outcomes": True})
    first, second = claim(case.engine, 2)
    do(case.engine, c.FailRun(first.grant, run_of(first), "error", "it failed"))
    assert task_of(case.store, top).settled == ()
    complete(case.engine, second)
    found = task_of(case.store, top)
    assert (found.settled, found.open_subtasks) == ((first.job.task_id,), 0)
    complete(case.engine, claim_one(case.engine))
    assert task_of(case.store, top).state == "done"


@check
def dismissals_and_the_last_end_at_the_same_time(case: Case) -> None:
    """Two people dismiss what failed while its sibling ends: the parent is completed once."""
    once = {"retry": {"max_attempts": 1}}
    engines = case.others(3)
    for _ in range(ROUNDS // 2):
        top = submit_task(case.engine)
        complete_later = claim_one(case.engine)
        bad = submit_task(case.engine, parent_id=top, options=once)
        good = submit_task(case.engine, parent_id=top)
        work = {each.job.task_id: each for each in claim(case.engine, 2)}
        complete(case.engine, complete_later)
        failed = work[bad]
        do(case.engine, c.FailRun(failed.grant, run_of(failed), "error", "it failed"))
        assert task_of(case.store, top).state == "blocked"
        outcomes = together(
            partial(outcome, engines[0], c.DismissSubtask(bad, "one")),
            partial(outcome, engines[1], c.DismissSubtask(bad, "two")),
            partial(outcome, engines[2], completion(work[good])),
        )
        assert sorted(outcomes) == ["completed", "dismissed", "repeated"]
        assert task_of(case.store, top).state == "done"
        with case.store.read() as view:
            found = names(view, top)
        assert (found.count("subtask_dismissed"), found.count("task_completed")) == (1, 1)


@check
def a_failure_reaches_the_end_of_a_chain(case: Case) -> None:
    first = submit_task(case.engine)
    chain = [first]
    for _ in range(3):
        chain.append(submit_task(case.engine, lifecycle="review", depends_on=(chain[-1],)))
    assert outcome(case.engine, c.CancelTask(first)) == "cancelled"
    states = [task_of(case.store, task).state for task in chain]
    assert states == ["cancelled", "failed", "failed", "failed"]


@check
def a_job_tells_its_parents_task(case: Case) -> None:
    """A job alone below the job of a task: its end wakes the parent, which waits for it."""
    submit_task(case.engine)
    parent = claim_one(case.engine)
    child = submit_job(case.engine, parent_job_id=parent.job.id)
    needs = (f"job:{child}",)
    suspend(case.engine, parent, "gather", "signal", needs=needs)
    assert outcome(case.engine, completion(claim_one(case.engine))) == "completed"
    assert claim_one(case.engine).job.id == parent.job.id


@check
def a_job_that_is_run_again_is_notified_of_a_child_that_has_ended(case: Case) -> None:
    """It was not notified while it had failed, and it must not wait without end."""
    top = submit_job(case.engine, options={"retry": {"max_attempts": 1}})
    first = claim_one(case.engine)
    child = submit_job(case.engine, parent_job_id=top)
    failure = c.FailRun(first.grant, run_of(first), "error", "no")
    assert outcome(case.engine, failure) == "failed"
    complete(case.engine, claim_one(case.engine), result=7)
    do(case.engine, c.RetryJob(top))
    again = claim_one(case.engine)
    suspend(case.engine, again, "gather", "subtasks", needs=(f"job:{child}",))
    assert claim_one(case.engine).job.id == top


@check
def a_cancel_reaches_jobs_below_jobs(case: Case) -> None:
    top = submit_job(case.engine)
    middle = submit_job(case.engine, parent_job_id=top)
    bottom = submit_job(case.engine, parent_job_id=middle)
    assert outcome(case.engine, c.CancelJob(top)) == "cancelled"
    assert job_of(case.store, middle).state == "cancelled"
    assert job_of(case.store, bottom).state == "cancelled"
    assert claim(case.engine, 10) == []


def finish(case: Case, claimed: Claimed) -> None:
    assert outcome(case.engine, c.ConfirmCancel(claimed.grant)) == "cancelled"
