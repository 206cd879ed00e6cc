"""An installation for tests of the review page: an agent in a worktree, and given diffs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent.testing import stand_in_agent
from tests.dashboard.scenes import Scene

#: Leaves the diff of its round as evidence: the first, and the next after each rejection.
APP = """
from pathlib import Path

import detent

app = detent.App()


@app.intent("leave")
def leave(run: detent.Run, diffs: list, tests: dict | None = None, **_: object) -> dict:
    count = Path(f"rounds-{run.task_id}")
    at = int(count.read_text()) if count.exists() else 0
    count.write_text(str(at + 1))
    run.evidence("changes.diff", diffs[min(at, len(diffs) - 1)])
    if tests:
        run.evidence("test-results.json", tests)
    return {"summary": "I changed what you asked for, see `code`."}


@app.intent("answer")
def answer(run: detent.Run, **_: object) -> dict:
    return {"summary": "There is nothing to change."}
"""

CONFIG = """
[agents.stand-in]
preset = "claude"
argv = ["{python}", "-S", "-E", "{agent}", "-p", "{{prompt}}",
        ["--session-id", "{{session_id}}"], ["--resume", "{{resume_id}}"]]
variables = {{ STAND_IN_SCRIPT = "{script}" }}
repos = ["{repos}"]

[intents.fixBug]
agent = "stand-in"
prompt = "Fix this bug: {{payload.bug}}"
workspace = "worktree"
"""

BEFORE = """def total(prices):
    result = 0
    for price in prices:
        result += price
    return result
"""
FIRST = BEFORE.replace("result = 0", "result = 0.0").replace(
    "return result", "return round(result)"
)
SECOND = '"""Sums."""\n\n' + FIRST.replace("round(result)", "round(result, 2)")
#: What the agent does in its two rounds.
SCRIPT = {
    "runs": [
        [
            {"write": {"shop.py": FIRST, "notes.txt": "new\n"}},
            {"cost": 0.2},
            {"summary": "Rounded."},
        ],
        [{"write": {"shop.py": SECOND}}, {"reply": "Done, see `shop.py`."}, {"cost": 0.1}],
    ]
}


def git(where: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(
        ["git", *who, "-C", str(where), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def diff_of(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """What git says about files with these contents before and after."""
    with tempfile.TemporaryDirectory() as directory:
        repo = Path(directory)
        git(repo, "init", "--quiet")
        _write(repo, before)
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--allow-empty", "--message", "before")
        for name in before:
            (repo / name).unlink()
        _write(repo, after)
        git(repo, "add", "--all")
        return git(repo, "diff", "--cached", "--binary", "HEAD")


def _write(repo: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content)


class ReviewScene(Scene):
    """`detent up` with an agent, a repository, and work that leaves the diff that it is given."""

    def prepare(self) -> None:
        self.data = self.project / ".detent"
        self.repo = self.project / "shop"
        self.repo.mkdir()
        git(self.repo, "init", "--quiet", "--initial-branch", "main")
        (self.repo / "shop.py").write_text(BEFORE)
        git(self.repo, "add", "--all")
        git(self.repo, "commit", "--quiet", "--message", "first")
        script = self.project / "script.json"
        script.write_text(json.dumps(SCRIPT))
        config = CONFIG.format(
            python=sys.executable,
            agent=stand_in_agent.__file__,
            script=script,
            repos=self.repo,
        )
        (self.project / "detent.toml").write_text(config)
        (self.project / "own.py").write_text(APP)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return super().environment | kept

    def fix(self, **fields: Any) -> str:
        """A task of the agent, ready for review."""
        payload = {
            "bug": "total() loses `cents`",
            "acceptance_criteria": ["Tests pass", "The result has two digits"],
        }
        return self.submit("fixBug", payload, "ready", title="Round the total", **fields)

    def leave(self, *diffs: str, **fields: Any) -> str:
        """A task with these diffs, one for each round, ready for review."""
        payload: dict[str, Any] = {"diffs": list(diffs)}
        if "tests" in fields:
            payload["tests"] = fields.pop("tests")
        return self.submit("leave", payload, "ready", **{"title": "Change it", **fields})

    def next_round(self, task_id: str) -> None:
        """Reject the work behind the back of the page, and wait for the next round."""
        rounds = self.task(task_id)["rounds"]
        answer = self.post(f"/api/tasks/{task_id}/reject", {"comment": "again", "run": True})
        assert answer.status_code == 200, answer.text
        self.last_event(task_id, "task_rejected")
        self.wait_for(task_id, "ready")
        assert self.task(task_id)["rounds"] == rounds + 1
