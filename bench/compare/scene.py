"""The processes of one trial: two workers, clients, and the journal that the jobs write.

Every process has its own process group, so that a signal reaches a worker with its children. All
that a scene started is killed when it ends.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.compare.systems import System
from bench.peers.environments import Missing, command
from bench.peers.stores import store
from bench.workloads.jobs import directory

SCRIPTS = Path(__file__).with_name("scripts")
POLL_S = 0.05
#: How long a process may take to start and to answer on a busy machine.
ANSWER_S = 60.0


class Entry(NamedTuple):
    """A line of the journal: something that a job did outside the tool."""

    what: str
    key: str
    label: str
    at: float


class Client:
    """A process that submits jobs and reads their state."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close the pipes of the process, which has ended."""
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def send(self, *call: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `receive` says why the process has ended
            self._process.stdin.write(json.dumps(call) + "\n")
            self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=ANSWER_S)
        except queue.Empty:
            raise Missing(f"its client did not answer within {ANSWER_S:.0f} s") from None
        if not line:
            raise Missing(f"its client ended: {_last_line(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def call(self, *call: str) -> Any:
        """The answer; a refusal ends the trial."""
        self.send(*call)
        found = self.receive()
        if "refused" in found:
            raise Missing(f"{call[0]}: {found['refused']}")
        return found["answer"]


class Scene:
    """The processes of one tool on a new store."""

    def __init__(self, system: System, place: Path, url: str) -> None:
        self._system, self.place, self._url = system, place, url
        self._started: list[subprocess.Popen[str]] = []
        self._clients: list[Client] = []
        self._workers: dict[str, subprocess.Popen[str]] = {}

    # ---- processes ----------------------------------------------------------------------------

    def client(self) -> Client:
        label = f"client-{len(self._started)}"
        self._clients.append(Client(self._start("client", label, label), self._log(label)))
        return self._clients[-1]

    def worker(self, label: str, identity: str = "") -> None:
        """Start a worker. With the identity of another one, it is that worker restarted."""
        self._workers[label] = self._start("worker", identity or label, label)

    def signal(self, label: str, number: signal.Signals) -> None:
        """Send a signal to a worker and its children."""
        os.killpg(self._workers[label].pid, number)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for client in self._clients:
            client.close()

    def _start(self, role: str, identity: str, label: str) -> "subprocess.Popen[str]":
        system, script = self._system, SCRIPTS / self._system.script
        program = (
            [sys.executable, str(script)]
            if system.environment is None
            else command(system.environment, script)
        )
        with self._log(label).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*program, role, self._url, str(self.place), system.variant, identity, label],
                stdin=subprocess.PIPE if role == "client" else subprocess.DEVNULL,
                stdout=subprocess.PIPE if role == "client" else log,
                stderr=log,
                text=True,
                cwd=self.place,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def _log(self, label: str) -> Path:
        return self.place / f"log-{label}"

    # ---- the journal --------------------------------------------------------------------------

    def journal(self, what: str = "", key: str = "", label: str = "") -> list[Entry]:
        file = self.place / "journal"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        entries = [Entry(**json.loads(line)) for line in lines]
        wanted = {"what": what, "key": key, "label": label}
        return [
            each
            for each in entries
            if all(value in ("", getattr(each, name)) for name, value in wanted.items())
        ]

    def release(self, label: str) -> None:
        (self.place / f"release-{label}").touch()

    def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait for a condition; False if it does not hold in time."""
        end_s = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > end_s:
                return False
            time.sleep(POLL_S)
        return True

    def why(self) -> str:
        """The last lines that the workers printed, for a trial that could not begin."""
        return "; ".join(f"{label}: {_last_line(self._log(label))}" for label in self._workers)


@contextmanager
def scene(system: System) -> Iterator[Scene]:
    """A new store with its client's schema, and no process yet."""
    with ExitStack() as stack:
        place = stack.enter_context(directory())
        url = stack.enter_context(store(system.store, place))
        made = Scene(system, place, url)
        stack.callback(made.close)
        yield made


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:200] if lines else "nothing printed"
