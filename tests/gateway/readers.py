"""Readers of the live feed for tests: a WebSocket to it, and what comes through."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.gateway.installation import DEADLINE_S, Installation

Message = dict[str, Any]


@contextmanager
def socket_to(
    gateway: Installation,
    query: str = "",
    token: str | None = None,
    host: str = "127.0.0.1",
    **options: Any,
) -> Iterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {token or gateway.token}"}
    url = f"ws://{host}:{gateway.port}/api/feed{query}"
    options.setdefault("additional_headers", headers)
    patience: dict[str, Any] = {
        "open_timeout": DEADLINE_S,
        "close_timeout": 1,
        "ping_interval": None,
    }
    connection = connect(url, compression=None, **patience, **options)
    with connection:
        yield connection


def raw_socket(gateway: Installation) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S)


def messages(connection: ClientConnection) -> Iterator[Message]:
    """Messages one by one, as long as some come in time."""
    while True:
        yield from json.loads(connection.recv(timeout=DEADLINE_S))


def read_to(connection: ClientConnection, position: int) -> list[Message]:
    """Everything up to the event at a position."""
    found = []
    for message in messages(connection):
        found.append(message)
        if message["type"] == "event" and message["position"] >= position:
            return found
    raise AssertionError("the feed has ended")


def positions(found: list[Message]) -> list[int]:
    return [message["position"] for message in found if message["type"] == "event"]


def submit(owner: httpx2.Client, count: int = 1, **fields: object) -> str:
    task_id = ""
    for _ in range(count):
        answer = owner.post("/api/tasks", json={"intent": "runQA", **fields})
        task_id = answer.json()["id"]
    return task_id


def until_closed(connection: ClientConnection) -> list[Message]:
    """Everything that comes before the other side closes."""
    found: list[Message] = []
    try:
        while True:
            found.extend(json.loads(connection.recv(timeout=DEADLINE_S)))
    except ConnectionClosed:
        return found
