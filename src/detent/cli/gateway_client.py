"""A minimal HTTP client for the gateway of the data directory, so that commands start fast.

The gateway's file `server.json` contains its address and the route of each operation. Requests are
HTTP/1.0, so that the response ends when the connection closes.
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
from detent.trace_propagation import outgoing_headers

TIMEOUT_S = 30.0
READ_BYTES = 65_536
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")


class GatewayInfo(NamedTuple):
    """What a running gateway has written about itself in `server.json`."""

    url: str
    routes: Mapping[str, Route]
    #: The CRC-32 of its store's URL.
    store: int | None = None


def live_gateway(data_dir: Path) -> GatewayInfo | None:
    """The gateway that serves this data directory, if its process is running."""
    try:
        server = read_live(data_dir)
        if server is None:
            return None
        routes = {name: Route(*place) for name, place in server.get("routes", {}).items()}
        return GatewayInfo(str(server["url"]), routes, server.get("store"))
    except (ValueError, KeyError, TypeError):
        return None


class Gateway(ShortIds):
    """Calls operations by name; each request has its own connection."""

    def __init__(self, server: GatewayInfo, token: str) -> None:
        self.server = server
        self._token = token
        self._host = urlsplit(server.url).netloc

    def _call(self, operation: str, /, **arguments: Any) -> Any:
        content = self._response(request_for(self._route(operation), arguments))
        return json.loads(content) if content else None

    def get_bytes(self, method: str, target: str) -> bytes:
        """The body of a response that is not JSON."""
        return self._response(Request(method, target, {}, None))

    def send_bytes(self, method: str, target: str, content: bytes, media_type: str) -> Any:
        """Send a body that is not JSON and return the JSON of the response."""
        headers = {"Content-Type": media_type}
        return json.loads(self._response(Request(method, target, headers, content)))

    def _response(self, request: Request) -> bytes:
        try:
            status, content = self._send(request)
        except OSError as error:
            raise self._unavailable(str(error)) from None
        if 200 <= status < 300:
            return content
        raise error_from(status, content)

    def _route(self, operation: str) -> Route:
        route = self.server.routes.get(operation)
        if route is None:
            raise NotFound(
                f"The gateway at {self.server.url} does not know the operation {operation!r}.",
                hint="The gateway runs another version than this command. Restart the gateway.",
            )
        return route

    def _send(self, request: Request) -> tuple[int, bytes]:
        """Send a request; the status and the body of the response."""
        host, _, port = self._host.rpartition(":")
        address = (host.strip("[]"), int(port))
        with socket.create_connection(address, TIMEOUT_S) as connection:
            connection.sendall(_encoded(request, self._host, self._token))
            response = b"".join(iter(lambda: connection.recv(READ_BYTES), b""))
        head, end, content = response.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length is not None and int(length[1]) != len(content)):
            raise self._unavailable("its response is incomplete")
        return int(head.split(None, 2)[1]), content

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(
            f"{self.server.url} does not answer: {why}.",
            retry_after_s=1,
            hint="Start it with `detent up`, or check the installation with `detent doctor`.",
        )


def _encoded(request: Request, host: str, token: str) -> bytes:
    body = request.body or b""
    headers = {
        "Host": host,
        "Authorization": f"Bearer {token}",
        "Content-Length": str(len(body)),
        **outgoing_headers(),
        **request.headers,
    }
    lines = [f"{request.method} {request.target} HTTP/1.0"]
    lines += [f"{name}: {value}" for name, value in checked_headers(headers).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """The headers, if each is one line: a line break would start another header."""
    for name, value in headers.items():
        if not value.isprintable():
            raise Invalid(
                f"{name} must be one line of printable text, and not {value!r}.",
                field=name,
                given=value,
            )
    return headers


def read_token(data_dir: Path) -> str:
    """The owner's token, which the first start writes into the data directory."""
    try:
        return (data_dir / TOKEN_FILE).read_text("ascii").strip()
    except OSError as error:
        raise Misconfigured(
            f"The token file {data_dir / TOKEN_FILE} cannot be read: {error.strerror}.",
            setting="store.data_dir",
            hint="Run it as the user who runs detent. `detent up` creates a missing token.",
        ) from None
