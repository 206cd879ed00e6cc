"""A receiver of webhooks for tortures: a real HTTP server that notes which messages came."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from detent.operations.core import Core
from detent.operations.registry import OWNER
from detent.operations.webhooks import put_webhook

NAME = "torture"
#: What it asks for: the whole life of a task on the board.
EVENTS = ("task_created", "task_queued", "task_started", "task_completed")


class Message(NamedTuple):
    """What came: under which id, and which event it tells of."""

    id: str
    event: str


class Receiver(ThreadingHTTPServer):
    """Says yes to everything; a sender that dies after that sends it again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.messages: list[Message] = []

    def subscribe(self, core: Core) -> None:
        url = f"http://127.0.0.1:{self.server_port}/"
        put_webhook(core, OWNER, name=NAME, url=url, events=EVENTS)

    def events(self) -> list[str]:
        """In the order in which they came first: what is repeated comes under the same id."""
        return [event for _, event in dict.fromkeys(self.messages)]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        event = body["type"].removeprefix("detent.")
        self.server.messages.append(Message(self.headers["webhook-id"], event))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants to read it."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, name="receiver", daemon=True).start()
        yield server
        server.shutdown()
