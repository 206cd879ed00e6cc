"""`detent at` and `detent fork`."""

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_task_as_it_was(run: Run) -> None:
    task_id = run("submit", "runQA", "--hold", "--title", "first").output.strip()
    created = json.loads(run("at", task_id, "--json").output)
    run("cancel", task_id)
    then = json.loads(run("at", task_id, "--position", str(created["position"]), "--json").output)
    assert then["task"]["state"] == "pending"
    assert "cancelled" in run("at", task_id).output
    assert "pending" in run("at", task_id, "--time", created["at"]).output
    assert "with a time zone" in run("at", task_id, "--time", "noon", code=2).output


def test_a_fork_names_its_step(run: Run) -> None:
    plan = {"steps": [{"name": "a", "intent": "runQA"}]}
    Path("plan.json").write_text(json.dumps(plan))
    task_id = run("submit", "runQA", "--plan", "plan.json").output.strip()
    made = json.loads(run("fork", f"{task_id}-j1", "a", "--json").output)
    assert (made["source"], made["until"], made["kept"]) == (f"{task_id}-j1", "a", [])
    assert "Its steps are: a." in run("fork", f"{task_id}-j1", "b", code=3).output
