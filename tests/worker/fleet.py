"""Worker processes to be killed, forked by a process that has imported everything already.

Handlers append a line to a file outside the store when they begin and when they end.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from detent.app.app import App
from detent.app.run_context import Run
from detent.worker.worker import Worker
from tests.worker.waiting import DEADLINE_S, installation

SETTINGS: dict[str, Any] = {
    "worker_heartbeat_ms": 100,
    "worker_poll_ms": 50,
    "worker_grace_ms": 500,
}
MARKS = "marks"
#: The file that lets every step end; with the name of a step, that one.
GO = "go"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "detent.store.postgres.store"])


def mark(directory: Path, *words: str) -> None:
    """Append one line in one write: appends of a few bytes are atomic."""
    descriptor = os.open(directory / MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(words) + "\n").encode())
    os.close(descriptor)


def marks(directory: Path) -> list[list[str]]:
    path = directory / MARKS
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def thirty_steps() -> list[dict[str, Any]]:
    """Ten layers of three branches; each step needs two of the layer before."""
    rows = []
    for layer in range(10):
        for branch in range(3):
            needs = [f"s{layer - 1}-{(branch + more) % 3}" for more in (0, 1)] if layer else []
            name = f"s{layer}-{branch}"
            rows.append({"name": name, "intent": "step", "needs": needs, "input": {"name": name}})
    return rows


def app_of(directory: Path) -> App:
    app = App()

    @app.intent("step")
    def step(run: Run, name: str) -> str:
        mark(directory, "begin", name)
        while not any((directory / each).exists() for each in (f"{GO}-{name}", GO)):
            time.sleep(0.02)
        mark(directory, "end", name)
        return name

    @app.intent("small")
    def small(run: Run) -> None:
        mark(directory, "small", run.job_id)

    @app.intent("poison")
    def poison() -> None:
        mark(directory, "poison")
        os.kill(os.getpid(), signal.SIGKILL)

    app.plan("thirty", thirty_steps(), max_parallel_steps=3)
    return app


class Fleet:
    """Processes by worker name."""

    def __init__(self, directory: Path, url: str, lease_ms: int) -> None:
        self.directory, self.url, self.lease_ms = directory, url, lease_ms
        self.processes: dict[str, ForkServerProcess] = {}
        self.made = 0

    def start(self) -> str:
        self.made += 1
        name = f"w{self.made}"
        arguments = (self.directory, name, self.lease_ms, self.url)
        self.processes[name] = FORKS.Process(target=main, args=arguments)
        self.processes[name].start()
        return name

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.join()

    def refill(self, size: int) -> None:
        """Replace those that have died."""
        for name, process in list(self.processes.items()):
            if not process.is_alive():
                del self.processes[name]
        while len(self.processes) < size:
            self.start()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.join(DEADLINE_S)
            assert process.exitcode is not None

    def begun(self) -> Counter[str]:
        return Counter(words[1] for words in marks(self.directory) if words[0] == "begin")


def main(directory: Path, name: str, lease_ms: int, url: str) -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with installation(directory, url, lease_ms=lease_ms, audited=False, **SETTINGS) as core:
        worker = Worker(core, app_of(directory), name=name, concurrency=4)
        worker.start()
        stopped.wait()
        worker.stop()
