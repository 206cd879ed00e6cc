"""Requests for a WebSocket that cannot be read, and those whose token is not checked yet."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.gateway import connections
from tests.gateway.installation import Installation, installed, until
from tests.gateway.readers import raw_socket
from tests.gateway.test_connections import answer_of, head, held


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Installation]:
    with installed(tmp_path) as made:
        yield made


SOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("POST /api/feed", ()),
        ("GET /api/feed", ("Content-Length: 3",)),
        ("GET /api/feed", ("Transfer-Encoding: chunked",)),
        ("GET /api/feed", (f"X-Long: {'x' * 9_000}",)),
        ("GET /api/feed", tuple(f"X-{number}: x" for number in range(200))),
    ],
)
def test_a_websocket_request_that_cannot_be_read_is_refused(
    gateway: Installation, line: str, more: tuple[str, ...]
) -> None:
    """It needs no token, so it must not hold a connection that no limit closes."""
    with raw_socket(gateway) as refused:
        refused.sendall(head(gateway, line, *SOCKET, *more))
        assert answer_of(refused).startswith(b"HTTP/1.1 400 ")
    until(lambda: held(gateway) == 0)


def test_a_websocket_gives_way_until_its_token_is_checked(gateway: Installation) -> None:
    protocol: Any = connections.protocols(gateway.server.connections)[1]
    server: Any = gateway.server._server
    loop = asyncio.new_event_loop()
    try:
        socket_ = protocol(server.config, server.server_state, {}, loop)
    finally:
        loop.close()
    assert socket_.rank() == 2
    socket_.handshake_complete = True
    assert socket_.rank() is None
