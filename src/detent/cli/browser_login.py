"""Signs in a command line through the browser: a listener on loopback, and PKCE (RFC 8252, 7636).

The browser signs in at the gateway's provider and is then sent to the listener with a code. Only
this process can exchange the code, because only it has the verifier.
"""

import json
import secrets
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from detent.cli.remote_gateway import RemoteGateway
from detent.cli.target import Target
from detent.errors import Refused
from detent.pkce import challenge_of

#: How long a person has to sign in.
TIMEOUT_S = 600.0
DONE = b"<!doctype html><title>detent</title><p>You are signed in. You can close this window."


class BrowserLogin(NamedTuple):
    """The result of signing in: the token of a person, and until when it is valid."""

    token: str
    expires_at: str


def offered_by(url: str, ca_file: str | None) -> str | None:
    """The label of the provider through which people sign in at a gateway; None if it has none."""
    with closing(RemoteGateway(Target(url, "", "URL", ca_file=ca_file))) as remote:
        methods = json.loads(remote.get_bytes("GET", "/api/login/methods"))
    label = methods["oidc"]
    return None if label is None else str(label)


def sign_in(url: str, ca_file: str | None, show: Callable[[str], None]) -> BrowserLogin:
    """Wait until a person has signed in at the address that is given to `show`."""
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    with closing(_Listener(state)) as listener:
        query = {"port": listener.port, "state": state, "challenge": challenge_of(verifier)}
        show(f"{url}/api/login/oidc?{urlencode(query)}")
        code = listener.wait(TIMEOUT_S)
    body = json.dumps({"code": code, "verifier": verifier}).encode()
    with closing(RemoteGateway(Target(url, "", "URL", ca_file=ca_file))) as remote:
        found: dict[str, Any] = remote.send_bytes(
            "POST", "/api/login/cli", body, "application/json"
        )
    return BrowserLogin(str(found["token"]), str(found["expires_at"]))


class _Listener:
    """Receives the request that brings the code; requests with another state are ignored."""

    def __init__(self, state: str) -> None:
        listener = self
        self.code: str | None = None

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                fits = secrets.compare_digest(query.get("state", [""])[0].encode(), state.encode())
                if fits and "code" in query:
                    listener.code = query["code"][0]
                self.send_response(200 if fits else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Security-Policy", "default-src 'none'")
                self.end_headers()
                if fits:
                    self.wfile.write(DONE)

            def log_message(self, format: str, *arguments: object) -> None:
                """Print nothing: a request has the code in its address."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def wait(self, timeout_s: float) -> str:
        until_s = monotonic() + timeout_s
        while self.code is None:
            self._server.timeout = until_s - monotonic()
            if self._server.timeout <= 0:
                raise Refused(
                    "No person has signed in in time.",
                    hint="Repeat `detent login`. On a machine without a browser, use a token: "
                    "`detent login URL --token TOKEN`.",
                )
            self._server.handle_request()
        return self.code

    def close(self) -> None:
        self._server.server_close()
