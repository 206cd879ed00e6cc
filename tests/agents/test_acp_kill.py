"""detent is killed while an ACP agent waits for a person: the next run continues the session."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.installation import Installation, wait_until

AGENT = Path(__file__).with_name("acp_agent.py")
CONFIG = """
[worker]
lease_ms = 3000
heartbeat_ms = 300
grace_ms = 300

[intents.fix]
agent = "mole"
prompt = "Fix this."

[agents.mole]
preset = "acp"
argv = {argv}
variables = {{ ACP_SCRIPT = {script}, ACP_STATE = {state} }}
"""


def test_a_killed_worker_continues_in_the_session(tmp_path: Path) -> None:
    detent = Installation(tmp_path)
    detent.data = detent.project / ".detent"
    steps = [{"permission": "Remove the build"}]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"runs": [steps, steps]}))
    values = {"argv": [sys.executable, str(AGENT)], "script": str(script), "state": str(tmp_path)}
    shown = {name: json.dumps(value) for name, value in values.items()}
    (detent.project / "detent.toml").write_text(CONFIG.format(**shown))

    def asked_by(run: str) -> dict[str, Any]:
        """The open request of the run whose id ends so."""

        def look() -> dict[str, Any] | None:
            found = detent.get("/api/inbox")["questions"]
            return next((each for each in found if each["detail"]["run"].endswith(run)), None)

        return wait_until(look, f"run {run} asks for permission")

    detent.start()
    try:
        made = detent.post("/api/tasks", {"intent": "fix", "run": True})
        assert made.status_code == 201, made.text
        task_id = made.json()["id"]
        first = asked_by("-r1")
        [process] = [_agent_pid(file) for file in (detent.data / "processes").glob("*.json")]
        detent.kill()
        detent.start()
        second = asked_by("-r2")
        assert not Path(f"/proc/{process}").exists()
        late = {"answer": "Allow", "question": first["name"]}
        assert detent.post(f"/api/tasks/{task_id}/answer", late).status_code == 409
        assert detent.run("answer", task_id, "Allow").returncode == 0
        detent.wait_for(task_id, "ready")
        runs = detent.get(f"/api/tasks/{task_id}/runs")["items"]
        assert [each["state"] for each in runs] == ["cancelled", "succeeded"]
        assert len({each["session_id"] for each in runs}) == 1
        assert second["name"] != first["name"]
    finally:
        detent.stop()
    [session] = [json.loads(file.read_text()) for file in tmp_path.glob("session-*.json")]
    assert len(session["prompts"]) == 2
    assert session["prompts"][1] == (
        "Your previous execution was interrupted. Please continue where you left off."
    )


def _agent_pid(record: Path) -> int:
    pid = int(json.loads(record.read_text())["pid"])
    os.kill(pid, 0)
    return pid
