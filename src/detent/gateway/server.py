"""The HTTP server: runs the application on a socket, in its own thread, and stops gracefully."""

import asyncio
import logging
import socket
import threading

import uvicorn

from detent.errors import Misconfigured
from detent.gateway.a2a_routes import A2aMethods
from detent.gateway.application import MetricsPage, make_app
from detent.gateway.auth import allowed_hosts, check_address
from detent.gateway.connections import Connections, Limits, protocols, sweeper
from detent.gateway.mcp_route import LoadMcpServer
from detent.gateway.slack_route import LoadSlackReceiver
from detent.operations.context import Core

log = logging.getLogger("detent.gateway")

BACKLOG = 2_048
#: Connections that are accepted before requests are read again: far fewer than may be open, so
#: that a burst of connections does not close one whose request has not been read yet.
ACCEPTED_TOGETHER = 64
#: How long running requests may take to end at a stop.
GRACE_S = 10
#: The operating system closes a connection whose peer acknowledges nothing for this long.
STUCK_MS = 30_000
TCP_USER_TIMEOUT = 18


class Server:
    """A gateway in its own thread. `start` returns the port; `stop` returns when it has stopped."""

    def __init__(
        self,
        core: Core,
        metrics_page: MetricsPage | None = None,
        load_mcp: LoadMcpServer | None = None,
        a2a: A2aMethods | None = None,
        load_slack: LoadSlackReceiver | None = None,
    ) -> None:
        self.core = core
        self.metrics_page = metrics_page
        self.load_mcp = load_mcp
        self.a2a = a2a
        self.load_slack = load_slack
        self._thread: threading.Thread | None = None
        self._server: _Uvicorn | None = None

    def start(self) -> int:
        """Listen and serve; returns the port, which is a free one if the setting is 0."""
        check_address(self.core.settings)
        listening = _listen(self.core.settings.gateway_host, self.core.settings.gateway_port)
        port: int = listening.getsockname()[1]
        logging.getLogger("uvicorn.error").addFilter(_denial)
        hosts = allowed_hosts(self.core.settings, port)
        protocols = (self.load_mcp, self.a2a, self.load_slack)
        app, self.gateway = make_app(self.core, hosts, self.metrics_page, *protocols)
        self.connections = Connections(Limits.of(self.core.settings))
        self._server = _Uvicorn(_config(app, self.connections), self.connections)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="detent-gateway", daemon=True
        )
        self._thread.start()
        self._server.up.wait()
        listening.listen(BACKLOG)  # asyncio has set it to ACCEPTED_TOGETHER
        if not self._server.started:
            raise Misconfigured("The gateway could not start; see the log.", setting="gateway")
        return port

    def stop(self) -> None:
        """End the feeds, accept no more requests, and wait for the running ones."""
        if self._server is None or self._thread is None:
            return
        self._server.loop.call_soon_threadsafe(self.gateway.stop_feeds)
        self._server.should_exit = True
        self._thread.join()
        self.gateway.dispatcher.close()
        self._server = self._thread = None


class _Uvicorn(uvicorn.Server):
    """Sets `up` when it has started or has failed to."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self.connections = connections
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.sweep = sweeper(self.connections, self.loop.time)
        try:
            await super().startup(sockets)
        finally:
            self.up.set()

    async def on_tick(self, counter: int) -> bool:
        self.sweep()
        return await super().on_tick(counter)


def _denial(record: logging.LogRecord) -> bool:
    """False for the error that uvicorn logs when a WebSocket was refused as intended."""
    return "without completing handshake" not in record.getMessage()


def _config(app: object, connections: Connections) -> uvicorn.Config:
    http, socket_protocol = protocols(connections)
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=http,
        ws=socket_protocol,
        ws_max_size=65_536,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_S,
        backlog=ACCEPTED_TOGETHER,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; refused with the reason if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP is explicit: asyncio sets TCP_NODELAY only for sockets that name it.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, STUCK_MS)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Misconfigured(
            f"The gateway cannot listen on {host}:{port}: {error.strerror}.",
            setting="gateway.port",
            hint="Another program, perhaps another detent, may use the port: stop it, or choose "
            "another port with --port or gateway.port.",
        ) from None
    return made
