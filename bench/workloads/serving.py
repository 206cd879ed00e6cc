"""Servers to measure over HTTP, each in a process of its own: a gateway, and a bare endpoint.

`python -m bench.workloads.serving KIND DIRECTORY STORE_URL` serves until its standard input ends.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

LINE_END = b"\r\n"


class Served(NamedTuple):
    """A server that is up."""

    pid: int
    port: int
    token: str


@contextmanager
def served(kind: str, place: Path, store_url: str = "") -> Iterator[Served]:
    """The server of this kind on a directory, or on another store; it is stopped at the end."""
    command = [sys.executable, "-m", "bench.workloads.serving", kind, str(place), store_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        try:
            yield Served(process.pid, announced["port"], announced["token"])
        finally:
            process.stdin.close()
            process.wait(60)


# ---- the client ------------------------------------------------------------------------------


class Line:
    """One kept connection that sends prepared requests, with as little of its own as can be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, server: Served) -> "Line":
        return cls(*await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 22))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body."""
        self._writer.write(request)
        head = await self._reader.readuntil(LINE_END * 2)
        length = 0
        for line in head.split(LINE_END):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        return int(head[9:12]), await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def request(server: Served, method: str, path: str, body: Any = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {server.token}",
        f"Content-Length: {len(content)}",
    ]
    if content:
        lines.append("Content-Type: application/json")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + content


# ---- serving ---------------------------------------------------------------------------------


def gateway(place: Path, store_url: str) -> None:
    from detent.engine import Engine
    from detent.gateway.auth import ensure_token
    from detent.gateway.server import Server
    from detent.operations.context import Core
    from detent.service import collect_garbage_less_often
    from detent.settings import Settings
    from detent.store.store_url import open_store

    settings = Settings(
        store_url=store_url,
        store_data_dir=str(place),
        gateway_port=0,
        gateway_connections_per_client=2_000,
    )
    store = open_store(settings.url)
    core = Core(store, Engine(store), settings, {"nothing": {}})
    token = ensure_token(core).read_text("ascii").strip()
    server = Server(core)
    port = server.start()
    collect_garbage_less_often()  # as `detent gateway` does
    _say(port, token)
    server.stop()
    store.close()


def bare(place: Path, _store_url: str) -> None:
    """The least that a developer would write: FastAPI, and one synchronous durable insert."""
    import threading

    import apsw
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Task(BaseModel):
        intent: str
        payload: dict[str, Any] = {}
        run: bool = False

    database = apsw.Connection(str(place / "bare.db"))
    database.pragma("journal_mode", "wal")
    database.pragma("synchronous", "full")
    database.execute("CREATE TABLE tasks (id INTEGER PRIMARY KEY, intent TEXT, payload TEXT)")
    lock = threading.Lock()
    app = FastAPI()

    def submit(task: Task) -> dict[str, int]:
        with lock:
            row = (task.intent, json.dumps(task.payload))
            database.execute("INSERT INTO tasks (intent, payload) VALUES (?, ?)", row)
            return {"id": database.last_insert_rowid()}

    app.post("/api/tasks", status_code=201)(submit)
    config = uvicorn.Config(app, port=0, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    _say(server.servers[0].sockets[0].getsockname()[1], "none")
    server.should_exit = True
    thread.join()


def _say(port: int, token: str) -> None:
    """Print where the server listens, and wait until the parent closes standard input."""
    print(json.dumps({"port": port, "token": token}), flush=True)
    sys.stdin.read()


KINDS = {"gateway": gateway, "bare": bare}

if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
