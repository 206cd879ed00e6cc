"""A receiver of webhooks: a real HTTP server that records which messages came."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.operations.webhooks import put_webhook
from verification.fault_injection.deliveries import Message, event_of

NAME = "faults"
#: The first message whose connection is cut.
FIRST_CUT = 5
#: What it asks for: the whole life of a task on the board.
EVENTS = ("task_created", "task_queued", "task_started", "task_completed")


class Receiver(ThreadingHTTPServer):
    """Says yes to everything; a sender that dies after that sends it again.

    With `cut_every` it closes the connection of one in `cut_every` messages without an answer, the
    first time that the message comes; the sender pauses after each.
    """

    daemon_threads = True

    def __init__(self, cut_every: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.messages: list[Message] = []
        #: Events by name, in the order of the messages.
        self.names: list[str] = []
        self._ids: set[str] = set()
        self.cut_every = cut_every
        self.cuts = 0
        self._guard = threading.Lock()

    def subscribe(self, core: Core) -> None:
        url = f"http://127.0.0.1:{self.server_port}/"
        put_webhook(core, OWNER, name=NAME, url=url, events=EVENTS)

    def events(self) -> list[str]:
        """In the order in which they came first: what is repeated comes under the same id."""
        return [name for _, name in dict.fromkeys(zip(self.messages, self.names, strict=True))]

    def take(self, message: Message, name: str) -> bool:
        """Note a message; whether to answer it."""
        with self._guard:
            first = message.id not in self._ids
            self._ids.add(message.id)
            self.messages.append(message)
            self.names.append(name)
            number = len(self.messages)
            cut = bool(self.cut_every) and first and number % self.cut_every == FIRST_CUT
            self.cuts += cut
            return not cut


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        shown = body["data"]
        message = Message(self.headers["webhook-id"], shown["stream"], event_of(shown))
        if not self.server.take(message, shown["name"]):
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """The access log is not printed."""


@contextmanager
def receiving(cut_every: int = 0) -> Iterator[Receiver]:
    with Receiver(cut_every) as server:
        threading.Thread(target=server.serve_forever, name="receiver", daemon=True).start()
        yield server
        server.shutdown()
