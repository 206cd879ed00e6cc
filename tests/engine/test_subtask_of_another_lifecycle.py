"""A subtask may have another lifecycle than its parent, whose handler receives its outcome."""

from pathlib import Path

from detent.engine import Engine
from detent.kernel import commands as c
from detent.store.sqlite import SqliteStore

PERSON, WORKER = c.Actor("person"), c.Actor("worker:w")


def test_a_parent_receives_the_end_of_a_subtask_of_another_lifecycle(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "d.db")
    engine = Engine(store)
    engine.do(c.SubmitTask("parent", "p", "board", "build", "cli", queue=True), PERSON)
    engine.do(c.SubmitTask("child", "p", "review", "build", "cli", parent_id="parent"), PERSON)
    jobs = {}
    for name in ("child", "parent"):
        with store.read() as view:
            job_id = view.tasks([name])[0][0].job_id or ""
        engine.do(c.ClaimJob(job_id, "w", "n"), WORKER)
        with store.read() as view:
            jobs[name] = view.jobs([job_id])[0][0]
    child, parent = (c.Grant(jobs[name].id, 1, "n") for name in ("child", "parent"))
    engine.do(c.CompleteRun(child, jobs["child"].run_id or ""), WORKER)
    wait = c.SuspendRun(
        parent,
        *(jobs["parent"].run_id or "", "outcome", "subtasks"),
        needs=("task:child", "other"),
        detail={"outcomes": True},
    )
    engine.do(wait, WORKER)
    engine.do(c.SendSignal(parent.job_id, "other"), PERSON)
    with store.read() as view:
        assert view.jobs([parent.job_id])[0][0].state == "queued"
    store.close()
