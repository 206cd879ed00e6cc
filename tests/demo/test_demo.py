"""`detent demo` tells a true story, leaves nothing behind, and says so when it is not true."""

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
from detent.demo import story
from detent.demo.expected_events import CLAIMS, Claim, Event, holds
from detent.demo.processes import Stage
from detent.demo.story import REVIEW_S, Manner, Story
from detent.errors import Refused


def test_the_whole_story_is_true_and_leaves_nothing_behind(tmp_path: Path) -> None:
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
    with demo, demo.stdout as said:
        assert any("It listens on" in line for line in said)
        os.killpg(demo.pid, signal.SIGINT)  # a terminal tells the whole group
        assert "Stopped. What it started has ended, and nothing is left." in said.read()
    assert demo.returncode == INTERRUPTED
    assert list(tmp_path.iterdir()) == []
    assert [each for each in psutil.process_iter() if str(tmp_path) in _cwd(each)] == []


class Onlooker:
    """A stage on which a person may accept, at a look of the demo's own choice."""

    directory = Path("demo")

    def __init__(self, accepts_at: float) -> None:
        self.looks = 0
        self.accepts_at = accepts_at
        self.typed: list[str] = []

    def events(self, _: str) -> list[Event]:
        self.looks += 1
        accepted = self.looks >= self.accepts_at or self.typed
        return [{"name": "task_accepted"}] if accepted else []

    def within(self, look: Callable[[], bool], seconds: float) -> bool:
        assert seconds == REVIEW_S
        return look()

    def detent(self, *arguments: str) -> str:
        if self.looks >= self.accepts_at - 1:
            raise Refused("It was accepted a moment ago.")
        self.typed.append(arguments[0])
        return ""

    until = Stage.until
    processes: ClassVar[dict[str, Any]] = {}


@pytest.mark.parametrize(
    ("accepts_at", "typed", "thanked"), [(1, [], True), (2, [], False), (99, ["accept"], False)]
)
def test_a_person_may_accept_before_the_demo_does(
    monkeypatch: pytest.MonkeyPatch, accepts_at: int, typed: list[str], thanked: bool
) -> None:
    monkeypatch.setattr(story, "PAUSE_S", 0)
    said: list[str] = []
    stage = Onlooker(accepts_at)
    told = Story(cast(Stage, stage), Manner(said.append, open_page=said.append))
    told.tasks["fix"] = "t"
    told._person("Accept it", "accept", "t", event="task_accepted", patience_s=REVIEW_S)
    assert stage.typed == typed
    assert ("You did. Thank you." in said) is thanked


def _cwd(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


def _proof(claim: Claim) -> list[Event]:
    """A log that proves a claim, made by asking each of its matches."""
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
    found = [next(each for each in every if match(each)) for match in claim.proof]
    return [{**each, "subject": str(number)} for number, each in enumerate(found)]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_needs_each_of_its_events_in_order(claim: Claim) -> None:
    proof = _proof(claim)
    assert holds(claim, proof)
    for number in range(len(proof)):
        assert not holds(claim, proof[:number] + proof[number + 1 :])
    assert not holds(claim, proof[::-1])


def test_a_part_that_was_recorded_twice_refutes_the_kill() -> None:
    kill = next(claim for claim in CLAIMS if claim.name == "kill")
    proof = _proof(kill)
    assert not holds(kill, [*proof, proof[0]])


def test_a_claim_that_is_not_so_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Story, "tell", lambda _: {"question": True, "kill": False})
    assert CliRunner().invoke(cli, ["demo", "--terminal"]).exit_code == 1
    monkeypatch.setattr(Story, "tell", lambda _: {"question": True, "kill": True})
    assert CliRunner().invoke(cli, ["demo", "--terminal"]).exit_code == 0
