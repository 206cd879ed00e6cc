"""Faults that no code expects: the component goes on, and no caller waits without end."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.engine import Engine
from detent.keeper.keeper import Duty, Keeper
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.store.memory import MemoryStore
from tests.worker.waiting import DEADLINE_S, installation, until, working


def test_callers_of_a_batch_that_fails_hear_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those whom another thread serves."""
    engine = Engine(MemoryStore())
    monkeypatch.setattr(engine, "_results", _raise)
    posted = engine.enqueue([])
    with pytest.raises(RuntimeError, match="unexpected"):
        engine.do(c.SubmitJob("j", "default", "work"), c.Actor("test"))
    with pytest.raises(RuntimeError, match="unexpected"):
        posted.result()


def _raise(*_: Any) -> Any:
    raise RuntimeError("unexpected")


def test_a_keeper_goes_on_after_a_pass_that_failed(tmp_path: Path) -> None:
    passes: list[int] = []

    def fail_once(_: Core) -> int:
        passes.append(len(passes))
        if len(passes) == 1:
            raise RuntimeError("unexpected")
        return 1

    with installation(tmp_path, keeper_interval_ms=10) as core:
        keeper = Keeper(core, "k", [Duty("duty", 10, fail_once)])
        keeper.start()
        until(lambda: len(passes) > 1, "the next pass")
        keeper.stop()


def test_a_plan_whose_worker_meets_a_fault_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from detent.worker.plan_runner import PlanRun

    active_run, failed = PlanRun._active_run, threading.Event()

    def fail_once(self: PlanRun, *args: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("unexpected")
        return active_run(self, *args)

    monkeypatch.setattr(PlanRun, "_active_run", fail_once)
    app = App()
    app.register("part", lambda: 1, {})
    app.plan("planned", [{"name": "only", "intent": "part"}])
    with (
        installation(tmp_path, lease_ms=1_500, worker_heartbeat_ms=50, worker_poll_ms=20) as core,
        working(core, app),
    ):
        handle = app.submit("planned")
        assert handle.result(timeout=DEADLINE_S) == {"only": 1}
    assert failed.is_set()


def test_an_included_app_is_connected_with_the_one_that_includes_it(tmp_path: Path) -> None:
    inner, outer = App(), App()
    inner.command("say", [sys.executable, "-S", "-c", "pass"])
    outer.include(inner)
    with installation(tmp_path) as core, working(core, outer):
        assert outer.submit("say").result(timeout=DEADLINE_S) is None


SERVE = """
import sys
from verification.fault_injection.process_roles import play
play({"settings": {"store_data_dir": sys.argv[1], "gateway_port": 0}, "role": "opener",
      "directory": sys.argv[1], "name": "one"})
"""


def test_a_stop_that_comes_while_it_is_stopped_is_heard(tmp_path: Path) -> None:
    """The kernel may then give the signal to any thread, and only one of them can act on it."""
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(tmp_path)])
    until((tmp_path / "one.ready").exists, "it is up")
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(number)
    assert process.wait(DEADLINE_S) == 0
