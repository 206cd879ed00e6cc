"""Connections of the gateway: how many there may be, and how long one may take for a request.

uvicorn limits neither: a client that sends half a request keeps its connection. The two protocols
here add a time limit for headers and bodies, a limit of connections per client and in total, and
the rule which connection is closed when a limit is reached. Time is the event loop's.
"""

import logging
import resource
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from detent.gateway.strict_json import MIN_BODY_BYTES
from detent.settings import Settings

log = logging.getLogger("detent.gateway")

#: The key in a request's scope under which the connection is found.
CONNECTION = "detent.connection"
#: Descriptors that the process needs for other things than connections.
RESERVED_FILES = 256
#: A gateway answers this many clients whatever the limit of open files is.
MIN_CONNECTIONS = 16
#: How long a client may go on sending a body after the response to it was sent.
LINGER_S = 5.0
SWEEP_S = 1.0


class Limits(NamedTuple):
    """How many connections, and how long the parts of a request may take."""

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
    """As many as wanted, if the process may have that many files open besides its own."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(MIN_CONNECTIONS, most - RESERVED_FILES))


class Open(Protocol):
    """An open connection, as the list sees it."""

    client: Any

    def rank(self) -> int | None: ...

    def end(self, status: int) -> None: ...


class Connections:
    """Every open connection, oldest first, in total and by the address of the client."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all: dict[Open, None] = {}
        self._by_client: dict[str, dict[Open, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, new: Open) -> None:
        """Take a connection in; if a limit is passed, close another one, or this one."""
        own = self._by_client.setdefault(_address(new), {})
        self._all[new] = own[new] = None
        if len(own) > self.limits.per_client:
            self._close_one(own, new)
        elif len(self._all) > self.limits.total:
            self._close_one(self._all, new)

    def drop(self, old: Open) -> None:
        self._all.pop(old, None)
        own = self._by_client.get(_address(old), {})
        own.pop(old, None)
        if not own:
            self._by_client.pop(_address(old), None)

    def _close_one(self, among: Iterable[Open], new: Open) -> None:
        """The oldest of the lowest rank; if all are being served, the new one.

        Rank 0 has sent no whole request with a valid token, rank 1 is idle and has sent one, rank 2
        has sent a whole request and its token is being looked up.
        """
        by_rank: dict[int, Open] = {}
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
        """Close connections whose request takes too long."""
        for each in list(self._all):
            if isinstance(each, HttpConnection):
                each.check(now)


def _address(connection: Open) -> str:
    return str(connection.client[0]) if connection.client else ""


def protocols(connections: Connections) -> tuple[type[H11Protocol], type]:
    """The protocols for uvicorn, which makes an object of the first for each connection."""
    http = type("Http", (HttpConnection,), {"registry": connections})
    socket = type("Socket", (SocketConnection,), {"registry": connections})
    return http, socket


class HttpConnection(H11Protocol):
    """uvicorn's protocol, with limits. `admitted` is set when a request had a valid token."""

    registry: Connections

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.admitted = False
        #: Since when the headers of a request are awaited; None while there is no such request.
        self._head_at: float | None = None
        self._answered_at: float | None = None
        self._received = 0
        self._window: tuple[float, int] | None = None

    # -- what uvicorn and asyncio call -----------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_at = self.loop.time()
        self.registry.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.drop(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._answered_at = self._window = None
            self.scope[CONNECTION] = self  # type: ignore[literal-required]
        if self._theirs != "IDLE":
            self._head_at = None
        elif self._head_at is None and self.conn.trailing_data[0]:
            self._head_at = self.loop.time()

    def on_response_complete(self) -> None:
        self._answered_at = self.loop.time()
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self.registry.drop(self)
        super().handle_websocket_upgrade(event)

    # -- limits ----------------------------------------------------------------------------

    @property
    def _theirs(self) -> str:
        """What the client is to send next, by the name that h11 has for it."""
        return repr(self.conn.their_state)

    def rank(self) -> int | None:
        """Who gives way first: see `Connections`. None while it works for a known client."""
        if self.admitted:
            return 1 if self._theirs == "IDLE" else None
        under_way = self._theirs == "DONE" and self._answered_at is None
        return 2 if under_way else 0

    def check(self, now: float) -> None:
        limits = self.registry.limits
        if self._head_at is not None:
            if now - self._head_at > limits.header_s:
                self.end(408)
        elif self._theirs == "SEND_BODY" and self._too_slow(now, limits.body_s):
            self.end(408)

    def _too_slow(self, now: float, body_s: float) -> bool:
        """Whether the body makes no progress. The application, which answers, is given its time."""
        if self._answered_at is not None:
            return now - self._answered_at > LINGER_S
        since, received = self._window or (now, self._received)
        if self.flow.read_paused or self._received - received >= MIN_BODY_BYTES:
            since, received = now, self._received
        self._window = since, received
        return now - since > body_s + LINGER_S

    def end(self, status: int) -> None:
        """Close the connection; with a response if none was begun and one can be sent."""
        if self.transport.is_closing():
            return
        if repr(self.conn.our_state) in ("IDLE", "SEND_RESPONSE"):
            self.transport.write(ANSWERS[status])
        self.transport.close()


ANSWERS = {
    status: (
        f"HTTP/1.1 {status} {reason}\r\n"
        "content-length: 0\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    ).encode()
    for status, reason in ((408, "Request Timeout"), (503, "Service Unavailable"))
}


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket: it counts, and it is not closed for others, because it was let in."""

    registry: Connections

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.registry.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.drop(self)
        super().connection_lost(exc)

    def rank(self) -> int | None:
        return None

    def end(self, status: int) -> None:  # noqa: ARG002 - its handshake is over or under way
        self.transport.close()


def sweeper(connections: Connections, clock: Callable[[], float]) -> Callable[[], None]:
    """A function to be called often, which looks at the connections once a second."""
    last = clock()

    def tick() -> None:
        nonlocal last
        now = clock()
        if now - last >= SWEEP_S:
            last = now
            connections.sweep(now)

    return tick
