"""Limits on connections: how many may be open, and how long a client may take to send a request.

uvicorn has neither limit: a client that sends half a request keeps its connection. The protocols in
this module add a timeout for headers and bodies, a maximum of connections per client and in total,
and the rule which connection is closed at the maximum. They use the clock of the event loop.
"""

import logging
import resource
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from detent.gateway.strict_json import BODY_COMPLETE, MIN_BODY_BYTES
from detent.settings import Settings

log = logging.getLogger("detent.gateway")

#: The key in a request's scope under which the connection is found.
CONNECTION = "detent.connection"
#: File descriptors that are kept for anything but connections.
RESERVED_FILES = 256
#: The least number of connections, whatever the limit of open files is.
MIN_CONNECTIONS = 16
#: How long a client may continue to send a body after the response was sent.
LINGER_S = 5.0
#: The headers of a request that arrive in parts, the trailers, or the extensions of a chunk.
MAX_HEAD_BYTES = 16_384
SWEEP_S = 1.0


class Limits(NamedTuple):
    """The number of connections, and the time for the parts of a request."""

    total: int = 2_000
    per_client: int = 1_000
    header_s: float = 10.0
    body_s: float = 30.0

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        return cls(
            _within_open_files(settings.gateway_connections),
            settings.gateway_connections_per_client,
            settings.gateway_header_timeout_ms / 1_000,
            settings.gateway_body_timeout_ms / 1_000,
        )


def _within_open_files(wanted: int) -> int:
    """The wanted number, or less if the process may not open that many files."""
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if max_files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(MIN_CONNECTIONS, max_files - RESERVED_FILES))


class OpenConnection(Protocol):
    """An open connection, as `Connections` uses it."""

    client: Any

    def rank(self) -> int | None: ...

    def end(self, status: int) -> None: ...


class Connections:
    """Every open connection, oldest first, in total and by the address of the client."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all: dict[OpenConnection, None] = {}
        self._by_client: dict[str, dict[OpenConnection, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, new: OpenConnection) -> None:
        """Add a connection; above a limit, close another one, or this one."""
        own = self._by_client.setdefault(_address(new), {})
        self._all[new] = own[new] = None
        if len(own) > self.limits.per_client:
            self._close_one(own, new)
        elif len(self._all) > self.limits.total:
            self._close_one(self._all, new)

    def drop(self, old: OpenConnection) -> None:
        self._all.pop(old, None)
        own = self._by_client.get(_address(old), {})
        own.pop(old, None)
        if not own:
            self._by_client.pop(_address(old), None)

    def _close_one(self, among: Iterable[OpenConnection], new: OpenConnection) -> None:
        """Close the oldest connection of the lowest rank; if all are being served, the new one.

        Rank 0 has not sent a complete request with a valid token. Rank 1 has sent one and is idle.
        Rank 2 has sent a complete request whose token is not checked yet.
        """
        by_rank: dict[int, OpenConnection] = {}
        for each in among:
            rank = each.rank()
            if rank is not None and each is not new:
                by_rank.setdefault(rank, each)
            if rank == 0 and each is not new:
                break
        victim = by_rank[min(by_rank)] if by_rank else new
        self.drop(victim)
        victim.end(503)

    def sweep(self, now: float) -> None:
        """Close connections that take too long to send their request."""
        for each in list(self._all):
            if isinstance(each, HttpConnection):
                each.check(now)


def _address(connection: OpenConnection) -> str:
    return str(connection.client[0]) if connection.client else ""


def protocols(connections: Connections) -> tuple[type[HttpToolsProtocol], type]:
    """The protocol classes for uvicorn, which creates an instance for each connection."""
    http = type("Http", (HttpConnection,), {"registry": connections})
    socket = type("Socket", (SocketConnection,), {"registry": connections})
    return http, socket


class HttpConnection(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with limits. `admitted`: a request had a valid token."""

    registry: Connections

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.admitted = False
        #: The request whose response is being made, or was made last.
        self._current: RequestResponseCycle | None = None
        #: When waiting for the headers of a request began; None while none are awaited.
        self._head_at: float | None = None
        #: Whether the headers of a request are complete and its body is not.
        self._in_body = False
        self._answered_at: float | None = None
        self._received = 0
        #: Bytes since the last end of headers, part of a body or end of a request.
        self._unused = 0
        self._window: tuple[float, int] | None = None

    # -- what uvicorn, asyncio and the parser call -----------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_at = self.loop.time()
        self.registry.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.drop(self)
        self.pipeline.clear()
        super().connection_lost(exc)
        if self._current is not None and not self._current.response_complete:
            # uvicorn ends the request that was received last, which may wait for this one.
            self._current.disconnected = True
            self._current.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self._unused += len(data)
        super().data_received(data)
        if self._unused > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers of the request are too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        if self._head_at is None:
            self._head_at = self.loop.time()

    def on_headers_complete(self) -> None:
        if [name for name, _ in self.headers].count(b"host") > 1:
            raise ValueError("the header Host is repeated")  # answered with 400
        self._head_at = self._window = None
        self._in_body, self._unused = True, 0
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            self.headers = []  # trailers are not headers of the request

    def on_body(self, body: bytes) -> None:
        self._unused = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._unused = False, 0
        self.scope[BODY_COMPLETE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current, self._answered_at = cycle, None
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._answered_at = self.loop.time()
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        self.registry.drop(self)
        super().handle_websocket_upgrade()

    # -- limits ----------------------------------------------------------------------------

    def rank(self) -> int | None:
        """The order of closing, see `Connections`. None while it serves a valid request."""
        under_way = self._current is not None and self._answered_at is None
        if self.admitted:
            return None if under_way or self._in_body else 1
        return 2 if under_way and not self._in_body else 0

    def check(self, now: float) -> None:
        limits = self.registry.limits
        if self._head_at is not None:
            if now - self._head_at > limits.header_s:
                self.end(408)
        elif self._in_body and self._too_slow(now, limits.body_s):
            self.end(408)

    def _too_slow(self, now: float, body_s: float) -> bool:
        """Whether the body makes no progress. The application times out first, with a response."""
        if self._answered_at is not None:
            return now - self._answered_at > LINGER_S
        since, received = self._window or (now, self._received)
        if self.flow.read_paused or self._received - received >= MIN_BODY_BYTES:
            since, received = now, self._received
        self._window = since, received
        return now - since > body_s + LINGER_S

    def end(self, status: int) -> None:
        """Close the connection, with a response if none was started and one can be sent."""
        if self.transport.is_closing():
            return
        current = self._current
        idle = current is None or (current.response_complete and not self._in_body)
        if idle or (current is not None and not current.response_started):
            self.transport.write(RESPONSES[status])
        self.transport.close()


RESPONSES = {
    status: (
        f"HTTP/1.1 {status} {reason}\r\n"
        "content-length: 0\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    ).encode()
    for status, reason in (
        (400, "Bad Request"),
        (408, "Request Timeout"),
        (503, "Service Unavailable"),
    )
}


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket: it counts. Once it is open, it is authenticated and not closed for others."""

    registry: Connections

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.registry.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.drop(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            # uvicorn waits for a request, but websockets could not read it and ignores the rest.
            self.end(400)

    def rank(self) -> int | None:
        return None if self.handshake_complete else 2

    def end(self, status: int) -> None:
        if self.transport.is_closing():
            return
        if not self.handshake_complete and self.initial_response is None:
            self.transport.write(RESPONSES[status])
        self.transport.close()


def sweeper(connections: Connections, clock: Callable[[], float]) -> Callable[[], None]:
    """A function that is called often and checks the connections once a second."""
    last = clock()

    def tick() -> None:
        nonlocal last
        now = clock()
        if now - last >= SWEEP_S:
            last = now
            connections.sweep(now)

    return tick
