"""One installation on many machines: `detent serve`, `keeper`, `worker`, each a process.

Each process has a data directory of its own, as it would on a machine of its own; the database is
all that they share.
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psycopg

from bench import ROOT
from verification.network import Machine

PORT = 5680
WITHIN_S = 90.0
STOP_S = 30.0
LOOK_S = 0.05
#: Short, so that work of a connection that was lost in the middle is soon taken over.
SETTINGS = {"DETENT_WORKER_LEASE_MS": "4000", "DETENT_WORKER_HEARTBEAT_MS": "1000"}


class Installation:
    """The processes of one installation; `url` is its store for them, `console` for us."""

    def __init__(self, url: str, console: str, place: Path) -> None:
        self.url, self.console, self._place = url, console, place
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.gateways: list[dict[str, str]] = []
        self.workers = 0
        self._names: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        for process in self._processes:
            process.terminate()
        self._stack.close()

    def gateway(self, machine: Machine) -> None:
        """A gateway, once it is ready."""
        data = self._start(machine, "serve", "--host", machine.address, "--public")
        address = f"http://{machine.address}:{PORT}"
        until(lambda: answers(f"{address}/ready"), f"the gateway on {machine.name} is ready")
        self.gateways.append({"url": address, "token": (data / "token").read_text("ascii").strip()})

    def keeper(self, machine: Machine) -> None:
        self._start(machine, "keeper")

    def worker(self, machine: Machine) -> None:
        """A worker, once the store knows it."""
        self._start(machine, "worker", "--app", "bench.machines.work:app")
        self.workers += 1
        known = "SELECT count(*) FROM workers"
        until(lambda: self.count(known) >= self.workers, f"the worker on {machine.name} is known")

    def name_of(self, address: str) -> str | None:
        """Which machine has an address; that of the database has none here."""
        return self._names.get(address)

    def count(self, query: str) -> int:
        """What a query counts; -1 while the database is unavailable."""
        try:
            with psycopg.connect(self.console, autocommit=True, connect_timeout=2) as connection:
                row = connection.execute(query.encode()).fetchone()
        except psycopg.Error:
            return -1
        return int(row[0]) if row else 0

    def completed(self) -> int:
        return self.count("SELECT count(*) FROM jobs WHERE state = 'completed'")

    def _start(self, machine: Machine, *words: str) -> Path:
        """A process of detent on a machine; at the end all are stopped at the same time."""
        self._names[machine.address] = machine.name
        data = self._place / machine.name
        data.mkdir()
        program = str(Path(sys.executable).with_name("detent"))
        log = self._stack.enter_context((data / "log").open("wb"))
        process = self._stack.enter_context(
            subprocess.Popen(
                machine.command([program, *words]),
                stdout=log,
                stderr=log,
                cwd=self._place,
                env=self._variables(data),
            )
        )
        self._processes.append(process)
        self._stack.callback(_await_end, process)
        return data

    def _variables(self, data: Path) -> dict[str, str]:
        return {
            **os.environ,
            **SETTINGS,
            "DETENT_STORE_URL": self.url,
            "DETENT_STORE_DATA_DIR": str(data),
            "PYTHONPATH": str(ROOT),
        }


def _await_end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except (OSError, urllib.error.URLError):
        return False
    return True


def until(holds: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    end_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end_s:
            raise TimeoutError(f"not within {within_s:.0f} s: {what}")
        time.sleep(LOOK_S)
