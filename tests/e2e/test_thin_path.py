"""One thin path through everything, with real processes, and through a kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import Installation, wait_until

APP = """
import time
from pathlib import Path

import detent

app = detent.App()


@app.intent("greet")
def greet(run: detent.Run, name: str) -> dict:
    hello = run.step("hello", lambda: f"hello {name}")
    reply = run.ask("Shall I go on?", choices=["yes", "no"])
    return {"hello": hello, "reply": reply}


@app.intent("slow")
def slow(run: detent.Run, marks: str) -> str:
    def first() -> None:
        with Path(marks).open("a") as file:
            file.write("first\\n")

    run.step("first", first)
    Path(marks + ".kept").touch()
    while not Path(marks + ".go").exists():
        run.progress(0.5, "waiting")
        time.sleep(0.05)
    return "done"
"""

SEED_BODY = {
    "source": "cloudcode",
    "intent": "runQA",
    "priority": "P0",
    "payload": {"project": "cecelia-quality"},
}


@pytest.fixture
def detent(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    (installation.project / "own.py").write_text(APP)
    yield installation
    installation.stop()


def test_the_curl_line_runs_the_projects_tests(detent: Installation) -> None:
    (detent.project / "test_small.py").write_text("def test_small():\n    assert 1 + 1 == 2\n")
    detent.start()
    answer = detent.post("/add", SEED_BODY)
    assert answer.status_code == 201, answer.text
    task_id = answer.json()["taskId"]
    detent.wait_for(task_id, "done")
    assert detent.events(task_id) == [
        "task_created",
        "task_queued",
        "job_created",
        "job_running",
        "run_queued",
        "run_started",
        "task_started",
        "evidence_added",
        "run_succeeded",
        "job_completed",
        "task_completed",
    ]
    shown = detent.run("tasks")
    assert "done" in shown.stdout
    assert "runQA" in shown.stdout
    assert "1 passed" in detent.run("logs", task_id).stdout
    assert detent.get("/status") == {
        "queueLength": 0,
        "byPriority": dict.fromkeys(("P0", "P1", "P2", "P3"), 0),
    }
    verified = detent.run("verify")
    assert verified.returncode == 0, verified.stdout


def test_a_question_an_answer_a_rejection_and_an_acceptance(detent: Installation) -> None:
    detent.start("--app", "own:app")
    task_id = detent.json("submit", "greet", "--set", "name=world")["id"]
    detent.wait_for(task_id, "blocked")
    waiting = detent.json("inbox")["items"]
    assert [item["blocked_detail"]["text"] for item in waiting] == ["Shall I go on?"]
    refused = detent.run("answer", task_id, "perhaps")
    assert refused.returncode == 1
    assert "yes, no" in refused.stderr
    assert detent.run("answer", task_id, "yes").returncode == 0
    detent.wait_for(task_id, "ready")
    assert detent.run("reject", task_id, "--comment", "say it again", "--run").returncode == 0
    detent.wait_for(task_id, "blocked")
    assert detent.run("answer", task_id, "no").returncode == 0
    detent.wait_for(task_id, "ready")
    assert detent.run("accept", task_id).returncode == 0
    task = detent.task(task_id)
    assert (task["state"], task["rounds"]) == ("completed", 1)
    jobs = detent.get(f"/api/tasks/{task_id}/jobs")["items"]
    assert [job["result"] for job in jobs] == [
        {"hello": "hello world", "reply": "yes"},
        {"hello": "hello world", "reply": "no"},
    ]


def test_a_kill_in_mid_run_loses_nothing(detent: Installation, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    (detent.project / "detent.toml").write_text("[worker]\nlease_ms = 2000\nheartbeat_ms = 500\n")
    detent.data = detent.project / ".detent"
    detent.start("--app", "own:app")
    task_id = detent.json("submit", "slow", "--set", f"marks={marks}")["id"]
    wait_until((tmp_path / "marks.kept").exists, "the end of the first step")
    detent.kill()
    (tmp_path / "marks.go").touch()
    detent.start("--app", "own:app")
    detent.wait_for(task_id, "ready")
    assert marks.read_text() == "first\n", "a finished step never runs again"
    assert "run_cancelled" in detent.events(task_id)
    verified = detent.run("verify")
    assert verified.returncode == 0, verified.stdout


def test_bad_input_gets_a_clear_answer_and_stores_nothing(detent: Installation) -> None:
    detent.start()
    for body, field in (
        ({**SEED_BODY, "intent": "danceQA"}, "intent"),
        ({**SEED_BODY, "source": "unknown"}, "source"),
        ({**SEED_BODY, "priority": "P9"}, "priority"),
    ):
        answer = detent.post("/add", body)
        assert answer.status_code == 422, answer.text
        problem = answer.json()
        assert problem["field"] == field
        assert problem["allowed"]
    assert detent.post("/add", SEED_BODY, Authorization="Bearer wrong").status_code == 401
    for command, code in (
        (("show", "nothing"), 3),
        (("submit", "danceQA"), 2),
        (("lifecycle", "show", "nothing"), 3),
        (("accept", "nothing"), 3),
    ):
        done = detent.run(*command)
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith("detent: ")
        assert "Traceback" not in done.stderr
    assert detent.get("/api/tasks")["items"] == []
