"""Checks of reads: the rows that the kernel gets match the log, for every kind of row."""

import threading
from collections.abc import Iterable
from typing import Any

from detent.engine import Claimed
from detent.integrity.audit import fold
from detent.kernel import commands as c
from detent.kernel.entities import Resource
from detent.kernel.world import CHECKPOINTS, RUNS, SIGNALS, STEPS, WAITS
from detent.store.clock import CLOCK
from detent.store.port import Store
from detent.store.table_names import TABLES
from detent.store.types import LoggedEvent
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    SECOND_US,
    claim,
    claim_one,
    do,
    refusal,
    run_of,
    submit_job,
    submit_task,
    suspend,
)

STEPS_WITHOUT_PHONE = [{"name": "dig"}, {"name": "fill", "needs": ["dig"]}]
STEPS_WITH_PHONE = [
    {"name": "call", "capabilities_required": ["phone"], "input": {"number": 5}},
    {"name": "note", "needs": ["call"]},
]


def busy(case: Case) -> None:
    """Work of every kind, in every condition."""
    engine = case.engine
    phone = {"capabilities": ["phone"], "labels": {"room": "hall"}, "capacity": 2}
    engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": phone, "van": {}}))
    first = submit_task(engine, tags=("red", "blue"), title="First", budget=100, priority="P0")
    submit_task(engine, depends_on=(first,), lifecycle="review")
    submit_task(engine, parent_id=first, options={"concurrency_key": "rope"})
    do(engine, c.EditTask(first, {"title": "The first", "payload": [1], "tags": ["green"]}))
    planned = submit_task(engine, options={"plan": {"steps": STEPS_WITH_PHONE}})
    parent = submit_job(engine, options={"job_timeout_ms": 60_000, "retry": {"retries": 2}})
    submit_job(engine, parent_job_id=parent, payload={"child": True})
    for claimed in claim(engine, 10):
        if claimed.job.task_id == planned:
            do(engine, c.StartStep(claimed.grant, "call"))
        else:
            report_much(case, claimed)
    for waiting in (False, True):
        submit_task(engine)
        rest(case, claim_one(engine), waiting)


def report_much(case: Case, claimed: Claimed) -> None:
    grant, run = claimed.grant, run_of(claimed)
    for command in (
        c.ReportProgress(grant, run, 0.25, "a quarter"),
        c.ChargeRun(grant, run, 90, 7, 8),
        c.RecordCheckpoint(grant, "page-1", {"read": [1, 2]}),
        c.BeginEffect(grant, "mail", "manual"),
        c.AddEvidence(grant, run, "a.log", "log", "0" * 64, 9),
        c.OpenSession(grant, "session-1"),
        c.SendSignal(grant.job_id, "early", {"x": 1}),
    ):
        do(case.engine, command)


def rest(case: Case, claimed: Claimed, waiting: bool) -> None:
    if waiting:
        due_at = case.clock() + SECOND_US
        suspend(case.engine, claimed, "nap", "timer", due_at=due_at, detail={"why": "tired"})
    else:
        suspend(case.engine, claimed, "ask", "question", detail={"text": "?", "options": ["a"]})


@check
def the_kernel_is_shown_what_the_log_says(case: Case) -> None:
    """Each entity comes back equal, type by type, to what folding its stream gives."""
    busy(case)
    with case.store.read() as view:
        folded = fold(view)
        world, versions = folded.world, folded.versions
        tasks, jobs = list(world.tasks), list(world.jobs)
        assert alike(view.tasks(tasks), [(world.tasks[each], versions[each]) for each in tasks])
        assert alike(view.jobs(jobs), [(world.jobs[each], versions[each]) for each in jobs])
        checkpoints = [each for job in jobs for each in view.job_checkpoints(job)]
        for kind, found in (
            (STEPS, view.steps(jobs)),
            (WAITS, view.waits(jobs)),
            (SIGNALS, view.signals(jobs)),
            (CHECKPOINTS, checkpoints),
            (RUNS, view.live_runs(jobs)),
        ):
            parts = [each for job in jobs for each in world.parts_of(kind, job).values()]
            live = [each for each in parts if kind != RUNS or each.state == "running"]
            assert live, f"no {kind} to compare"
            assert alike(found, live), kind
        names = [(each.job_id, each.name) for each in checkpoints]
        assert alike(view.checkpoints([*names, ("missing", "x")]), checkpoints)
        assert view.plans(jobs) == world.plans


def alike(found: Iterable[Any], expected: Iterable[Any]) -> bool:
    """The same values in any order, with the same types: True is not 1, a tuple is no list."""
    return sorted(map(repr, found)) == sorted(map(repr, expected))


@check
def what_is_not_there_is_absent(case: Case) -> None:
    submit_task(case.engine, task_id="t")
    ids = ["t", "t-j1", "missing"]
    with case.store.read() as view:
        assert [task.id for task, _ in view.tasks(ids)] == ["t"]
        assert [job.id for job, _ in view.jobs(ids)] == ["t-j1"]
        assert view.payloads(ids) == {"t-j1": None}
        for read in (view.live_runs, view.steps, view.waits, view.signals, view.plans):
            assert not list(read(ids))
        for below in (view.dependents, view.children, view.child_jobs):
            assert not list(below(ids))
        for empty in (view.tasks, view.jobs, view.live_runs, view.steps, view.waits):
            assert not list(empty([]))


@check
def work_is_about_its_tasks_payload_or_its_own(case: Case) -> None:
    task = submit_task(case.engine, payload={"a": 1})
    alone = submit_job(case.engine, payload=[2])
    job = f"{task}-j1"
    with case.store.read() as view:
        assert view.payloads([job, alone]) == {job: {"a": 1}, alone: [2]}
    do(case.engine, c.EditTask(task, {"payload": {"b": 3}}))
    assert {each.job.id: each.payload for each in claim(case.engine, 2)} == {
        job: {"b": 3},
        alone: [2],
    }


@check
def trees_are_read_to_the_bottom(case: Case) -> None:
    top = submit_task(case.engine)
    child, other = (submit_task(case.engine, parent_id=top) for _ in range(2))
    below = submit_task(case.engine, parent_id=child)
    waiting = [submit_task(case.engine, depends_on=(top, child)), submit_task(case.engine)]
    job = submit_job(case.engine)
    part = submit_job(case.engine, parent_job_id=job)
    smallest = submit_job(case.engine, parent_job_id=part)
    with case.store.read() as view:
        tree = {(top, child), (top, other), (child, below)}
        assert set(view.children([top])) == tree
        assert sorted(view.children([top, child])) == sorted(tree)
        assert list(view.children([child])) == [(child, below)]
        assert set(view.child_jobs([job])) == {(job, part), (part, smallest)}
        assert sorted(view.dependents([top, child, waiting[1]])) == sorted(
            [(top, waiting[0]), (child, waiting[0])]
        )


@check
def a_resource_knows_how_many_hold_it(case: Case) -> None:
    plan = {"steps": [{"name": "call", "capabilities_required": ["phone"]}]}
    phone = {"capabilities": ["phone"], "labels": {"room": "hall"}, "capacity": 2}
    case.engine.transaction(lambda tx: tx.put_rows("resources", {"phone-1": phone, "van": {}}))
    for _ in range(3):
        submit_job(case.engine, options={"plan": plan})
    one, two, three = claim(case.engine, 3)
    runs = [do(case.engine, c.StartStep(each.grant, "call")) for each in (one, two)]
    assert refusal(case.engine, c.StartStep(three.grant, "call")) == "no_resource"
    expected = Resource("phone-1", ("phone",), {"room": "hall"}, 2, True, 2)
    with case.store.read() as view:
        assert {each.id: each for each in view.resources()} == {
            "phone-1": expected,
            "van": Resource("van", ()),
        }
    do(case.engine, c.CompleteRun(one.grant, runs[0]))
    with case.store.read() as view:
        assert expected._replace(in_use=1) in list(view.resources())
    assert do(case.engine, c.StartStep(three.grant, "call")) == f"{three.job.id}-r1"


@check
def a_new_plan_takes_the_place_of_the_old_one(case: Case) -> None:
    """Only the steps of the current version are read; finished ones keep their results."""
    task = submit_task(case.engine, options={"plan": {"steps": STEPS_WITHOUT_PHONE}})
    claimed = claim_one(case.engine)
    run = do(case.engine, c.StartStep(claimed.grant, "dig"))
    do(case.engine, c.CompleteRun(claimed.grant, run, "a hole"))
    run = do(case.engine, c.StartStep(claimed.grant, "fill"))
    do(case.engine, c.FailRun(claimed.grant, run, "needs_user", "no", decision="failed"))
    do(case.engine, c.RetryTask(task))
    with case.store.read() as view:
        steps = {step.name: step for step in view.steps([claimed.job.id])}
        assert {step.plan_version for step in steps.values()} == {2}
    assert (steps["dig"].state, steps["dig"].result) == ("succeeded", "a hole")
    assert steps["fill"].state == "pending"


@check
def named_values_are_kept_by_table(case: Case) -> None:
    value = {"deep": [1, {"ü": None}], "flag": True}
    from_log = ("limits", "lifecycles")
    tables = [table for table in TABLES if table not in from_log]
    for table in tables:
        for rows in ({table: value, "b": 1}, {"b": None, "none": None}):
            with case.store.write() as tx:
                tx.put_rows(table, rows)
    with case.store.read() as view:
        for table in tables:
            kept = {name: each for name, each in view.rows(table).items() if name != CLOCK}
            assert kept == {table: value}


@check
def named_values_are_read_by_the_beginning_of_their_names(case: Case) -> None:
    names = ["t", "t/ann/1", "t/ann/\U0001f600", "t/anna/1", "t/b", "t0", "ü/ann/1"]
    with case.store.write() as tx:
        tx.put_rows("review_drafts", dict.fromkeys(names, 1))
    found = ("t/ann/1", "t/ann/\U0001f600")
    with case.store.read() as view:
        assert view.rows_under("review_drafts", "t/ann/") == dict.fromkeys(found, 1)
        assert view.rows_under("review_drafts", "ü/") == {"ü/ann/1": 1}
        assert view.rows_under("review_drafts", "x/") == {}
        assert sorted(view.row_names("review_drafts")) == sorted(names)
        assert list(view.row_names("snoozes")) == []
    with case.store.write() as tx:
        assert tx.rows_for_update("review_drafts", "t/ann/") == dict.fromkeys(found, 1)
        assert len(tx.rows_for_update("review_drafts")) == len(names)


@check
def of_those_who_change_named_values_each_sees_what_the_others_did(case: Case) -> None:
    stores = [case.store, *(engine.store for engine in case.others(3))]
    begin = threading.Barrier(len(stores))

    def count(store: Store) -> None:
        begin.wait()
        for _ in range(10):
            with store.write() as tx:
                known = tx.rows_for_update("system_state").get("count", 0)
                tx.put_rows("system_state", {"count": known + 1})

    threads = [threading.Thread(target=count, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with case.store.read() as view:
        assert view.rows("system_state")["count"] == 10 * len(stores)


@check
def a_long_stream_is_read_in_pages(case: Case) -> None:
    """Forty events of one job in as many commits, beside those of another job."""
    submit_job(case.engine, job_id="long")
    claimed = claim_one(case.engine)
    for number in range(40):
        do(case.engine, c.RecordCheckpoint(claimed.grant, f"page-{number}", number))
        if number % 10 == 0:
            submit_job(case.engine)
    with case.store.read() as view:
        whole = [event for event in view.events(0, 1_000) if event.stream == "long"]
        assert view.version_of("long") == whole[-1].version == len(whole)
        assert list(view.events(0, 1_000, stream="long")) == whole
        for limit in (1, 3, 17):
            pages: list[LoggedEvent] = []
            after = 0
            while page := view.events(after, limit, stream="long"):
                pages += page
                after = page[-1].position
            assert pages == whole
        middle = whole[20].position
        assert list(view.events(middle, 5, stream="long")) == whole[21:26]
        assert list(view.events(0, 1_000, stream="long", upto=middle)) == whole[:21]
        assert list(view.events(whole[-1].position, 5, stream="long")) == []
