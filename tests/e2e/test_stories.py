"""Whole stories with real processes: a network that fails, kills in every state, families."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.installation import Installation, wait_until
from tests.e2e.moved import Moved

APP = """
import time
from pathlib import Path

import detent

app = detent.App()
LATER = {"classes": {"network": {"delay_ms": 60_000}}}


@app.intent("checkQA", retry=LATER)
def check(run: detent.Run, project: str, flag: str) -> str:
    if not Path(flag).exists():
        raise detent.NetworkError("the registry does not answer")
    run.evidence("QA-DECISION.md", f"{project}: pass")
    return "pass"


@app.intent("careful")
def careful(run: detent.Run, marks: str) -> str:
    def once() -> None:
        with Path(marks).open("a") as file:
            file.write("once\\n")

    run.step("once", once)
    Path(marks + ".kept").touch()
    while not Path(marks + ".go").exists():
        run.progress(0.5)
        time.sleep(0.05)
    return run.ask("Go on?", ["yes", "no"])


@app.intent("part", retry={"retries": 0})
def part(run: detent.Run, number: int, flag: str) -> int:
    if number == 2 and not Path(flag).exists():
        raise ValueError("part 2 is missing")
    return number


@app.intent("whole")
def whole(run: detent.Run, flag: str) -> None:
    for number in (1, 2, 3):
        run.subtask(part, {"number": number, "flag": flag}, name=f"part-{number}")


@app.intent("never", retry={"retries": 0})
def never() -> None:
    raise ValueError("it cannot be done")
"""
QUICK = "[worker]\nlease_ms = 2000\nheartbeat_ms = 500\n"


@pytest.fixture
def detent(tmp_path: Path) -> Iterator[Moved]:
    installation = Moved(tmp_path)
    (installation.project / "own.py").write_text(APP)
    (installation.project / "detent.toml").write_text(QUICK)
    installation.data = installation.project / ".detent"
    installation.start("--app", "own:app")
    yield installation
    installation.stop()


def clean(detent: Installation, *accepted: str) -> None:
    verified = detent.run("verify", *accepted)
    assert verified.returncode == 0, verified.stdout


def state_file(detent: Installation) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((detent.data / "state.json").read_text())
    return document


def restarted(detent: Installation) -> None:
    """Everything dies as when the power fails, and is started again."""
    detent.kill()
    detent.start("--app", "own:app")


def test_a_network_failure_blocks_a_board_task_until_its_retry(
    detent: Moved, tmp_path: Path
) -> None:
    flag = tmp_path / "up"
    body = {"source": "cloudcode", "intent": "checkQA", "priority": "P0"}
    payload = {"project": "quality", "flag": str(flag)}
    task_id = detent.post("/add", {**body, "payload": payload}).json()["taskId"]
    blocked = detent.wait_for(task_id, "blocked")
    assert (blocked["blocked_by"], blocked["priority"]) == ("retry", "P0")
    wait_until(lambda: (state_file(detent)["lastRun"] or {}).get("state") == "failed", "the file")
    flag.touch()
    detent.pass_time(61)
    detent.wait_for(task_id, "done")
    assert detent.events(task_id) == [
        *("task_created", "task_queued", "job_created"),
        *("job_running", "run_queued", "run_started", "task_started"),
        *("run_failed", "job_retrying", "task_blocked"),
        *("job_requeued", "task_unblocked"),
        *("job_running", "run_queued", "run_started", "task_started"),
        *("evidence_added", "run_succeeded", "job_completed", "task_completed"),
    ]
    wait_until(lambda: state_file(detent)["lastRun"]["state"] == "succeeded", "the second run")
    assert state_file(detent)["queueLength"] == 0
    # One of two runs failed: below 80 %.
    wait_until(lambda: state_file(detent)["health"] == "unhealthy", "the verdict")
    (kept,) = detent.get(f"/api/tasks/{task_id}/evidence")["items"]
    assert (kept["file"], kept["kind"]) == ("QA-DECISION.md", "qa_report")
    # The clock was moved while events were not in the hash chain yet, so that they came late.
    clean(detent, "--accept-unsealed")


def test_killed_in_every_state_it_loses_nothing_and_does_nothing_twice(
    detent: Installation, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    task_id = detent.json("submit", "careful", "--hold", "--set", f"marks={marks}")["id"]
    restarted(detent)
    assert detent.task(task_id)["state"] == "pending"
    assert detent.run("run", task_id).returncode == 0
    wait_until((tmp_path / "marks.kept").exists, "the end of the step")
    restarted(detent)
    (tmp_path / "marks.go").touch()
    detent.wait_for(task_id, "blocked")
    restarted(detent)
    assert detent.task(task_id)["blocked_by"] == "question"
    assert detent.run("answer", task_id, "yes").returncode == 0
    detent.wait_for(task_id, "ready")
    restarted(detent)
    assert detent.run("accept", task_id).returncode == 0
    restarted(detent)
    assert detent.task(task_id)["state"] == "completed"
    assert marks.read_text() == "once\n"
    clean(detent)


def test_a_parent_waits_for_its_subtasks_and_for_the_one_that_failed(
    detent: Installation, tmp_path: Path
) -> None:
    flag = tmp_path / "found"
    task_id = detent.json("submit", "whole", "--set", f"flag={flag}")["id"]

    def ended() -> list[dict[str, Any]] | None:
        subtasks = detent.get(f"/api/tasks/{task_id}/subtasks")["items"]
        over = [each for each in subtasks if each["state"] in ("completed", "failed")]
        return over if len(over) == 3 else None

    parts = wait_until(ended, "three ends")
    assert sorted(each["state"] for each in parts) == ["completed", "completed", "failed"]
    (failed,) = [each for each in parts if each["state"] == "failed"]
    parent = detent.wait_for(task_id, "blocked")
    assert (parent["blocked_by"], parent["failed_subtask"]) == ("subtasks", failed["id"])
    assert failed["id"] in detent.run("why", task_id).stdout
    flag.touch()
    assert detent.run("retry", failed["id"]).returncode == 0
    detent.wait_for(task_id, "ready")
    assert detent.run("accept", task_id).returncode == 0
    clean(detent)


def test_a_dependency_that_fails_fails_what_waits_for_it(detent: Installation) -> None:
    first = detent.json("submit", "never", "--hold")["id"]
    second = detent.json("submit", "never", "--depends-on", first)["id"]
    assert detent.task(second)["state"] == "queued"
    assert first in detent.run("why", second).stdout
    assert detent.run("run", first).returncode == 0
    detent.wait_for(first, "failed")
    failed = detent.wait_for(second, "failed")
    assert failed["failed_dependency"] == first
    assert detent.get(f"/api/tasks/{second}/runs")["items"] == []
    waited = detent.run("submit", "never", "--wait")
    assert (waited.returncode, "it cannot be done" in waited.stdout) == (10, True), waited.stdout
    clean(detent)
