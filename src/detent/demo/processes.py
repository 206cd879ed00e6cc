"""The processes of the demo: `detent up`, workers, and commands as a person types them.

Starts and ends child processes in a temporary directory; every wait has a deadline.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from detent.client.sync_client import Client
from detent.errors import DetentError, Refused
from detent.settings import SERVER_FILE, TOKEN_FILE

T = TypeVar("T")
DEADLINE_S = 90.0
STOP_S = 20.0
POLL_S = 0.05
PROGRAM = (sys.executable, "-m", "detent")


class DemoProcesses:
    """The installation in `directory`; leaving the context ends its processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / ".detent"
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DETENT_")}
        # A separate HOME: the user's git configuration and sign-ins are not used or changed.
        own = {"HOME": str(directory), "DETENT_CONTEXT": "local", "COLUMNS": "100"}
        self.environment = {**kept, **own}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client: Client | None = None

    # -- processes -------------------------------------------------------------------------

    def start(self, name: str, *arguments: str) -> int:
        """Start a detent process and return its process id."""
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*PROGRAM, *arguments],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.processes[name] = process
        return process.pid

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, so that it cannot shut down."""
        process = self.processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        if self._client is not None:
            self._client.close()
        alive = [each for each in self.processes.values() if each.poll() is None]
        for process in alive:
            process.terminate()
        for process in alive:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    # -- requests and commands -------------------------------------------------------------

    @property
    def url(self) -> str:
        url: str = json.loads((self.data / SERVER_FILE).read_text())["url"]
        return url

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self.url, (self.data / TOKEN_FILE).read_text().strip())
        return self._client

    def detent(self, *arguments: str) -> str:
        """Run a command in the demo's directory and return its output."""
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Refused(f"`detent {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def task(self, task_id: str) -> Mapping[str, Any]:
        task: Mapping[str, Any] = self.client.call("show_task", task_id=task_id)
        return task

    def events(self, task_id: str) -> list[Mapping[str, Any]]:
        events: list[Mapping[str, Any]] = self.client.call("task_events", task_id=task_id)["events"]
        return events

    def until(
        self, look: Callable[[], T | None], what: str, deadline_s: float | None = DEADLINE_S
    ) -> T:
        """Wait until `look` finds something; without a deadline if `deadline_s` is None."""
        end_s = None if deadline_s is None else time.monotonic() + deadline_s
        while not (found := look()):
            dead = [name for name, each in self.processes.items() if (each.poll() or 0) > 0]
            if dead or (end_s is not None and time.monotonic() > end_s):
                raise Refused(
                    f"The demo failed: {what}." + (f" {dead[0]} has exited." if dead else ""),
                    hint="Run it again with --keep, and read the log files in its directory.",
                )
            time.sleep(POLL_S)
        return found

    def within(self, look: Callable[[], bool], seconds: float) -> bool:
        """Whether `look` becomes true within that time."""
        end_s = time.monotonic() + seconds
        while not (found := look()) and time.monotonic() < end_s:
            time.sleep(POLL_S)
        return found

    def link(self, path: str = "/") -> str:
        """A page of the dashboard, as a login link that works once."""
        code = self.client.call("create_login_code")["code"]
        return f"{self.url}{path}#code={code}"

    def knows_intent(self, intent: str) -> bool:
        return any(each["name"] == intent for each in self.client.call("list_intents")["items"])

    def is_served(self) -> bool:
        """Whether the gateway answers."""
        try:
            return bool(self.client.call("health"))
        except (OSError, DetentError):
            return False
