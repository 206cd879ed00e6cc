"""A stand-in for a gateway that answers as a test tells it to, to see what a client makes of it."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What to say; without a status the connection is cut after what was sent."""

    status: int | None = 200
    body: bytes = b"{}"
    media_type: str = "application/json"


def problem(status: int, code: str, **details: Any) -> Answer:
    document = {"code": code, "detail": f"{code}!", "status": status, **details}
    return Answer(status, json.dumps(document).encode(), "application/problem+json")


def events(*messages: tuple[int | None, dict[str, Any]], cut: bool = False) -> Answer:
    """Server-sent events; the number of a message is its id line."""
    lines = []
    for number, message in messages:
        lines.append("" if number is None else f"id: {number}\n")
        lines.append(f"data: {json.dumps(message)}\n\n")
    return Answer(None if cut else 200, "".join(lines).encode(), "text/event-stream")


@dataclass
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Faulty:
    """The answers to come, in order; the last is repeated."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def faulty(*answers: Answer) -> Iterator[Faulty]:
    faulty = Faulty(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            faulty.seen.append(Seen(self.command, self.path, headers, self.rfile.read(length)))
            answer = faulty.next()
            if answer.status is not None or answer.body:
                self.send_response(answer.status or 200)
                self.send_header("Content-Type", answer.media_type)
                if answer.status is not None:
                    self.send_header("Content-Length", str(len(answer.body)))
                else:
                    self.send_header("Content-Length", str(len(answer.body) + 10))
                self.end_headers()
                self.wfile.write(answer.body)
                self.wfile.flush()
            if answer.status is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    faulty.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield faulty
    finally:
        server.shutdown()
        server.server_close()


GONE = Answer(None, b"")
