"""An HTTP client for a gateway that is addressed by URL, with TLS and the proxies of the user.

Responses are read with the standard library: it starts in a fraction of the time of a larger
client. Redirects are not followed, because the token would be sent to another address.
"""

import os
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from detent.api_version import HEADER, SUPPORTED
from detent.cli import connection_faults
from detent.cli.gateway_client import TIMEOUT_S, Gateway, GatewayInfo, checked_headers
from detent.cli.target import Target
from detent.errors import Misconfigured
from detent.http_requests import Request, Route, error_from
from detent.http_routes import ROUTES

HTTPS_PORT, HTTP_PORT = 443, 80
#: How a gateway begins its answer to a request for a path that it does not have.
NO_ROUTE = "There is nothing at"


class RemoteGateway(Gateway):
    """Calls operations by name. Reading requests share a connection; others have their own."""

    def __init__(self, target: Target) -> None:
        routes = {name: Route(*place) for name, place in ROUTES.items()}
        super().__init__(GatewayInfo(target.url, routes), target.token)
        self._parts = urlsplit(target.url)
        self._ca_file = target.ca_file
        self._open: HTTPConnection | None = None

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _response(self, request: Request) -> bytes:
        status, content = self._send(request)
        if 200 <= status < 300:
            return content
        error = error_from(status, content)
        if error.code == "not_found" and error.message.startswith(NO_ROUTE):
            error.hint = self._why_no_route()
        raise error

    def _why_no_route(self) -> str:
        path = self._parts.path.strip("/")
        if path:
            return (
                f"Check the path /{path} of the address: a gateway has none, unless a proxy in "
                "front of it adds one."
            )
        return (
            "The gateway does not know this operation: it is older than detent on this machine. "
            "Upgrade the gateway."
        )

    def _send(self, request: Request) -> tuple[int, bytes]:
        reads = request.method == "GET"
        if not reads:
            self.close()  # a request that changes something is not sent twice
        reused = self._open is not None
        try:
            try:
                return self._exchange(request)
            except (OSError, HTTPException):
                self.close()
                if not reused:
                    raise
                return self._exchange(request)  # the gateway had closed the idle connection
        except (OSError, HTTPException) as error:
            self.close()
            raise connection_faults.from_exception(error, self.server.url) from None

    def _exchange(self, request: Request) -> tuple[int, bytes]:
        if self._open is None:
            self._open = _connection(self._parts, self._ca_file)
        own = {HEADER: SUPPORTED}
        if self._token:
            own["Authorization"] = f"Bearer {self._token}"
        headers = checked_headers({**own, **request.headers})
        target = self._parts.path + request.target
        self._open.request(request.method, target, request.body, headers)
        response = self._open.getresponse()
        content = response.read()
        if response.will_close:
            self.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        connection_faults.check_response(response.status, found, self.server.url)
        return response.status, content


def _connection(parts: SplitResult, ca_file: str | None) -> HTTPConnection:
    """A connection to the gateway, through the proxy that the environment names for it."""
    host = parts.hostname or ""
    secure = parts.scheme == "https"
    port = parts.port or (HTTPS_PORT if secure else HTTP_PORT)
    proxy = _proxy(parts.scheme, f"{host}:{port}")
    to_host, to_port = (host, port) if proxy is None else proxy
    connection = (
        HTTPSConnection(to_host, to_port, timeout=TIMEOUT_S, context=_tls(ca_file))
        if secure
        else HTTPConnection(to_host, to_port, timeout=TIMEOUT_S)
    )
    if proxy is not None:
        connection.set_tunnel(host, port)
    return connection


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise Misconfigured(
            f"The certificates in {ca_file} cannot be read: {error.strerror or error}.",
            setting="ca_file",
            hint="Give a file of certificates in PEM form to --ca-file, and add the context again.",
        ) from None


def _proxy(scheme: str, host: str) -> tuple[str, int] | None:
    """The proxy for a host, from the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies_environment, proxy_bypass

    named = getproxies_environment()
    if scheme not in named or proxy_bypass(host):
        return None
    proxy = urlsplit(named[scheme] if "//" in named[scheme] else f"//{named[scheme]}")
    if not proxy.hostname:
        return None
    return proxy.hostname, proxy.port or HTTP_PORT
