"""A worker that claims ahead: what it cannot start goes back, and nothing is lost or run twice."""

import asyncio
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest

from detent.app.app import App
from detent.engine import CommandRequest, claims, due_timers
from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import EndPause, SetPause
from detent.operations.context import Core
from detent.store.job_sets import MAX_CLAIMED
from detent.worker.worker import Worker
from tests.worker.waiting import DEADLINE_S, Gate, states, until, working

ACTOR = c.Actor("test")
WARM_UP = 40
JOBS = 300


class Shifting:
    """An app whose handler is short until a test makes it wait; counts the runs of each job."""

    def __init__(self, awaited: bool) -> None:
        self.app, self.gate = App(), Gate()
        self.runs: Counter[str] = Counter()
        self.slow = False
        self._lock = threading.Lock()
        if awaited:
            self.app.intent("work")(self._work_async)
        else:
            self.app.intent("work")(self._work)

    def _note(self, name: str) -> None:
        with self._lock:
            self.runs[name] += 1

    def _work(self, name: str) -> None:
        self._note(name)
        if self.slow:
            self.gate.pass_through(name)

    async def _work_async(self, name: str) -> None:
        self._note(name)
        if self.slow:
            self.gate.inside.append(name)
            while not self.gate.open.is_set():
                await asyncio.sleep(0.005)


def submit(core: Core, prefix: str, count: int) -> set[str]:
    names = {f"{prefix}{number}" for number in range(count)}
    core.engine.execute(
        [
            CommandRequest(c.SubmitJob(name, "default", "work", payload={"name": name}), ACTOR)
            for name in sorted(names)
        ],
        bulk=True,
    )
    return names


@pytest.fixture(params=["threads", "coroutines"])
def shifting(request: pytest.FixtureRequest) -> Shifting:
    return Shifting(request.param == "coroutines")


def warm(core: Core, worker: Worker) -> None:
    """Let the worker learn that the handler is short, however slow the machine is."""
    submit(core, "warm", WARM_UP)
    until(lambda: states(core)["completed"] == WARM_UP)
    for pool in worker.claimer.pools:
        pace = pool.pool.pace
        for _ in range(200):
            pace.note("work", 0.000_1)
        pace._interval_s = 0.0


def test_short_runs_are_claimed_in_large_batches(
    core: Core, shifting: Shifting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    claim = core.engine.claim

    def counted(ask: object) -> object:
        claimed = claim(ask)  # type: ignore[arg-type]
        sizes.append(len(claimed))
        return claimed

    monkeypatch.setattr(core.engine, "claim", counted)
    with working(core, shifting.app, concurrency=2, coroutines=2) as worker:
        warm(core, worker)
        sizes.clear()
        core.engine.do(SetPause("intent:work"), ACTOR)
        names = submit(core, "job", JOBS)
        core.engine.do(EndPause("intent:work"), ACTOR)
        until(lambda: states(core)["completed"] == WARM_UP + JOBS)
    assert max(sizes) > 20
    assert all(shifting.runs[name] == 1 for name in names)


def test_no_claim_asks_for_more_than_one_round_trip_takes(
    core: Core, shifting: Shifting, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    claim = core.engine.claim

    def noted(ask: claims.ClaimRequest) -> object:
        asked.append(ask.most)
        return claim(ask)

    monkeypatch.setattr(core.engine, "claim", noted)
    with working(core, shifting.app, concurrency=2, coroutines=2) as worker:
        warm(core, worker)
        asked.clear()
        submit(core, "job", JOBS)
        until(lambda: states(core)["completed"] == WARM_UP + JOBS)
    assert max(asked) == MAX_CLAIMED


def test_what_waits_behind_runs_that_turn_out_long_goes_back(
    core: Core, shifting: Shifting
) -> None:
    with working(core, shifting.app, name="first", concurrency=2, coroutines=2) as worker:
        warm(core, worker)
        core.engine.do(SetPause("intent:work"), ACTOR)
        names = submit(core, "job", JOBS)
        shifting.slow = True
        core.engine.do(EndPause("intent:work"), ACTOR)
        until(lambda: len(shifting.gate.inside) == 2)
        until(lambda: len(worker.held_jobs) == 2)
        assert states(core)["running"] == 2
        shifting.slow = False
        with working(core, shifting.app, name="second", concurrency=2, coroutines=2):
            until(lambda: states(core)["completed"] == WARM_UP + JOBS - 2)
        shifting.gate.open.set()
        until(lambda: states(core)["completed"] == WARM_UP + JOBS)
    assert all(shifting.runs[name] == 1 for name in names)


def test_a_stop_with_a_large_claim_loses_nothing(core: Core, shifting: Shifting) -> None:
    first = Worker(core, shifting.app, concurrency=2, coroutines=2)
    first.start()
    warm(core, first)
    core.engine.do(SetPause("intent:work"), ACTOR)
    names = submit(core, "job", JOBS)
    core.engine.do(EndPause("intent:work"), ACTOR)
    until(lambda: any(name in shifting.runs for name in names))
    first.stop(grace_s=DEADLINE_S)
    found = states(core)
    assert found["running"] == 0
    assert sum(found.values()) == WARM_UP + JOBS
    assert sum(shifting.runs[name] for name in names) == found["completed"] - WARM_UP
    with working(core, shifting.app):
        until(lambda: states(core)["completed"] == WARM_UP + JOBS)
    assert all(shifting.runs[name] == 1 for name in names)


def _is(found: list[int], count: int) -> bool:
    return len(found) == count


def test_a_pick_up_reads_nothing_before_the_claim(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every read before it would be another round trip on PostgreSQL."""
    calls: list[str] = []

    def noted(name: str, call: Any) -> Any:
        def noting(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread().name == "detent-claimer":
                calls.append(name)
            return call(*args, **kwargs)

        return noting

    monkeypatch.setattr(core.store, "read", noted("read", core.store.read))
    monkeypatch.setattr(claims, "run", noted("claim", claims.run))
    monkeypatch.setattr(due_timers, "run", noted("due", due_timers.run))
    app, done = App(), []
    app.intent("work")(lambda: done.append(1))
    with working(core, app):
        for number in range(3):
            app.submit("work")
            until(partial(_is, done, number + 1))
        until(lambda: "due" in calls)
    assert calls[0] == "claim"
    assert "read" not in calls
