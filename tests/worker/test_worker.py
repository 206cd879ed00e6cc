"""The worker on a real store: side by side, cancelled, limited, and several of them."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.failures import JobFailed
from detent.app.run_context import Run
from detent.engine import CommandRequest, Engine, PendingResults
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.worker import pace, pools
from detent.worker import worker as worker_module
from detent.worker.worker import Worker
from tests.worker.waiting import (
    DEADLINE_S,
    Gate,
    installation,
    let_pass,
    states,
    submit_many,
    until,
    working,
)

# ---- side by side ---------------------------------------------------------------------------


def test_functions_and_coroutines_run_side_by_side(core: Core) -> None:
    app, gate = App(), Gate()
    both = threading.Barrier(2)

    @app.intent("plain")
    def plain() -> str:
        both.wait(DEADLINE_S)
        return "plain"

    @app.intent("waited")
    async def waited(run: AsyncRun) -> str:
        await asyncio.sleep(0)
        gate.inside.append("waited")
        return await run.step("inner", lambda: "waited")

    with working(core, app, concurrency=2):
        handles = [plain.submit(), plain.submit(), waited.submit()]
        assert [each.result(timeout=DEADLINE_S) for each in handles] == ["plain", "plain", "waited"]
    assert states(core) == {"completed": 3}


class Held:
    """An engine that commits no report before it is opened."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.open = engine, threading.Event()

    def enqueue(self, asks: Sequence[CommandRequest]) -> PendingResults:
        return self.engine.enqueue(asks)

    def serve(self, future: PendingResults) -> None:
        assert self.open.wait(DEADLINE_S)
        self.engine.serve(future)


def test_a_thousand_small_jobs_are_claimed_and_reported_in_batches(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, these jobs are tiny; reports come while one is being taken.
    monkeypatch.setattr(pace, "SHORT_S", 1.0)
    monkeypatch.setattr(pools, "AHEAD_S", 1_000.0)
    app, done = App(), []
    app.intent("tiny")(lambda: done.append(1))
    with working(core, app, concurrency=4) as worker:
        worker.reporter.engine = held = Held(core.engine)  # type: ignore[assignment]
        submit_many(core, "tiny", 1_000)
        until(lambda: len(done) == 1_000, "all done")
        held.open.set()
        until(
            lambda: states(core)["completed"] == 1_000 and not len(worker.held_jobs), "all reported"
        )
    assert len(done) == 1_000
    with core.store.read() as view:
        events = view.events(0, 100_000)
    for name in ("job_running", "job_completed"):
        times = Counter(event.at for event in events if event.name == name)
        assert len(times) < 30, name  # a transaction has one time


def test_reported_jobs_make_room_for_the_next_claim(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that holds as many jobs as it may does not wait for its next poll."""
    monkeypatch.setattr(worker_module, "MAX_HELD", 4)
    app, done = App(), []
    app.intent("tiny")(lambda: done.append(1))
    worker = Worker(core, app, concurrency=4)
    worker.claimer.poll_s = 10 * DEADLINE_S
    worker.reporter.engine = held = Held(core.engine)  # type: ignore[assignment]
    submit_many(core, "tiny", 20)
    worker.start()
    try:
        until(lambda: len(done) == 4, "as many as it may hold")
        until(lambda: not worker.claimer._freed.is_set(), "a round that may claim nothing")
        held.open.set()
        until(lambda: states(core)["completed"] == 20, "all done")
    finally:
        worker.stop(grace_s=0)


def test_long_jobs_are_not_hoarded(core: Core) -> None:
    app, gate = App(), Gate()
    app.intent("long")(gate.pass_through)
    submit_many(core, "long", 20)
    with working(core, app, concurrency=3):
        until(lambda: len(gate.inside) == 3, "three started")
        assert states(core) == {"running": 3, "queued": 17}
        gate.open.set()
        until(lambda: states(core)["completed"] == 20, "all done")


def test_claims_that_are_never_started_go_back_and_are_not_claimed_again(core: Core) -> None:
    app, gate = App(), Gate()
    small: list[int] = []

    @app.intent("mixed")
    def mixed(n: int = 0) -> None:
        small.append(n)
        if n:
            gate.pass_through()

    with working(core, app, concurrency=1) as worker:
        submit_many(core, "mixed", 300)
        until(lambda: len(small) == 300, "the small ones")
        until(lambda: not len(worker.held_jobs))
        for _ in range(200):  # tiny, however slow the machine is
            worker.executor.threads.pace.note("mixed", 0.0001)
        long = [c.SubmitJob(new_id(), "default", "mixed", "P0", payload={"n": 1})]
        rest = [c.SubmitJob(new_id(), "default", "mixed") for _ in range(50)]
        core.engine.execute(
            [CommandRequest(each, c.Actor("test"), fresh=True) for each in long + rest]
        )
        until(lambda: gate.inside, "the long one")
        until(lambda: states(core)["queued"] == 50, "nothing is held behind the long one")
        with core.store.read() as view:
            head = view.head()
        # The claimer's next rounds, and the watch's, find nothing to do.
        for _ in range(3):
            worker.claimer.freed()
            until(lambda: not worker.claimer._freed.is_set(), "a round")
        with core.store.read() as view:
            assert view.head() == head
        gate.open.set()
        until(lambda: states(core)["completed"] == 351, "all done")


# ---- cancelling and limits ------------------------------------------------------------------


def test_a_cancel_ends_a_function_at_its_next_word(tmp_path: Path, url: str) -> None:
    app, cleaned = App(), []

    @app.intent("long")
    def long(run: Run) -> None:
        try:
            while True:
                run.log("still here")
                time.sleep(0.01)
        finally:
            cleaned.append(True)

    # The lease does not expire here, so the run was notified of the cancel.
    with (
        installation(tmp_path, url, lease_ms=3_600_000, worker_grace_ms=60_000) as core,
        working(core, app),
    ):
        handle = long.submit()
        until(lambda: handle.state() == "running")
        assert handle.cancel() == "requested"
        until(lambda: handle.state() == "cancelled", "the cancel")
    assert cleaned == [True]


def test_a_cancel_ends_a_coroutine_where_it_waits(core: Core) -> None:
    app, cleaned = App(), []

    @app.intent("long")
    async def long() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            cleaned.append(True)

    with working(core, app):
        handle = app.submit("long")
        until(lambda: handle.state() == "running")
        handle.cancel()
        until(lambda: handle.state() == "cancelled", "the cancel")
    assert cleaned == [True]


def test_a_success_after_the_cancel_was_heard_is_still_a_cancel(core: Core) -> None:
    app, gate = App(), Gate()
    app.intent("work")(gate.pass_through)
    with working(core, app) as worker:
        handle = app.submit("work")
        until(lambda: gate.inside)
        handle.cancel()
        until(lambda: any(held.stopped for held in worker.held_jobs), "the worker heard it")
        gate.open.set()
        until(lambda: handle.state() == "cancelled", "the cancel")


def test_a_function_that_does_not_hear_a_cancel_is_cancelled_at_the_end_of_its_lease(
    tmp_path: Path,
) -> None:
    app, gate = App(), Gate()
    app.intent("deaf")(gate.pass_through)
    with installation(
        tmp_path, lease_ms=1_500, worker_heartbeat_ms=100, worker_grace_ms=100
    ) as core:
        with working(core, app, concurrency=1):
            handle = app.submit("deaf")
            until(lambda: gate.inside)
            handle.cancel()
            until(lambda: handle.state() == "cancelled", "the lease's end")
            other = app.submit("deaf")
            until(lambda: len(gate.inside) >= 2, "its thread was replaced")
            gate.open.set()
            other.result(timeout=DEADLINE_S)
        assert handle.state() == "cancelled"


@pytest.mark.parametrize("kind", ["plain", "waited"])
def test_a_run_over_its_time_limit_is_timed_out_and_fenced(core: Core, kind: str) -> None:
    app, refused = App(), []
    go_on = threading.Event()

    @app.intent("plain", timeout_s=0.2, retry={"classes": {"timeout": {"retries": 0}}})
    def plain(run: Run) -> None:
        go_on.wait(DEADLINE_S)
        try:
            run.step("late", lambda: 1)
        except BaseException as error:
            refused.append(type(error).__name__)
            raise

    @app.intent("waited", timeout_s=0.2, retry={"classes": {"timeout": {"retries": 0}}})
    async def waited(run: AsyncRun) -> None:
        try:
            await asyncio.sleep(3_600)
        except BaseException as error:
            refused.append(type(error).__name__)
            raise

    with working(core, app):
        handle = app.submit(kind)
        with pytest.raises(JobFailed, match=r"ran longer than 0\.2 s") as raised:
            handle.result(timeout=DEADLINE_S)
        assert raised.value.error_class == "timeout"
        go_on.set()
        until(lambda: refused, "the late word")
    assert refused == ["Stopped" if kind == "plain" else "CancelledError"]
    with core.store.read() as view:
        names = [event.name for event in view.events(0, 100, stream=handle.job_id)]
    assert names[-2:] == ["run_timed_out", "job_failed"]


def test_a_run_without_a_sign_of_life_is_timed_out_as_idle(core: Core) -> None:
    app, go_on = App(), threading.Event()
    rounds: list[int] = []

    @app.intent("talker", idle_timeout_s=3_600, retry={"classes": {"timeout": {"retries": 0}}})
    def talker(run: Run, silent: bool) -> str:
        run.log("here")
        rounds.append(0)
        while not silent and not go_on.is_set():
            time.sleep(0.01)
            run.log("still here")
            rounds.append(1)
        go_on.wait(DEADLINE_S)
        return "done"

    with working(core, app) as worker:
        quiet, lively = talker.submit(silent=True), talker.submit(silent=False)
        until(lambda: rounds.count(0) == 2, "both have begun")
        for _ in range(2):  # an hour in all, of which one of them is never silent for long
            let_pass(worker, 2_000)
            words = len(rounds)
            until(lambda words=words: len(rounds) > words + 1, "it speaks again")  # type: ignore[misc]
        with pytest.raises(JobFailed, match="gave no sign of life"):
            quiet.result(timeout=DEADLINE_S)
        go_on.set()
        assert lively.result(timeout=DEADLINE_S) == "done"
    with core.store.read() as view:
        events = view.events(0, 100, stream=quiet.job_id)
    assert next(e.data for e in events if e.name == "run_timed_out").startswith('{"limit":"idle"')


# ---- several workers ------------------------------------------------------------------------


def test_two_workers_on_one_store_do_every_job_once(tmp_path: Path, url: str) -> None:
    done: list[str] = []
    apps = [App(), App()]
    for app in apps:

        def work(run: Run) -> None:
            done.append(run.job_id)

        app.intent("work")(work)
    with installation(tmp_path, url) as one, installation(tmp_path, url) as two:
        ids = submit_many(one, "work", 2_000)
        with working(one, apps[0], name="one"), working(two, apps[1], name="two"):
            until(lambda: states(one)["completed"] == 2_000, "all done")
    assert Counter(done) == Counter(ids)


def test_waits_and_retries_come_due_by_themselves(core: Core) -> None:
    app, tries = App(), []

    @app.intent("nap")
    def nap(run: Run) -> str:
        run.sleep(0.3)
        return "rested"

    @app.intent("flaky", retry={"delay_ms": 300})
    def flaky() -> str:
        tries.append(time.monotonic())
        if len(tries) == 1:
            raise ValueError("once")
        return "through"

    with working(core, app):
        handles = [nap.submit(), flaky.submit()]
        assert [handle.result(timeout=DEADLINE_S) for handle in handles] == ["rested", "through"]
    assert tries[1] - tries[0] > 0.29


def test_a_plan_runs_its_branches_at_the_same_time(core: Core) -> None:
    app = App()
    together = threading.Barrier(3)

    @app.intent("plain")
    def plain(n: int) -> int:
        together.wait(DEADLINE_S)
        return n

    @app.intent("waited")
    async def waited() -> str:
        await asyncio.to_thread(together.wait, DEADLINE_S)
        return "w"

    @app.intent("sum")
    def total(run: Run) -> list[str]:
        return sorted(map(str, run.results.values()))

    app.plan(
        "wide",
        [
            {"name": "a", "intent": "plain", "input": {"n": 1}},
            {"name": "b", "intent": "plain", "input": {"n": 2}},
            {"name": "c", "intent": "waited"},
            {"name": "d", "intent": "sum", "needs": ["a", "b", "c"]},
        ],
    )
    with working(core, app, concurrency=4):
        result = app.submit("wide").result(timeout=DEADLINE_S)
    assert result["d"] == ["1", "2", "w"]


def test_a_sleeping_step_goes_on_while_its_sibling_still_runs(core: Core) -> None:
    app, gate = App(), Gate()

    @app.intent("nap")
    def nap(run: Run) -> str:
        run.sleep(0.2)
        gate.open.set()
        return "rested"

    @app.intent("long")
    def long() -> str:
        gate.pass_through()
        return "long"

    app.plan("both", [{"name": "nap"}, {"name": "long"}])
    with working(core, app):
        assert app.submit("both").result(timeout=DEADLINE_S) == {"nap": "rested", "long": "long"}


def test_a_planner_and_a_replan_on_a_real_store(core: Core) -> None:
    app = App()

    @app.intent("try", critic=lambda result, history: "accept" if result.succeeded else "replan")
    def run(way: int) -> int:
        if way == 1:
            raise ValueError("wrong way")
        return way

    @app.planner("solve")
    def plan(request: Any) -> list[dict[str, Any]]:
        return [{"name": "go", "intent": "try", "input": {"way": request.version}}]

    with working(core, app):
        assert app.submit("solve").result(timeout=DEADLINE_S) == {"go": 2}


def test_a_worker_registers_its_intents_for_intake(core: Core) -> None:
    app = App()
    app.intent("work", retry={"retries": 1}, timeout_s=3)(lambda: 1)
    with working(core, app, name="w1") as worker:
        known = core.known_intents()
        row = {"retry": {"retries": 1}, "run_timeout_ms": 3_000, "critics": []}
        assert known["work"] == row
        with core.store.read() as view:
            assert view.rows("workers")["w1"]["intents"] == ["plan", "work"]
        assert worker.name == "w1"


def test_a_worker_inside_somebodys_own_event_loop(core: Core) -> None:
    app = App()

    @app.intent("work")
    async def work(n: int) -> int:
        return n + 1

    async def serve() -> int:
        async with Worker(core, app):
            return await work.submit(n=1).aresult(timeout=DEADLINE_S)

    assert asyncio.run(serve()) == 2
