"""The composition root: from settings to a store, an engine, and the parts that run on them.

Everything else is handed what it needs from here.
"""

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import psutil

from detent.engine import Engine, Limits
from detent.gateway.auth import ensure_token
from detent.gateway.server import Server
from detent.intents import intents_from
from detent.keeper import due, retention, schedules, seal, state, unblock
from detent.keeper.loop import Duty, Keeper
from detent.operations.core import Core
from detent.settings import Loaded, Settings
from detent.store.open import open_store
from detent.worker.app import App, load_app
from detent.worker.loop import Worker

log = logging.getLogger("detent")

DAY_MS = 86_400_000


@contextmanager
def open_core(loaded: Loaded) -> Iterator[Core]:
    """The store of an installation with the engine on it."""
    settings = loaded.settings
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = open_store(settings.url)
    limits = Limits(settings.worker_lease_ms * 1_000, settings.engine_key_lifetime_s * 1_000_000)
    try:
        yield Core(store, Engine(store, limits), settings, intents_from(loaded.tables))
    finally:
        store.close()


class Service:
    """What `detent up` runs: gateway, worker and keeper on one core; each can be left out."""

    def __init__(
        self,
        core: Core,
        *,
        gateway: bool = True,
        worker: bool = True,
        keeper: bool = True,
        apps: Sequence[str] = (),
    ) -> None:
        self.core = core
        self.url: str | None = None
        self.server = Server(core) if gateway else None
        self.worker = _worker(core, apps) if worker else None
        self.keeper = Keeper(core, process_name(), duties(core.settings)) if keeper else None
        self.state = state.StateWriter(core) if keeper else None

    def start(self) -> None:
        """Start every part; the gateway last, so that what it takes in is worked on at once."""
        for part in (self.worker, self.keeper, self.state):
            if part is not None:
                part.start()
        if self.server is not None:
            ensure_token(self.core)
            port = self.server.start()
            self.url = f"http://{self.core.settings.gateway_host}:{port}"
            announce(self.core.settings.data_dir, self.url)

    def stop(self) -> None:
        """Stop taking work in, let running work end or hand it back, then let go."""
        if self.server is not None:
            self.server.stop()
            withdraw(self.core.settings.data_dir)
        for part in (self.worker, self.state, self.keeper):
            if part is not None:
                part.stop()


def _worker(core: Core, apps: Sequence[str]) -> Worker:
    """A worker for the configured intents and for those of Python apps, `package.module:app`."""
    app = App.from_config(core.intents)
    for reference in apps:
        app.include(load_app(reference))
    return Worker(core, app, name=process_name())


def duties(settings: Settings) -> list[Duty]:
    """What the keeper does, and how often."""
    return [
        Duty("due", settings.keeper_interval_ms, due.run),
        Duty("seal", settings.keeper_interval_ms, seal.run),
        Duty("heartbeat", settings.keeper_interval_ms, state.heartbeat),
        Duty("unblock", settings.keeper_blocked_ms, unblock.run),
        Duty("schedules", settings.keeper_interval_ms, schedules.run),
        Duty("retention", 60_000, retention.run),
    ]


def process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def run_until_stopped(service: Service, ready: Callable[[], None]) -> None:
    """Start, wait for SIGTERM or SIGINT, stop; a second signal stops at once."""
    asked = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        service.start()
        ready()
        asked.wait()
    finally:
        service.stop()


def announce(data_dir: Path, url: str) -> None:
    """Say on disk which process serves this data directory, so that commands go through it."""
    process = psutil.Process()
    server = {"url": url, "pid": process.pid, "started": process.create_time()}
    state.replace_file(data_dir / "server.json", json.dumps(server))


def withdraw(data_dir: Path) -> None:
    (data_dir / "server.json").unlink(missing_ok=True)
