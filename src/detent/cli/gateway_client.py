"""Asking the gateway of the data directory over a plain socket, so that a command starts fast.

The gateway's own announcement, `server.json`, says where each operation is found. Requests are
HTTP/1.0: the answer ends with the connection, and needs no more than a few lines to be read.
"""

import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from detent.cli.short_ids import ShortIds
from detent.errors import Invalid, Misconfigured, NotFound, Unavailable
from detent.http_requests import Request, Route, error_from, request_for
from detent.server_file import read_live
from detent.settings import TOKEN_FILE

TIMEOUT_S = 30.0
READ_BYTES = 65_536
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")


class Announced(NamedTuple):
    """What a live gateway has said about itself."""

    url: str
    routes: Mapping[str, Route]
    #: A check sum of its store's address.
    store: int | None = None


def announced(data_dir: Path) -> Announced | None:
    """The gateway that serves this data directory, if it is alive."""
    try:
        server = read_live(data_dir)
        if server is None:
            return None
        routes = {name: Route(*place) for name, place in server.get("routes", {}).items()}
        return Announced(str(server["url"]), routes, server.get("store"))
    except (ValueError, KeyError, TypeError):
        return None


class Gateway(ShortIds):
    """The operations by name, each request over a connection of its own."""

    def __init__(self, server: Announced, token: str) -> None:
        self.server = server
        self._token = token
        self._host = urlsplit(server.url).netloc

    def _call(self, operation: str, /, **arguments: Any) -> Any:
        content = self._answer(request_for(self._route(operation), arguments))
        return json.loads(content) if content else None

    def raw(self, method: str, target: str) -> bytes:
        """The bytes that a path answers with, for what is no JSON."""
        return self._answer(Request(method, target, {}, None))

    def sent(self, method: str, target: str, content: bytes, media_type: str) -> Any:
        """The answer to bytes that are no JSON."""
        headers = {"Content-Type": media_type}
        return json.loads(self._answer(Request(method, target, headers, content)))

    def _answer(self, request: Request) -> bytes:
        try:
            status, content = self._send(request)
        except OSError as error:
            raise self._silent(str(error)) from None
        if 200 <= status < 300:
            return content
        raise error_from(status, content)

    def _route(self, operation: str) -> Route:
        route = self.server.routes.get(operation)
        if route is None:
            raise NotFound(
                f"The gateway at {self.server.url} knows no operation {operation!r}.",
                hint="It is of another version than this command: restart it.",
            )
        return route

    def _send(self, request: Request) -> tuple[int, bytes]:
        """The status and the whole content of the answer."""
        host, _, port = self._host.rpartition(":")
        address = (host.strip("[]"), int(port))
        with socket.create_connection(address, TIMEOUT_S) as connection:
            connection.sendall(_written(request, self._host, self._token))
            answer = b"".join(iter(lambda: connection.recv(READ_BYTES), b""))
        head, end, content = answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length is not None and int(length[1]) != len(content)):
            raise self._silent("its answer is cut off")
        return int(head.split(None, 2)[1]), content

    def _silent(self, why: str) -> Unavailable:
        return Unavailable(f"{self.server.url} does not answer: {why}.", retry_after_s=1)


def _written(request: Request, host: str, token: str) -> bytes:
    body = request.body or b""
    headers = {
        "Host": host,
        "Authorization": f"Bearer {token}",
        "Content-Length": str(len(body)),
        **request.headers,
    }
    for name, value in headers.items():
        if not value.isprintable():  # a line break would begin a header of somebody's choice
            raise Invalid(f"{name} must be one line of text.", field=name, given=value)
    lines = [f"{request.method} {request.target} HTTP/1.0"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_token(data_dir: Path) -> str:
    """The token that the first start has made."""
    try:
        return (data_dir / TOKEN_FILE).read_text("ascii").strip()
    except OSError as error:
        raise Misconfigured(
            f"The token in {data_dir} cannot be read: {error.strerror}.",
            setting="store.data_dir",
            hint="Start detent once with `detent up`, or run as the user who did.",
        ) from None
