"""Checks of deletion: rows are deleted, events are blanked, ids cannot be used again."""

from detent.engine import CommandRequest
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.store.codec import event_digest
from detent.store.table_names import LISTED
from detent.store.types import Query
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.fences import PLAN
from detent.testing.conformance.work_actions import (
    PERSON,
    claim,
    claim_one,
    complete,
    completion,
    do,
    refusal,
    run_of,
    submit_job,
    submit_task,
    suspend,
)


def worked_on(case: Case) -> str:
    """A job with a run, evidence, a checkpoint and a wait behind it; its id."""
    claimed = claim_one(case.engine)
    evidence = c.AddEvidence(claimed.grant, run_of(claimed), "a.log", "log", "0" * 64, 3)
    do(case.engine, evidence)
    do(case.engine, c.RecordCheckpoint(claimed.grant, "page-1", 1))
    suspend(case.engine, claimed, "hear", "signal", needs=("go",))
    do(case.engine, c.SendSignal(claimed.job.id, "go"))
    complete(case.engine, claim_one(case.engine))
    return claimed.job.id


def leaves_nothing_but_its_events(case: Case, command: c.Command, streams: list[str]) -> None:
    before = picture(case.store)
    assert all(before[table] for table in ("jobs", "runs", "checkpoints", "evidence"))
    do(case.engine, command)
    after = picture(case.store)
    assert [table for table in LISTED if after[table]] == []
    blanked = [each._replace(data="", digest=event_digest(each)) for each in before["log"]]
    assert after["log"][:-1] == blanked
    tombstone = after["log"][-1]
    assert tombstone.name.endswith("_deleted")
    assert tombstone.data
    assert tombstone.digest is None
    assert {event.stream for event in after["log"]} == set(streams)


@check
def a_deleted_task_leaves_nothing_but_its_events(case: Case) -> None:
    task = submit_task(case.engine, payload={"secret": 1})
    do(case.engine, c.AssignTask(task, "ada"))
    job = worked_on(case)
    leaves_nothing_but_its_events(case, c.DeleteTask(task), [task, job])
    with case.store.read() as view:
        assert not list(view.tasks([task]))
        assert not list(view.jobs([job]))
        assert view.payloads([job]) == {}
        assert list(view.job_checkpoints(job)) == []
    assert refusal(case.engine, c.CancelTask(task)) == "unknown_task"


@check
def a_deleted_job_leaves_nothing_but_its_events(case: Case) -> None:
    submit_job(case.engine)
    job = worked_on(case)
    leaves_nothing_but_its_events(case, c.DeleteJob(job), [job])


@check
def a_deleted_plan_goes_with_its_steps(case: Case) -> None:
    task = submit_task(case.engine, options={"plan": PLAN})
    claimed = claim_one(case.engine)
    run = do(case.engine, c.StartStep(claimed.grant, "dig"))
    do(case.engine, c.FailRun(claimed.grant, run, "cancelled", "no", decision="failed"))
    do(case.engine, c.CancelTask(task))
    do(case.engine, c.DeleteTask(task))
    with case.store.read() as view:
        assert view.page(Query("steps")) == []
        assert view.plans([claimed.job.id]) == {}


@check
def what_is_beside_deleted_work_stays(case: Case) -> None:
    gone = submit_task(case.engine)
    complete(case.engine, claim_one(case.engine))
    kept = submit_task(case.engine)
    worked_on(case)
    before = picture(case.store)
    do(case.engine, c.DeleteTask(gone))
    after = picture(case.store)
    for table in ("checkpoints", "evidence"):
        assert after[table] == before[table]
    for event, earlier in zip(after["log"], before["log"], strict=False):
        assert event == earlier or event.stream.startswith(gone)
    assert [len(after[table]) for table in ("tasks", "jobs", "runs")] == [1, 1, 2]
    assert kept in after["tasks"][0]


@check
def a_neighbour_in_the_same_commits_keeps_its_data(case: Case) -> None:
    names = [f"job-{number}" for number in range(4)]
    submitted = [c.SubmitJob(name, "p", "dig", payload={"secret": name}) for name in names]
    case.engine.execute([CommandRequest(each, PERSON) for each in submitted], bulk=True)
    reports = [completion(each, "done") for each in claim(case.engine, len(names))]
    case.engine.execute([CommandRequest(each, PERSON) for each in reports], bulk=True)
    before = picture(case.store)["log"]
    do(case.engine, c.DeleteJob(names[1]))
    after = picture(case.store)["log"]
    for event, earlier in zip(after, before, strict=False):
        gone = event.stream == names[1]
        assert event == (
            earlier._replace(data="", digest=event_digest(earlier)) if gone else earlier
        )


@check
def work_that_lives_for_one_batch_leaves_nothing_either(case: Case) -> None:
    submit = c.SubmitJob("brief", "p", "dig", payload="secret")
    commands = [submit, c.CancelJob("brief"), c.DeleteJob("brief")]
    results = case.engine.execute([CommandRequest(command, PERSON) for command in commands])
    assert [each for each in results if isinstance(each, DetentError)] == []
    with case.store.read() as view:
        *events, tombstone = view.events(0, 10)
        assert not list(view.jobs(["brief"]))
    assert [event.data for event in events] == [""] * len(events)
    assert tombstone.name == "job_deleted"


@check
def the_id_of_deleted_work_is_not_given_again(case: Case) -> None:
    task = submit_task(case.engine)
    complete(case.engine, claim_one(case.engine))
    do(case.engine, c.DeleteTask(task))
    before = picture(case.store)
    again = c.SubmitTask(task, "p", "board", "dig", "cli", queue=True)
    assert refusal(case.engine, again) in ("task_exists", "version_conflict")
    assert picture(case.store) == before


@check
def a_deleted_job_takes_the_jobs_below_it_along(case: Case) -> None:
    parent = submit_job(case.engine)
    claimed = claim_one(case.engine)
    child = submit_job(case.engine, parent_job_id=parent)
    complete(case.engine, claimed)
    assert refusal(case.engine, c.DeleteJob(parent)) == "still_needed"
    do(case.engine, c.CancelJob(child))
    do(case.engine, c.DeleteJob(parent))
    with case.store.read() as view:
        assert list(view.jobs([parent, child])) == []
