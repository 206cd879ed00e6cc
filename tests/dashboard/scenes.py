"""An installation with work of every kind for browser tests: real processes, real events."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.e2e.installation import Installation, wait_until

#: What a real worker carries out. Files in the project directory let a test hold work back.
APP = '''
import time
from pathlib import Path

import detent

app = detent.App()
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000010000000100802000000909168360000001a49444154789c63"
    "50c8a9201131902d1ad5306a43c90d1530c29400a4fbf4f10d9c4b3d0000000049454e44ae426082"
)
DIFF = """diff --git a/app/session.py b/app/session.py
--- a/app/session.py
+++ b/app/session.py
@@ -12,9 +12,11 @@ class Session:
     def renew(self, now: int) -> None:
-        if now > self.ends_at:
-            raise Expired(self.id)
-        self.ends_at = now + LEASE
+        if now >= self.ends_at:
+            raise Expired(self.id)
+        # A renewal never shortens the session.
+        self.ends_at = max(self.ends_at, now + LEASE)
+        self.renewed += 1

     def close(self) -> None:
"""


@app.intent("ask")
def ask(run: detent.Run, text: str = "Which?", choices: list = (), other: bool = False):
    run.log("Comparing the options")
    return run.ask(text, choices=list(choices), other=other)


@app.intent("change")
def change(run: detent.Run, summary: str = "Renewing a session no longer shortens it.") -> dict:
    run.log("\\x1b[1mReading\\x1b[0m app/session.py")
    run.evidence("change.diff", DIFF)
    run.evidence("test-results.json", {"passed": 41, "failed": 0, "seconds": 3.2})
    run.evidence("page.png", PNG)
    run.evidence("build.log", "compiled 12 files\\n")
    run.log("\\x1b[32m41 passed\\x1b[0m in 3.20s")
    return {"summary": summary}


@app.intent("fail", retry={"max_attempts": 1})
def fail(run: detent.Run, message: str = "the server refused", mended: str = "") -> str:
    run.log("\\x1b[31mError\\x1b[0m: " + message)
    if mended and Path(mended).exists():
        return "well"
    raise detent.Failure(message)


@app.intent("family", retry={"max_attempts": 1})
def family(run: detent.Run, mended: str = "") -> str:
    run.subtask("fail", {"message": "a part is missing", "mended": mended}, name="part")
    return "the rest is there"


@app.intent("talk")
def talk(run: detent.Run, until: str) -> str:
    number = 0
    while not Path(until).exists():
        number += 1
        run.log(f"\\x1b[36mline\\x1b[0m {number}")
        time.sleep(0.05)
    run.log("\\x1b[1;32mthe last line\\x1b[0m")
    return "output"


@app.intent("print")
def print_(run: detent.Run, text: str, files: dict = {}) -> str:
    run.log(text)
    for name, content in files.items():
        run.evidence(name, content)
    return text


@app.intent("part")
def part(run: detent.Run) -> str:
    held = Path(f"hold-{run.job_id}")
    run.log("doing a part")
    while held.exists():
        time.sleep(0.05)
    return "part done"


@app.intent("nap")
def nap(run: detent.Run) -> str:
    run.sleep(3_600, "night window")
    return "awake"


@app.intent("hold")
def hold(run: detent.Run, until: str) -> str:
    while not Path(until).exists():
        time.sleep(0.05)
    return "let go"


app.plan("overnight", [{"name": "rest", "intent": "nap"}])
app.plan(
    "release",
    [
        {"name": "fetch", "intent": "part"},
        {"name": "build", "intent": "part", "needs": ["fetch"]},
        {"name": "lint", "intent": "part", "needs": ["fetch"]},
        {"name": "test", "intent": "part", "needs": ["build"]},
        {"name": "sign", "intent": "hold", "needs": ["test"], "input": {"until": "signed"}},
        {"name": "notes", "intent": "part", "needs": ["lint", "build"]},
        {"name": "publish", "intent": "part", "needs": ["sign", "notes"]},
    ],
)
'''

#: Work that kills the process that runs it: only ever run by a separate worker process, until
#: this many of them are lost.
WORKERS_LOST = 4
POISON = """
import os
import signal

import detent

app = detent.App()


@app.intent("poison")
def poison(run: detent.Run, cured: str = "") -> str:
    if cured and os.path.exists(cured):
        return "harmless"
    run.log("about to die")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"
"""

#: An agent that spends money as it goes, and wants a tool that it may not use.
AGENT = """
import json
import sys

words = " ".join(sys.argv)
wants_to_deploy = "DENIED" in words or "deploy" in words
def say(**line):
    print(json.dumps(line), flush=True)

say(type="system", subtype="init", session_id="s")
if "SPEND" in words or "importer" in words:
    say(type="result", subtype="error_max_budget_usd", is_error=True, total_cost_usd=1.25)
else:
    say(
        type="result", subtype="success", is_error=False, total_cost_usd=0.18, num_turns=3,
        result="Done, without the deployment.",
        permission_denials=[{"tool_name": "deploy"}] if wants_to_deploy else [],
        usage={"input_tokens": 5210, "output_tokens": 801},
    )
"""

#: An agent that prints the lines that a test appends to a file, until one of them is END.
NARRATOR = """
import re
import sys
import time

path = re.search(r"/[^ \\"]+[.]jsonl", " ".join(sys.argv))[0]
rest = b""
while True:
    with open(path, "rb") as file:
        file.seek(len(rest))
        new = file.read()
    whole = new[: new.rfind(b"\\n") + 1]
    rest += whole
    sys.stdout.buffer.write(whole.replace(b"END\\n", b""))
    sys.stdout.buffer.flush()
    if rest.endswith(b"END\\n"):
        break
    time.sleep(0.02)
"""

CONFIG = """
[agents.spender]
preset = "claude"
argv = ["{python}", "{agent}", "{{prompt}}"]
root_is_sandboxed = true

[agents.narrator]
preset = "claude"
argv = ["{python}", "{narrator}", "{{prompt}}"]
root_is_sandboxed = true

[intents.narrate]
agent = "narrator"
prompt = "{{payload}}"

[intents.agent]
agent = "spender"
prompt = "{{payload}}"
on_budget_exceeded = "ask"

[intents.runQA]
command = ["{python}", "-m", "detent.qa"]
"""


class Scene(Installation):
    """`detent up` with the app above; shorthands to bring work into the state that is wanted."""

    def prepare(self) -> None:
        agent = self.project / "agent.py"
        agent.write_text(AGENT)
        narrator = self.project / "narrator.py"
        narrator.write_text(NARRATOR)
        config = CONFIG.format(python=sys.executable, agent=agent, narrator=narrator)
        (self.project / "detent.toml").write_text(config)
        (self.project / "own.py").write_text(APP)
        (self.project / "poison.py").write_text(POISON)
        self.data = self.project / ".detent"

    @property
    def environment(self) -> dict[str, str]:
        """What the keeper does once a second is done more often, and a lost run is soon found."""
        soon = {
            "DETENT_KEEPER_INTERVAL_MS": "100",
            "DETENT_WORKER_LEASE_MS": "8000",
            "DETENT_WORKER_HEARTBEAT_MS": "1000",
        }
        return super().environment | soon

    def up(self, *arguments: str) -> None:
        self.start("--app", "own:app", *arguments)

    def submit(self, intent: str, payload: Any = None, *states: str, **fields: Any) -> str:
        """Submit and run a task; wait until it is in one of these states."""
        body = {"intent": intent, "payload": payload or {}, "run": True, **fields}
        answer = self.post("/api/tasks", body)
        assert answer.status_code == 201, answer.text
        task_id = str(answer.json()["id"])
        if states:
            self.wait_for(task_id, *states)
        return task_id

    @contextmanager
    def doomed(self, count: int) -> Iterator[None]:
        """Worker processes that know the work that kills them; their claims soon run out."""
        short = {"LEASE_MS": "1000", "HEARTBEAT_MS": "100", "POLL_MS": "50"}
        known = {f"DETENT_WORKER_{name}": value for name, value in short.items()}
        workers = [
            subprocess.Popen(
                self._program("worker", "--app", "poison:app", "--concurrency", "1"),
                cwd=self.project,
                env=self.environment | known,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(count)
        ]
        try:
            wait_until(lambda: "poison" in self.intents(), "a worker that knows the work")
            yield
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()

    def intents(self) -> list[str]:
        return [each["name"] for each in self.get("/api/intents")["items"]]

    def last_event(self, task_id: str, name: str) -> dict[str, Any]:
        """The newest event of that name in the task's log, once it is there."""

        def look() -> dict[str, Any] | None:
            events = self.get(f"/api/tasks/{task_id}/events")["events"]
            found: list[dict[str, Any]] = [each for each in events if each["name"] == name]
            return found[-1] if found else None

        return wait_until(look, f"{name} in the log of {task_id}")

    def link(self) -> str:
        """A one-time link."""
        code = self.post("/api/login/codes", {}).json()["code"]
        return f"{self.url}/#code={code}"

    def let(self, name: str) -> str:
        """A path that work waits for; `touch` it to let the work go on."""
        return str(self.project / name)

    def bulk(self, count: int, **fields: Any) -> list[str]:
        """Many tasks in one request."""
        tasks = [{"title": f"Task {at}", **fields} for at in range(count)]
        answer = self.post_raw("/api/bulk", json.dumps(tasks))
        ids: list[str] = answer["ids"]
        assert len(ids) == count, answer
        return ids

    def put_schedule(self, name: str, **fields: Any) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        address = f"{self.url}/api/schedules/{name}"
        answer = httpx2.put(address, json=fields, headers=headers, timeout=60)
        assert answer.status_code < 300, answer.text

    def post_raw(self, path: str, body: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        answer = httpx2.post(self.url + path, content=body, headers=headers, timeout=120)
        assert answer.status_code < 300, answer.text
        return answer.json()


def scene(root: Path) -> Scene:
    made = Scene(root)
    made.prepare()
    return made
