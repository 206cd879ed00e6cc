"""`detent export` and `detent import`: archives, and queues of JSON lines."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from detent.kernel import commands as c
from detent.operations.evidence import attach_evidence
from detent.operations.manual_runs import begin_run, end_run
from detent.operations.registry import OWNER
from detent.service import open_core
from detent.settings_loader import load
from detent.testing.audit import audit
from tests.cli.conftest import Run


@pytest.fixture
def task(data: Path) -> str:
    """A task that is done, with evidence."""
    with open_core(load()) as core:
        person = c.Actor("person")
        core.engine.do(c.SubmitTask("t", "p", "board", "runQA", "cli", queue=True), person)
        begin_run(core, OWNER, job_id="t-j1")
        attach_evidence(core, OWNER, "t-j1-r1", "a.log", BytesIO(b"well"))
        end_run(core, OWNER, run_id="t-j1-r1", exit_code=0)
    return "t"


def test_a_task_goes_into_another_installation(
    run: Run, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(run("export", task, "task.zip", "--json").stdout)
    assert (made["task"], made["evidence"]) == (task, 1)
    checked = json.loads(run("export", "--verify", "task.zip", "--json").stdout)
    assert (checked["manifest"], checked["flaws"]) == (made["manifest"], [])
    assert "Clean" in run("export", "--verify", "task.zip").stdout
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path / "elsewhere"))
    assert "Imported t" in run("import", "task.zip").stdout
    assert "task_exists" in run("import", "task.zip", code=1).stderr
    saved = run("evidence", task, "--save", "saved").stdout.strip()
    assert Path(saved).read_bytes() == b"well"
    with open_core(load()) as core:
        audit(core.store)


def test_a_task_needs_its_lifecycle_in_the_other_installation(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = Path(__file__).parents[1] / "lifecycles" / "documents" / "seven_states.toml"
    run("lifecycle", "install", str(document))
    task = json.loads(run("submit", "runQA", "--lifecycle", "delivery", "--json").stdout)["id"]
    run("cancel", task)
    run("export", task, "task.zip")
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path / "elsewhere"))
    assert "lifecycle delivery, which is not installed" in run("import", "task.zip", code=3).stderr
    run("lifecycle", "install", str(document))
    assert f"Imported {task}" in run("import", "task.zip").stdout
    with open_core(load()) as core:
        audit(core.store)


def test_a_damaged_archive_is_reported_by_the_exit_code(
    run: Run, task: str, tmp_path: Path
) -> None:
    run("export", task, "task.zip")
    data = bytearray((tmp_path / "task.zip").read_bytes())
    data[60] ^= 1
    (tmp_path / "task.zip").write_bytes(data)
    assert "- " in run("export", "--verify", "task.zip", code=1).stdout
    (tmp_path / "task.zip").write_bytes(data[:100])
    assert "bad_archive" in run("export", "--verify", "task.zip", code=1).stderr
    assert "bad_archive" in run("import", "task.zip", code=1).stderr


def test_export_needs_a_task_and_a_file(run: Run, task: str) -> None:
    assert "Give TASK and FILE" in run("export", task, code=2).stderr
    assert "unknown_task" in run("export", "unknown", "x.zip", code=3).stderr


# ---- lines ---------------------------------------------------------------------------------


def line(task_id: str, **fields: Any) -> str:
    known = {"taskId": task_id, "source": "n8n", "intent": "runQA", "priority": "P1"}
    payload = {"project": "demo"}
    return json.dumps({**known, "payload": payload, "createdAt": "2024-05-01", **fields})


def test_a_queue_of_lines_is_imported_once(run: Run, tmp_path: Path) -> None:
    lines = [line("one"), "", line("two"), "no json", line("three", intent="nothing"), "[]", "{}"]
    (tmp_path / "queue.jsonl").write_text("\n".join(lines) + "\n")
    first = json.loads(run("import", "queue.jsonl", "--json", code=1).stdout)
    assert (first["queued"], first["known"]) == (2, 0)
    assert [(each["line"], each["code"]) for each in first["refused"]] == [
        (4, "unreadable"),
        (5, "unknown_intent"),
        (6, "invalid"),
        (7, "invalid"),
    ]
    assert json.loads(run("show", "one", "--json").stdout)["task"]["project"] == "demo"
    before = run("events", "--json").stdout
    second = json.loads(run("import", "queue.jsonl", "--json", code=1).stdout)
    assert (second["queued"], second["known"], len(second["refused"])) == (0, 2, 4)
    assert run("events", "--json").stdout == before


def test_what_became_of_a_known_task_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "queue.jsonl").write_text(line("one"))
    assert "1 queued" in run("import", "queue.jsonl").stdout
    run("cancel", "one")
    assert "0 queued, 1 already known" in run("import", "queue.jsonl").stdout
    (tmp_path / "queue.jsonl").write_text(line("one", payload={"other": 1}))
    refused = run("import", "queue.jsonl", code=1)
    assert "line 1: task one exists with another source, intent or payload" in refused.stderr


def test_an_endless_line_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "queue.jsonl").write_bytes(b" " * 2_000_000)
    assert "longer than 1,048,576 bytes" in run("import", "queue.jsonl", code=2).stderr
