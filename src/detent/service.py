"""The composition root: opens the store and the engine, and builds the components that use them.

Every other module gets what it needs as arguments.
"""

import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol
from zlib import crc32

from detent import server_file
from detent.app.app import App, load_app
from detent.errors import DetentError, Misconfigured, NotFound
from detent.gateway.auth import ensure_token
from detent.gateway.mcp_route import McpServer
from detent.gateway.server import Server
from detent.gateway.slack_route import LoadSlackReceiver, SlackReceiver
from detent.integrations.a2a.a2a_server import A2aServer
from detent.integrations.forges.forge_config import uses_github, uses_gitlab
from detent.integrations.forges.forge_keeper import github_keeper, gitlab_keeper
from detent.integrations.notion.notion_sync import configured, notion_keeper
from detent.integrations.telemetry.metrics import Metrics
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.keeper import (
    chain_blocks,
    intake_drain,
    output_mover,
    retention_sweep,
    scheduler,
    state_file,
    timers,
)
from detent.keeper.keeper import Duty, Keeper
from detent.keeper.run_directories import RunDirectorySweeper
from detent.keeper.state_timers import StateTimers
from detent.keeper.unblocker import Unblocker
from detent.operations import OPERATIONS, project_quotas
from detent.operations.context import Core
from detent.operations.lifecycles import save_lifecycles
from detent.operations.limits import save_limits
from detent.operations.opener import open_core as open_core
from detent.operations.process_registry import ProcessRegistration
from detent.optional_package import optional_package
from detent.settings import Settings
from detent.worker.worker import Worker
from detent.worker.workspaces import forget

log = logging.getLogger("detent")

#: How long a starting process waits for its database.
WAIT_FOR_STORE_S = 300.0
#: The interval at which a running process checks whether it has to stop.
CHECK_STOP_S = 0.2
#: How many new objects are made before the garbage collector scans them.
YOUNG_OBJECTS = 20_000


# ---- components --------------------------------------------------------------------------------


class Component(Protocol):
    """A part of the service that runs in its own threads."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Service:
    """The processes of `detent up` in one: gateway, worker and keeper; each is optional."""

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
        protocols = (mcp_tools, A2aServer(core.settings), slack_receiver(core))
        self.server = Server(core, self.metrics, *protocols) if gateway else None
        self.state = state_file.StateWriter(core) if keeper else None
        self.integrations = integrations(core) if keeper else []
        self.directories = RunDirectorySweeper(core, forget) if worker or keeper else None
        self.registration = ProcessRegistration(core)
        self._started: list[Component] = []

    def start(self) -> None:
        """Start every component; the worker last, because its agents use the gateway."""
        save_lifecycles(self.core)
        save_limits(self.core)
        for component in (
            self.registration,
            self.keeper,
            self.state,
            self.metrics,
            *self.integrations,
            self.directories,
        ):
            self._start(component)
        if self.server is not None:
            ensure_token(self.core)
            port = self.server.start()
            self.url = f"http://{self.core.settings.gateway_host}:{port}"
        if self.worker is not None:
            self.worker.register()  # a command that finds the gateway can submit its intents
        if self.url is not None:
            announce(self.core.settings.data_dir, self.url, self.core.settings.url)
        self._start(self.worker)

    def _start(self, component: Component | None) -> None:
        if component is not None:
            component.start()
            self._started.append(component)

    def stop(self) -> None:
        """Stop the gateway first, then the other components in reverse order.

        The worker ends its running jobs or returns them to the queue. Only components that have
        started are stopped, because a start may have failed. If the store is unavailable, the rows
        of this process expire.
        """
        if self.server is not None and self.url is not None:
            self.server.stop()
            server_file.withdraw(self.core.settings.data_dir)
        while self._started:
            component = self._started.pop()
            try:
                component.stop()
            except DetentError as error:  # such as an unavailable store: the others stop too
                name = type(component).__name__
                log.warning("the %s stopped without recording that: %s", name.lower(), error)


def _worker(core: Core, apps: Sequence[str]) -> Worker:
    """A worker for the configured intents and those of Python apps (`package.module:app`)."""
    app = App.from_config(core.intents, core.agents)
    for reference in apps:
        app.include(load_app(reference))
    return Worker(core, app)


def integrations(core: Core) -> list[Component]:
    """Webhooks, and trackers and traces if configured; each elects its own leader process."""
    found: list[Component] = [Dispatcher(core, process_name())]
    if configured(core.settings):
        found.append(notion_keeper(core, process_name()))
    if uses_github(core.settings):
        found.append(github_keeper(core, process_name()))
    if uses_gitlab(core.settings):
        found.append(gitlab_keeper(core, process_name()))
    if core.settings.slack_bot_token:
        found += _slack(core)
    if core.settings.traces_enabled:
        found.append(_traces(core))
    return found


def _slack(core: Core) -> list[Component]:
    """The messages in Slack, and with Socket Mode the connection that receives clicks."""
    with optional_package("slack-bolt", "1.30", extra="slack"):
        from detent.integrations.slack.slack_messages import SlackKeeper
        from detent.integrations.slack.slack_socket import SlackSocket
    sockets: list[Component] = [SlackSocket(core)] if core.settings.slack_app_token else []
    return [SlackKeeper(core, process_name()), *sockets]


def slack_receiver(core: Core) -> LoadSlackReceiver | None:
    """What receives clicks from Slack over HTTP; None without a signing secret."""

    def load() -> SlackReceiver:
        with optional_package("slack-bolt", "1.30", extra="slack"):
            from detent.integrations.slack.slack_replies import replies
        return replies(core)

    settings = core.settings
    return load if settings.slack_bot_token and settings.slack_signing_secret else None


def _traces(core: Core) -> Component:
    """The exporter of traces; its library is optional and slow to import."""
    with optional_package("opentelemetry-sdk", "1.45", extra="otel"):
        from detent.integrations.telemetry.traces import Traces
    return Traces(core, process_name())


def duties(settings: Settings) -> list[Duty]:
    """The duties of the keeper and the interval of each."""
    return [
        Duty("due", settings.keeper_interval_ms, timers.run),
        Duty("intake", settings.keeper_interval_ms, intake_drain.run),
        Duty(
            "seal",
            settings.keeper_interval_ms,
            chain_blocks.run,
            share=0.05,
            full=chain_blocks.MAX_ROWS,
            max_ms=chain_blocks.MAX_PAUSE_MS,
        ),
        Duty("heartbeat", settings.keeper_interval_ms, state_file.heartbeat, share=0.05),
        Duty("unblock", settings.keeper_blocked_ms, Unblocker().run),
        Duty("state-timers", settings.keeper_interval_ms, StateTimers().run),
        Duty("schedules", settings.keeper_interval_ms, scheduler.run),
        Duty("retention", 60_000, retention_sweep.run),
        Duty("usage", 300_000, project_quotas.measure_all, share=0.05),
        Duty("output", 10_000, output_mover.run, share=0.2, full=output_mover.MAX_MOVED),
    ]


def mcp_tools(body_limit: int) -> McpServer:
    """The MCP server; its library is optional and slow to import, so it is loaded when used."""
    try:
        with optional_package("mcp", "2.3", extra="mcp"):
            from detent.integrations.mcp.mcp_server import HttpTools
    except Misconfigured as error:
        raise NotFound(f"MCP is not available: {error.message}", hint=error.hint) from None
    return HttpTools(body_limit)


def process_name() -> str:
    """The name under which this process appears: host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


# ---- running -----------------------------------------------------------------------------------


def run_until_stopped(
    service: Service,
    ready: Callable[[], None],
    finished: Callable[[], bool] | None = None,
    stopping: Callable[[], None] = lambda: None,
) -> bool:
    """Start the service, wait for SIGTERM or SIGINT, stop it; a second signal ends the process.

    The service also stops when `finished` returns True; returns whether that was the reason.
    `stopping` is called after the first signal, before the service stops.
    """
    # A signal may interrupt the wait of this thread, and then only a SimpleQueue can be filled: the
    # lock of a threading.Event is held by the interrupted wait.
    received: SimpleQueue[int] = SimpleQueue()
    signalled = False

    def on_signal(number: int, _: FrameType | None) -> None:
        nonlocal signalled
        if signalled:
            os._exit(128 + number)
        signalled = True
        received.put(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        service.start()
        collect_garbage_less_often()
        ready()
        # The kernel may deliver a signal to another thread, which does not wake this one: it polls.
        while finished is None or not finished():
            try:
                received.get(timeout=CHECK_STOP_S)
            except Empty:
                continue
            stopping()
            return False
        return True
    finally:
        _stop_interruptibly(service)


def _stop_interruptibly(service: Service) -> None:
    """Stop the service on another thread, so that a blocked store does not delay a signal."""
    with ThreadPoolExecutor(1, "detent-stop") as pool:
        ended = pool.submit(service.stop)
        while not wait([ended], CHECK_STOP_S).done:
            pass
        ended.result()


def collect_garbage_less_often() -> None:
    """Do not scan what exists after the start again, and new objects less often.

    Many short jobs make many objects, and almost none of them are in cycles. A search for garbage
    would find almost none here either, and takes an eighth of the time of a start.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


def announce(data_dir: Path, url: str, store_url: str = "") -> None:
    """Write `server.json`, so that commands on this data directory use this gateway."""
    server = {
        "url": url,
        # Enough to tell one store from another; the URL itself may contain a password.
        "store": crc32(store_url.encode()),
        # With the routes a command can send a request without importing the operations.
        "routes": {each.name: (each.method, each.path, each.whole) for each in OPERATIONS.values()},
    }
    server_file.announce(data_dir, server)
