"""`detent demo` tells a true story, leaves nothing behind, and says so when it is not true."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from detent.cli.main import cli
from detent.demo.claims import CLAIMS, Claim, Event, holds
from detent.demo.story import Story


def test_the_whole_story_is_true_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detent", "demo", "--terminal", "--quick", "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    claims = json.loads(done.stdout)["claims"]
    assert claims == dict.fromkeys(("question", "budget", "switch", "kill", "review"), True)
    assert "Killed. Parts sent so far: 1, 2, 3" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert [each for each in psutil.process_iter() if str(tmp_path) in _cwd(each)] == []


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
