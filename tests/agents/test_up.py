"""Agents under `detent up`, configured in detent.toml: run tokens, a review, and kills."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.client import Client
from detent.errors import Refused
from detent.testing import stand_in_agent
from tests.e2e.installation import Installation, wait_until
from tests.operations.commented_task import FIRST, SECOND, lines

CONFIG = """
[worker]
lease_ms = 5000
heartbeat_ms = 500

[agents.claude]
argv = {argv}
variables = {{ STAND_IN_SCRIPT = {script} }}

[intents.fixBug]
agent = "claude"
prompt = "Fix this bug: {{payload.bug}}"
subtask_intents = ["fixBug"]
"""
ARGV: list[Any] = [
    *(sys.executable, stand_in_agent.__file__, "-p", "{prompt}"),
    ["--session-id", "{session_id}"],
    ["--resume", "{resume_id}"],
]


@pytest.fixture
def detent(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    installation.data = installation.project / ".detent"
    yield installation
    installation.stop()


def configure(detent: Installation, *runs: list[dict[str, Any]]) -> None:
    script = detent.project / "script.json"
    script.write_text(json.dumps({"runs": runs}))
    text = CONFIG.format(argv=json.dumps(ARGV), script=json.dumps(str(script)))
    (detent.project / "detent.toml").write_text(text)


def submit(detent: Installation) -> str:
    body = {"intent": "fixBug", "payload": {"bug": "a leak"}, "run": True}
    answer = detent.post("/api/tasks", body)
    assert answer.status_code == 201, answer.text
    task_id: str = answer.json()["id"]
    return task_id


def test_an_agent_continues_after_a_kill_and_reports_over_its_run_token(
    detent: Installation,
) -> None:
    configure(
        detent,
        [{"cost": 0.1}, {"say": "half way"}, {"hang": 120}],
        [
            {"post": ["/api/run/progress", {"progress": 0.9, "note": "nearly"}]},
            {"post": ["/api/run/evidence", {"name": "QA-DECISION.md", "text": "PASS"}]},
            {"post": ["/api/run/ask", {"text": "Shall I?", "options": ["yes", "no"]}]},
        ],
        [{"cost": 0.2}, {"finish": {"result": "no more leak"}}],
    )
    detent.start()
    task_id = submit(detent)
    wait_until(lambda: "half way" in detent.run("logs", task_id).stdout, "the agent works")
    session = detent.task(task_id)["session_id"]
    detent.kill()
    detent.start()
    task = detent.wait_for(task_id, "blocked")
    assert (task["blocked_by"], task["blocked_detail"]["text"]) == ("question", "Shall I?")
    evidence = detent.get(f"/api/tasks/{task_id}/evidence")["items"]
    assert [(each["file"], each["kind"]) for each in evidence] == [("QA-DECISION.md", "qa_report")]
    assert detent.run("answer", task_id, "yes").returncode == 0
    task = detent.wait_for(task_id, "ready")
    assert (task["session_id"], task["spent"]) == (session, 0.3)
    assert detent.run("accept", task_id).returncode == 0
    assert detent.task(task_id)["state"] == "completed"
    session = json.loads(
        next((detent.data / "agents").glob("claude/projects/*/*.json")).read_text()
    )
    assert [text.partition("\n")[0] for text in session["prompts"]] == [
        "Fix this bug: a leak",
        "Your previous execution was interrupted. Please continue where you left off.",
        "You asked: Shall I?",
    ]


def test_comments_reach_the_agent_again_after_a_kill_and_are_answered_once(
    detent: Installation,
) -> None:
    configure(
        detent,
        [{"evidence": {"changes.diff": FIRST}}],
        [{"say": "half way"}, {"hang": 120}],
        [{"evidence": {"changes.diff": SECOND}}, {"reply": {"http": "Done."}}],
    )
    detent.start()
    task_id = submit(detent)
    detent.wait_for(task_id, "ready")
    with Client(detent.url, detent.token) as client:
        first = client.call("task_comments", task_id=task_id)["diff"]
        client.call("add_comment", task_id=task_id, **lines(first))
        client.call("save_draft", task_id=task_id, draft_id="d1", **lines(first, text="This too."))
        client.call("request_changes", task_id=task_id, diff=first, comment="Two things.")
    wait_until(lambda: "half way" in detent.run("logs", task_id).stdout, "the agent works")
    detent.kill()
    detent.start()
    assert detent.wait_for(task_id, "ready")["rounds"] == 1

    with Client(detent.url, detent.token) as client:
        found = client.call("task_comments", task_id=task_id)
        one, two = found["comments"]
        replies = [[reply["text"] for reply in each["replies"]] for each in (one, two)]
        assert (two["id"], replies, found["drafts"]) == ("d1", [["Done."], ["Done."]], [])
        with pytest.raises(Refused) as caught:
            client.call("accept_task", task_id=task_id, diff=first)
        assert caught.value.code == "diff_changed"
        accepted = client.call("accept_task", task_id=task_id, diff=found["diff"])
        assert accepted["state"] == "completed"
    session = json.loads(
        next((detent.data / "agents").glob("claude/projects/*/*.json")).read_text()
    )
    _, sent, again = session["prompts"]
    for text in (sent, again):
        assert text.startswith("Two things.\n")
        assert "There are 2 open comments on your changes." in text
    assert "Your previous execution was interrupted." in again
