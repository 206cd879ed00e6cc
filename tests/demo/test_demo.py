"""`detent demo` succeeds, leaves nothing behind, and fails if an expectation is not met."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import psutil
import pytest
from click.testing import CliRunner

from detent.cli.main import INTERRUPTED, cli
from detent.demo import demo_script
from detent.demo.demo_script import REVIEW_WAIT_S, DemoOptions, DemoScript
from detent.demo.expected_events import EXPECTATIONS, Event, Expectation, is_met
from detent.demo.processes import DemoProcesses
from detent.errors import Refused


def test_the_demo_meets_its_expectations_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detent", "demo", "--terminal", "--quick", "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    claims = json.loads(done.stdout)["claims"]
    assert claims == dict.fromkeys(("question", "budget", "switch", "kill", "review"), True)
    assert "Killed. Parts sent so far: 1" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert [each for each in psutil.process_iter() if str(tmp_path) in _cwd(each)] == []


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "detent", "demo", "--terminal", "--quick"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    with demo, demo.stdout as output:
        assert any("The gateway listens on" in line for line in output)
        os.killpg(demo.pid, signal.SIGINT)  # a terminal signals the whole process group
        assert (
            "Stopped. All processes of the demo have ended; its data is deleted." in output.read()
        )
    assert demo.returncode == INTERRUPTED
    assert list(tmp_path.iterdir()) == []
    assert [each for each in psutil.process_iter() if str(tmp_path) in _cwd(each)] == []


class PersonAccepts:
    """Processes in which a person accepts the task at a given query of the events."""

    directory = Path("demo")

    def __init__(self, accepts_at: float) -> None:
        self.queries = 0
        self.accepts_at = accepts_at
        self.typed: list[str] = []

    def events(self, _: str) -> list[Event]:
        self.queries += 1
        accepted = self.queries >= self.accepts_at or self.typed
        return [{"name": "task_accepted"}] if accepted else []

    def within(self, look: Callable[[], bool], seconds: float) -> bool:
        assert seconds == REVIEW_WAIT_S
        return look()

    def detent(self, *arguments: str) -> str:
        if self.queries >= self.accepts_at - 1:
            raise Refused("It was accepted a moment ago.")
        self.typed.append(arguments[0])
        return ""

    until = DemoProcesses.until
    processes: ClassVar[dict[str, Any]] = {}


@pytest.mark.parametrize(
    ("accepts_at", "typed", "thanked"), [(1, [], True), (2, [], False), (99, ["accept"], False)]
)
def test_a_person_may_accept_before_the_demo_does(
    monkeypatch: pytest.MonkeyPatch, accepts_at: int, typed: list[str], thanked: bool
) -> None:
    monkeypatch.setattr(demo_script, "PAUSE_S", 0)
    output: list[str] = []
    processes = PersonAccepts(accepts_at)
    script = DemoScript(
        cast(DemoProcesses, processes),
        DemoOptions(output.append, "detent", open_browser=output.append),
    )
    script.tasks["fix"] = "t"
    script._act_as_person(
        "Accept the work", "accept", "t", event="task_accepted", wait_s=REVIEW_WAIT_S
    )
    assert processes.typed == typed
    assert ("You did it. Thank you." in output) is thanked


def _cwd(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


def _matching_log(expectation: Expectation) -> list[Event]:
    """A log that meets an expectation: one event for each of its matches."""
    reasons = ("question", "budget", "worker_lost", None)
    known = (
        "task_blocked",
        "task_answered",
        "run_joined",
        "budget_raised",
        "step_failed_resource",
        "step_switching_resource",
        "job_completed",
        "checkpoint_recorded",
        "run_cancelled",
        "job_running",
        "task_ready",
        "task_accepted",
    )
    every = [
        {"name": name, "data": {"reason": reason}, "subject": ""}
        for name in known
        for reason in reasons
    ]
    found = [next(each for each in every if match(each)) for match in expectation.proof]
    return [{**each, "subject": str(number)} for number, each in enumerate(found)]


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda expectation: expectation.name)
def test_an_expectation_needs_each_of_its_events_in_order(expectation: Expectation) -> None:
    log = _matching_log(expectation)
    assert is_met(expectation, log)
    for number in range(len(log)):
        assert not is_met(expectation, log[:number] + log[number + 1 :])
    assert not is_met(expectation, log[::-1])


def test_a_part_that_was_recorded_twice_fails_the_kill() -> None:
    kill = next(expectation for expectation in EXPECTATIONS if expectation.name == "kill")
    log = _matching_log(kill)
    assert not is_met(kill, [*log, log[0]])


def test_an_expectation_that_is_not_met_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DemoScript, "run", lambda _: {"question": True, "kill": False})
    assert CliRunner().invoke(cli, ["demo", "--terminal"]).exit_code == 1
    monkeypatch.setattr(DemoScript, "run", lambda _: {"question": True, "kill": True})
    assert CliRunner().invoke(cli, ["demo", "--terminal"]).exit_code == 0
