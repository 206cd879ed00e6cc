"""A detent installation of real processes in directories of its own: start it, use it, kill it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx2

T = TypeVar("T")
DEADLINE_S = 120.0


def wait_until(look: Callable[[], T | None], what: str, deadline_s: float = DEADLINE_S) -> T:
    """What `look` finds, as soon as it finds something; fails when the deadline has passed."""
    end = time.monotonic() + deadline_s
    pause_s = 0.02
    while True:
        begun_s = time.monotonic()
        found = look()
        if found:
            return found
        now_s = time.monotonic()
        assert now_s < end, f"not within {deadline_s} s: {what}"
        # A look that takes long is not repeated all the time: the CPU is for what it awaits.
        time.sleep(max(pause_s, 3 * (now_s - begun_s)))
        pause_s = min(pause_s * 1.3, 0.2)


class Installation:
    """`detent` as a user has it: an empty home, a working directory, commands as subprocesses."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.data = self.home / ".local/share/detent"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        kept = ("PATH", "LANG", "SSL_CERT_FILE", "TMPDIR", "PYTEST_ADDOPTS")
        return {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(self.home)
        }

    def start(self, *arguments: str) -> None:
        """`detent up` on a free port, ready to take a task."""
        with (self.home / "up.log").open("a") as log:
            self.process = subprocess.Popen(
                [*self._program("up", "--port", "0"), *arguments],
                cwd=self.project,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.url = self._read_url()

    def _read_url(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.search(r"Ready: (http://\S+)", line)
            if found:
                return found[1]
        raise AssertionError(
            f"detent up did not become ready:\n{(self.home / 'up.log').read_text()}"
        )

    def kill(self) -> None:
        """SIGKILL, as when the machine loses power."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self._close()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=DEADLINE_S)
        self._close()
        return code

    def _close(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

    def _program(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "detent", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command line, as typed."""
        return subprocess.run(
            self._program(*arguments),
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """The JSON answer of a command that must succeed."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def post(self, path: str, body: Mapping[str, Any], **headers: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        return httpx2.post(self.url + path, json=dict(body), headers=headers, timeout=DEADLINE_S)

    def get(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx2.get(self.url + path, headers=headers, timeout=DEADLINE_S)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def task(self, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = self.get(f"/api/tasks/{task_id}")
        return task

    def wait_for(self, task_id: str, *states: str) -> dict[str, Any]:
        """The task, once it is in one of these states."""

        def look() -> dict[str, Any] | None:
            task = self.task(task_id)
            return task if task["state"] in states else None

        return wait_until(look, f"task {task_id} {' or '.join(states)}")

    def events(self, task_id: str) -> list[str]:
        return [event["name"] for event in self.get(f"/api/tasks/{task_id}/events")["events"]]
