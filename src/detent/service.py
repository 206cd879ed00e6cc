"""The composition root: from settings to a store, an engine, and the parts that run on them.

Everything else is handed what it needs from here.
"""

import itertools
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol
from zlib import crc32

from detent import private_files, server_file
from detent.app.app import App, load_app
from detent.engine import Engine, Lifetimes
from detent.errors import Misconfigured, NotFound, Unavailable
from detent.gateway.auth import ensure_token
from detent.gateway.mcp_route import Tools
from detent.gateway.server import Server
from detent.integrations.metrics import Metrics
from detent.integrations.notion_sync import NotionKeeper, configured
from detent.integrations.webhook_dispatcher import Dispatcher
from detent.intent_config import agents_from, intents_from
from detent.keeper import (
    chain_blocks,
    intake_drain,
    retention_sweep,
    scheduler,
    state_file,
    timers,
    unblocker,
)
from detent.keeper.keeper import Duty, Keeper
from detent.keeper.run_directories import Directories
from detent.operations import OPERATIONS
from detent.operations.context import Core
from detent.operations.limits import keep_limits, limits_from
from detent.operations.thresholds import check
from detent.settings import Loaded, Settings
from detent.store.marker import mark_store, require_store
from detent.store.port import Store
from detent.store.store_url import open_store
from detent.worker.worker import Worker
from detent.worker.workspaces import forget

log = logging.getLogger("detent")

#: How long a process that starts waits for its database, how often it tries, and after how many
#: tries it says so again.
WAIT_FOR_STORE_S, TRY_S, TRIES_PER_LINE = 300.0, 0.5, 20
#: How often a running process looks whether it was asked to stop.
LOOK_S = 0.2


@contextmanager
def open_core(loaded: Loaded, wait_s: float = 0.0) -> Iterator[Core]:
    """The store of an installation with the engine on it; `wait_s`: how long it may be missing."""
    settings = loaded.settings
    check(settings)
    private_files.make_directory(settings.data_dir)
    store = _open(settings, wait_s)
    lifetimes = Lifetimes(
        settings.worker_lease_ms * 1_000, settings.engine_key_lifetime_s * 1_000_000
    )
    try:
        intents, agents = intents_from(loaded.tables), agents_from(loaded.tables)
        kept = limits_from(loaded.tables)
        yield Core(store, Engine(store, lifetimes), settings, intents, agents, kept)
    finally:
        store.close()


def _open(settings: Settings, wait_s: float) -> Store:
    """Open the store. A server that starts or recovers is waited for."""
    until_s = time.monotonic() + wait_s
    for tries in itertools.count():
        try:
            require_store(settings.data_dir, settings.url)
            store = open_store(settings.url)
            break
        except Unavailable as error:
            if time.monotonic() >= until_s:
                raise
            if tries % TRIES_PER_LINE == 0:
                log.warning("waiting for the database: %s", error.message)
            time.sleep(TRY_S)
    mark_store(settings.data_dir, settings.url)
    return store


class Part(Protocol):
    """Something that runs on threads of its own."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


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
        self.worker = _worker(core, apps) if worker else None
        self.keeper = Keeper(core, process_name(), duties(core.settings)) if keeper else None
        passes = self.keeper.passes if self.keeper is not None else {}
        self.metrics = Metrics(core, passes) if gateway else None
        self.server = Server(core, self.metrics, mcp_tools) if gateway else None
        self.state = state_file.StateWriter(core) if keeper else None
        self.outside = outside(core) if keeper else []
        self.directories = Directories(core, forget) if worker or keeper else None
        self._up: list[Part] = []

    def start(self) -> None:
        """Start every part; the worker last, because agents that it starts ask the gateway."""
        keep_limits(self.core)
        for part in (self.keeper, self.state, self.metrics, *self.outside, self.directories):
            self._start(part)
        if self.server is not None:
            ensure_token(self.core)
            port = self.server.start()
            self.url = f"http://{self.core.settings.gateway_host}:{port}"
            announce(self.core.settings.data_dir, self.url, self.core.settings.url)
        self._start(self.worker)

    def _start(self, part: Part | None) -> None:
        if part is not None:
            part.start()
            self._up.append(part)

    def stop(self) -> None:
        """Stop taking work in, let running work end or hand it back, then let go.

        Only what has started is stopped: a start may have failed halfway.
        """
        if self.server is not None and self.url is not None:
            self.server.stop()
            server_file.withdraw(self.core.settings.data_dir)
        while self._up:
            self._up.pop().stop()


def _worker(core: Core, apps: Sequence[str]) -> Worker:
    """A worker for the configured intents and for those of Python apps, `package.module:app`."""
    app = App.from_config(core.intents, core.agents)
    for reference in apps:
        app.include(load_app(reference))
    return Worker(core, app, name=process_name())


def outside(core: Core) -> list[Part]:
    """What tells the outside, as far as it is configured; each elects one process for itself."""
    parts: list[Part] = [Dispatcher(core, process_name())]
    if configured(core.settings):
        parts.append(NotionKeeper(core, process_name()))
    if core.settings.traces_enabled:
        parts.append(_traces(core))
    return parts


def _traces(core: Core) -> Part:
    """The exporter of traces. Its library is an extra and slow to import."""
    try:
        from detent.integrations.traces import Traces
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"Traces are enabled, and {error.name} is not installed.",
            setting="traces.enabled",
            hint="pip install 'detent[otel]'",
        ) from None
    return Traces(core, process_name())


def duties(settings: Settings) -> list[Duty]:
    """What the keeper does, and how often."""
    return [
        Duty("due", settings.keeper_interval_ms, timers.run),
        Duty("intake", settings.keeper_interval_ms, intake_drain.run),
        Duty("seal", settings.keeper_interval_ms, chain_blocks.run),
        Duty("heartbeat", settings.keeper_interval_ms, state_file.heartbeat, share=0.05),
        Duty("unblock", settings.keeper_blocked_ms, unblocker.run),
        Duty("schedules", settings.keeper_interval_ms, scheduler.run),
        Duty("retention", 60_000, retention_sweep.run),
    ]


def mcp_tools(body_limit: int) -> Tools:
    """The server of MCP. Its library is an extra and slow to import, so that it comes when used."""
    try:
        from detent.integrations.mcp_server import HttpTools
    except ModuleNotFoundError as error:
        raise NotFound(
            f"MCP is not installed here: {error.name} is missing.",
            hint="Install it with: pip install 'detent[mcp]'",
        ) from None
    return HttpTools(body_limit)


def process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def run_until_stopped(
    service: Service, ready: Callable[[], None], over: Callable[[], bool] = bool
) -> bool:
    """Start, wait for SIGTERM or SIGINT, stop; a second signal stops at once.

    It also stops when it is `over`; the answer is whether that was the reason.
    """
    # A signal may come while this very thread waits: of all that one waits for, only a simple
    # queue can be filled then. An event's lock is held by the wait that the signal interrupts.
    asked: SimpleQueue[int] = SimpleQueue()
    seen: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        if seen:
            os._exit(128 + number)
        seen.append(number)
        asked.put(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        service.start()
        ready()
        # The kernel may give a signal to any thread, and then nothing wakes this one: it looks.
        while not over():
            try:
                asked.get(timeout=LOOK_S)
            except Empty:
                continue
            return False
        return True
    finally:
        service.stop()


def announce(data_dir: Path, url: str, store_url: str = "") -> None:
    """Write on disk which process serves this data directory, so that commands go through it."""
    server = {
        "url": url,
        # Enough to tell one store from another; the address itself may hold a password.
        "store": crc32(store_url.encode()),
        # With these a command asks without having to import all that an operation stands on.
        "routes": {each.name: (each.method, each.path, each.whole) for each in OPERATIONS.values()},
    }
    server_file.announce(data_dir, server)
