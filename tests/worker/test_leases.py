"""Leases by the worker's own clock: after a suspend nothing starts, and what runs is stopped."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from detent import boot_time, failpoints
from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.run_context import Run
from detent.app.run_interface import Stop
from detent.errors import Unavailable
from detent.kernel import commands as c
from detent.kernel.plan import PlanStep
from detent.operations.context import Core
from detent.worker import active_run, claimer, heartbeat
from detent.worker.engine_client import EngineClient
from tests.worker.waiting import installation, until, working

LEASE_MS = 1_500


class Suspend:
    """What a machine does whose lid is closed: its clock since boot goes on, its code does not."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def __call__(self) -> None:
        self.slept_s += 60.0

    def since_boot_s(self) -> float:
        return boot_time.since_boot_s() + self.slept_s


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Suspend:
    made = Suspend()
    for module in (active_run, claimer, heartbeat):
        monkeypatch.setattr(module, "since_boot_s", made.since_boot_s)
    return made


@pytest.fixture
def short(tmp_path: Path, url: str) -> Iterator[Core]:
    with installation(tmp_path, url, lease_ms=LEASE_MS, worker_heartbeat_ms=300) as core:
        yield core


Note = Callable[[str], None]


def step(run: Run, suspend: Callable[[], None], note: Note) -> None:
    suspend()
    run.step("s", note, "s")


def effect(run: Run, suspend: Callable[[], None], note: Note) -> None:
    suspend()
    run.effect("e", note, "e")


def checkpoint(run: Run, suspend: Callable[[], None], note: Note) -> None:
    run.step("first", suspend)
    note("after the checkpoint")


def subtask(run: Run, suspend: Callable[[], None], note: Note) -> None:
    suspend()
    run.subtask("below")
    note("after the subtask")


def wait(run: Run, suspend: Callable[[], None], note: Note) -> None:
    suspend()
    run.sleep(0.0)
    note("after the wait")


@pytest.mark.parametrize("what", [step, effect, checkpoint, subtask, wait])
def test_a_run_that_wakes_after_its_lease_starts_nothing_more(
    short: Core, suspend: Suspend, what: Callable[..., None]
) -> None:
    """Not even a try that the store would refuse; the next claim does the work."""
    app, done = App(), []

    @app.intent("below")
    def below() -> None:
        """Does nothing."""

    @app.intent("work")
    def work(run: Run) -> str:
        first = run.fence == 1
        what(run, suspend if first else _nothing, lambda name: done.append((run.fence, name)))
        return "done"

    with working(short, app):
        handle = work.submit()
        assert handle.result(timeout=90) == "done"
    assert done
    assert all(fence > 1 for fence, _ in done)
    assert short.engine.refused["stale_fence"] == 0


def test_a_coroutine_that_wakes_after_its_lease_starts_nothing_more(
    short: Core, suspend: Suspend
) -> None:
    app = App()
    done: list[int] = []

    @app.intent("work")
    async def work(run: AsyncRun) -> str:
        if run.fence == 1:
            suspend()
        await run.step("s", done.append, run.fence)
        return "done"

    with working(short, app):
        assert work.submit().result(timeout=90) == "done"
    assert done
    assert 1 not in done
    assert short.engine.refused["stale_fence"] == 0


def test_a_command_is_not_started_under_a_lease_that_is_over(
    short: Core, suspend: Suspend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app, hit = App(), failpoints.hit
    marks = tmp_path / "marks"
    app.command("work", ["/bin/sh", "-c", f"echo $DETENT_FENCE >> {marks}"])

    def sleep_once(name: str) -> None:
        hit(name)
        if name == "spawn.before" and not suspend.slept_s:
            suspend()

    monkeypatch.setattr(failpoints, "hit", sleep_once)
    with working(short, app):
        app.submit("work").result(timeout=90)
    fences = marks.read_text().split()
    assert fences
    assert "1" not in fences


def test_a_plan_starts_no_step_under_a_lease_that_is_over(short: Core, suspend: Suspend) -> None:
    app, done = App(), []

    @app.intent("a")
    def a(run: Run) -> None:
        done.append(("a", run.fence))
        if run.fence == 1:
            suspend()

    @app.intent("b")
    def b(run: Run) -> None:
        done.append(("b", run.fence))

    plan = app.plan("both", [PlanStep("a", "a"), PlanStep("b", "b", needs=("a",))])
    with working(short, app):
        plan.submit().result(timeout=90)
    assert ("b", 1) not in done
    assert done[-1][0] == "b"
    assert short.engine.refused["stale_fence"] == 0


def test_a_claim_that_comes_back_after_its_lease_is_not_begun(
    short: Core, suspend: Suspend, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, done, hit = App(), [], failpoints.hit

    @app.intent("work")
    def work(run: Run) -> None:
        done.append(run.fence)

    def sleep_once(name: str) -> None:
        hit(name)
        if name == "claim.after" and not suspend.slept_s:
            suspend()

    monkeypatch.setattr(failpoints, "hit", sleep_once)
    with working(short, app):
        work.submit().result(timeout=90)
    assert done
    assert 1 not in done


def test_a_lease_that_is_over_is_not_renewed(core: Core, suspend: Suspend) -> None:
    app, gate = App(), []

    @app.intent("work")
    def work(run: Run) -> None:
        gate.append(run.fence)
        while True:
            run.log("at work")
            time.sleep(0.01)

    with working(core, app) as worker:
        work.submit()
        until(lambda: gate)
        held = next(iter(worker.held_jobs))
        suspend()
        assert worker.heartbeat.beat()
        assert held.expired()
        assert held.stopped is Stop.LOST
        until(lambda: not len(worker.held_jobs), "the work is given up")


def test_a_worker_that_cannot_reach_the_store_gives_up_its_leases(tmp_path: Path) -> None:
    """A process that was stopped inside a transaction holds the lock: every renewal waits."""
    app = App()
    seen: list[Any] = []
    lock = tmp_path / "detent.db.lock"

    @app.intent("thread")
    def thread(run: Run) -> None:
        _until_stopped(run, seen)

    app.command("command", ["/bin/sh", "-c", "sleep 600"])
    with installation(tmp_path, lease_ms=LEASE_MS, worker_heartbeat_ms=300) as core:
        with working(core, app) as worker:
            thread.submit()
            app.submit("command")
            until(lambda: len(worker.held_jobs) == 2 and len(seen) == 1)
            runs = [each for held in worker.held_jobs for each in held.runs.values()]
            held = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(held, fcntl.LOCK_EX)
                until(lambda: len(seen) == 2, "the function is stopped")
                until(lambda: all(each.ended for each in runs), "the command has ended")
            finally:
                os.close(held)
            worker.claimer.stop()
        assert seen == ["begun", Stop.LOST]


def test_a_run_asks_no_longer_than_its_lease_for_a_store_that_is_unavailable(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patience ends with the lease, not half a minute later."""
    client, tries = EngineClient(core.engine, "w"), []

    def unavailable(*_: Any) -> None:
        tries.append(1)
        raise Unavailable("the store is unavailable", retry_after_s=1)

    monkeypatch.setattr(client, "_execute", unavailable)
    command = c.RecordCheckpoint(c.Grant("j", 1, "n"), "s")
    with pytest.raises(Unavailable):
        client.execute(command, lease_over=lambda: len(tries) >= 3)
    assert len(tries) == 3


def _nothing() -> None:
    """The second time the machine is not suspended."""


def _until_stopped(run: Run, seen: list[Any]) -> None:
    seen.append("begun")
    try:
        while True:
            run.log("at work")
            time.sleep(0.01)
    except BaseException as error:
        seen.append(Stop(str(error)))
        raise
