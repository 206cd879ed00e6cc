"""A worker that stops loses nothing; one that lost its lease changes nothing."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.run_context import Run
from detent.app.run_interface import Stop
from detent.errors import Refused
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.worker.worker import Worker
from tests.worker.waiting import DEADLINE_S, Gate, installation, states, submit_many, until, working

# ---- stopping -------------------------------------------------------------------------------


def test_a_graceful_stop_lets_running_work_end_and_claims_nothing_more(core: Core) -> None:
    app, gate = App(), Gate()
    app.intent("work")(gate.pass_through)
    submit_many(core, "work", 5)
    worker = Worker(core, app, concurrency=2)
    worker.start()
    until(lambda: len(gate.inside) == 2)
    stopping = threading.Thread(target=worker.stop, kwargs={"grace_s": 30})
    stopping.start()
    until(lambda: worker.executor.draining)
    gate.open.set()
    stopping.join(DEADLINE_S)
    assert states(core) == {"completed": 2, "queued": 3}
    with core.store.read() as view:
        assert dict(view.rows("workers")) == {}


def test_what_cannot_finish_is_handed_back_immediately_without_penalty(core: Core) -> None:
    app, gate, tries = App(), Gate(), []

    @app.intent("work")
    def work(run: Run) -> str:
        tries.append((run.attempt, run.fence))
        if len(tries) == 1:
            gate.pass_through()
        return run.step("inner", lambda: "done")

    first = Worker(core, app)
    first.start()
    handle = work.submit()
    until(lambda: gate.inside)
    first.stop(grace_s=0.05)
    assert handle.state() == "queued"
    gate.open.set()  # the abandoned function goes on, but nothing that it says lands
    with working(core, app):
        assert handle.result(timeout=DEADLINE_S) == "done"
    assert tries == [(1, 1), (1, 2)]
    with core.store.read() as view:
        events = view.events(0, 100, stream=handle.job_id)
    assert [event.name for event in events].count("checkpoint_recorded") == 1
    assert any(e.name == "run_cancelled" and "handed_back" in e.data for e in events)


def test_a_second_stop_does_not_wait(core: Core) -> None:
    app, gate = App(), Gate()
    app.intent("work")(gate.pass_through)
    worker = Worker(core, app)
    worker.start()
    handle = app.submit("work")
    until(lambda: gate.inside)
    stopping = threading.Thread(target=worker.stop, kwargs={"grace_s": 3_600})
    stopping.start()
    until(lambda: worker.executor.draining)
    worker.stop()
    stopping.join(DEADLINE_S)
    assert not stopping.is_alive()
    assert handle.state() == "queued"
    gate.open.set()


def test_a_plan_is_handed_back_between_its_steps(core: Core) -> None:
    app, gate, ran = App(), Gate(), []

    @app.intent("first")
    def first() -> str:
        ran.append("first")
        gate.pass_through()
        return "1"

    @app.intent("second")
    def second() -> str:
        ran.append("second")
        return "2"

    app.plan("both", [{"name": "first"}, {"name": "second", "needs": ["first"]}])
    worker = Worker(core, app)
    worker.start()
    handle = app.submit("both")
    until(lambda: gate.inside)
    stopping = threading.Thread(target=worker.stop, kwargs={"grace_s": 30})
    stopping.start()
    until(lambda: worker.executor.draining)
    gate.open.set()
    stopping.join(DEADLINE_S)
    assert (handle.state(), ran) == ("queued", ["first"])
    with working(core, app):
        assert handle.result(timeout=DEADLINE_S) == {"first": "1", "second": "2"}
    assert ran == ["first", "second"]


# ---- stale workers --------------------------------------------------------------------------

WRITES: dict[str, Any] = {
    "step": lambda run: run.step("late", lambda: 1),
    "effect": lambda run: run.effect("late", lambda: 1),
    "progress": lambda run: run.progress(0.5),
    "evidence": lambda run: run.evidence("late.txt", "late"),
    "subtask": lambda run: run.subtask("other"),
    "sleep": lambda run: run.sleep(1),
    "ask": lambda run: run.ask("late?"),
    "wait": lambda run: run.wait_for("late"),
    "return": lambda run: "late",
    "raise": lambda run: 1 / 0,
}


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_lost_its_lease_changes_nothing(core: Core, write: str) -> None:
    """It is frozen before the write, its job is reclaimed and done by another, then it goes on."""
    app, gate, tries = App(), Gate(), []

    @app.intent("other")
    def other() -> None: ...

    @app.intent("work")
    def work(run: Run) -> Any:
        tries.append(run.fence)
        if len(tries) == 1:
            gate.pass_through()
            return WRITES[write](run)
        return "fresh"

    frozen = Worker(core, app, name="frozen", concurrency=1)
    frozen.start()
    handle = work.submit()
    until(lambda: gate.inside)
    frozen.heartbeat.stop()
    frozen.claimer.stop()
    core.engine.do(c.ReclaimJob(handle.job_id, 1), c.Actor("clock"))
    with working(core, app, name="fresh"):
        assert handle.result(timeout=DEADLINE_S) == "fresh"
    with core.store.read() as view:
        before = view.events(0, 1_000)
    gate.open.set()
    until(lambda: not len(frozen.held_jobs), "the frozen worker has spoken")
    frozen.reporter.stop()
    with core.store.read() as view:
        after = view.events(0, 1_000)
        assert states(core, "other") == {}
    assert after == before
    frozen.stop(grace_s=0)


def test_the_heartbeat_tells_a_run_that_its_lease_is_lost(tmp_path: Path) -> None:
    app = App()
    gate = Gate()
    stopped: list[Any] = []

    @app.intent("work")
    def work(run: Run) -> None:
        gate.inside.append("in")
        while not stopped:
            try:
                run.log("still here")
            except BaseException as error:
                stopped.append(error)
                raise
            time.sleep(0.01)

    with installation(tmp_path, worker_heartbeat_ms=50) as core:
        with working(core, app) as worker:
            handle = work.submit()
            until(lambda: gate.inside)
            worker.claimer.stop()
            core.engine.do(c.ReclaimJob(handle.job_id, 1), c.Actor("clock"))
            until(lambda: stopped, "the run is stopped")
            assert str(stopped[0]) == Stop.LOST
        assert handle.state() == "queued"


def test_a_report_under_an_old_fence_is_refused_by_the_engine(core: Core) -> None:
    app = App()
    app.intent("work")(lambda: 1)
    core.engine.do(c.SubmitJob("j", "default", "work"), c.Actor("t"))
    grant = core.engine.do(c.ClaimJob("j", "w", "n"), c.Actor("t"))
    core.engine.do(c.HandBack(grant), c.Actor("t"))
    core.engine.do(c.ClaimJob("j", "w", "m"), c.Actor("t"))
    with pytest.raises(Refused) as raised:
        core.engine.do(
            c.SubmitJob("child", "default", "work", parent_job_id="j"), c.Actor("t"), grant=grant
        )
    assert raised.value.code == "stale_fence"
