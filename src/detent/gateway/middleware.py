"""The authentication middleware: every HTTP request and WebSocket passes it before any route.

It gives each request an id, checks the headers Host and Origin, authenticates the caller, and sets
the security headers of the response. Only `/health`, `/ready` and the dashboard's files, which hold
no data, need no token, and `/metrics` if a setting says so. A login has a code instead, the routes
of signing in through a provider lead to one, and what forges and Slack send has their signature.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detent import api_version, program_log
from detent.errors import DetentError
from detent.gateway import problems
from detent.gateway.auth import (
    SAFE_METHODS,
    Principal,
    Tokens,
    check_host,
    check_origin,
    credentials,
)
from detent.gateway.connections import CONNECTION
from detent.gateway.static_files import Page
from detent.gateway.strict_json import BODY_TIMEOUT, BODY_TIMEOUT_S
from detent.ids import new_id
from detent.operations.registry import Caller
from detent.trace_propagation import HEADER as TRACE_HEADER
from detent.trace_propagation import RECEIVED

#: The paths that need no credentials.
OPEN = ("/health", "/ready")
#: The paths whose credential is a code in the body.
LOGIN, CLI_LOGIN = "/api/login", "/api/login/cli"
#: The paths of signing in through a provider.
METHODS_OF_SIGN_IN = "/api/login/methods"
SIGN_IN, SIGNED_IN = "/api/login/oidc", "/api/login/oidc/callback"
#: All paths of people who are not signed in yet.
LOGINS = (LOGIN, CLI_LOGIN, METHODS_OF_SIGN_IN, SIGN_IN, SIGNED_IN)
CONTEXT = "detent.request_context"
#: Methods that are counted by name; a client may send any other text as the method.
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WEBSOCKET")
REQUEST_ID = b"x-request-id"
#: The headers of every response that does not set them itself: security, and the API's version.
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (api_version.HEADER.lower().encode(), api_version.SUPPORTED.encode()),
)
_API = api_version.HEADER.lower()


@dataclass(slots=True)
class RequestContext:
    """One request: its id, and its principal; None on a public path."""

    request_id: str
    principal: Principal | None = None
    #: The route's path with its parameters' names; empty where there is no route.
    path: str = ""

    @property
    def caller(self) -> Caller:
        assert self.principal is not None, "a public path has no caller"
        return self.principal.caller


def context_of(scope: Scope) -> RequestContext:
    context: RequestContext = scope[CONTEXT]
    return context


def first_values(scope: Scope) -> dict[str, str]:
    """The headers of a request. Of a header that is repeated, the first value counts."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in reversed(scope["headers"])
    }


class AuthenticationMiddleware:
    """Passes authenticated requests on to the router; answers all others itself."""

    def __init__(
        self,
        router: Router,
        tokens: Tokens,
        hosts: Collection[str],
        open_paths: Collection[str] = OPEN,
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> None:
        self.router = router
        self.tokens = tokens
        self.hosts = hosts
        self.open_paths = (*open_paths, *LOGINS)
        self.body_timeout_s = body_timeout_s
        #: The number of responses by method, route and status; the metrics read it.
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.page = Page()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.router(scope, receive, send)
            return
        context = scope[CONTEXT] = RequestContext(new_id())
        scope[BODY_TIMEOUT] = self.body_timeout_s

        started = False

        async def send_secured(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                self._count(scope, message["status"])
                own = message["headers"]
                names = {name for name, _ in own}
                secure = [header for header in HEADERS if header[0] not in names]
                message["headers"] = [*own, (REQUEST_ID, context.request_id.encode()), *secure]
            await send(message)

        target: ASGIApp = self.router
        try:
            headers = first_values(scope)
            host = check_host(headers, self.hosts)
            if headers.get(_API, api_version.SUPPORTED) != api_version.SUPPORTED:
                api_version.check_client(headers[_API])
            page = self._page(scope, host)
            if page is None:
                context.principal = await self._authenticate(scope, headers, host)
            else:
                target = page
        except Exception as error:
            await refuse(
                problems.explained(error, context.request_id), scope, receive, send_secured
            )
            return
        logged = program_log.IDS.set({"request_id": context.request_id})
        traced = RECEIVED.set(headers.get(TRACE_HEADER))
        try:
            await target(scope, receive, send_secured)
        except asyncio.CancelledError:  # the request did not end in the grace period of a stop
            if scope["type"] != "http":
                raise
            if not started:
                await refuse(problems.stopping(), scope, receive, send_secured)
        finally:
            RECEIVED.reset(traced)
            program_log.IDS.reset(logged)

    def _page(self, scope: Scope, host: str) -> ASGIApp | None:
        """The response if the dashboard has a page or a file at this path."""
        if scope.get("method") not in ("GET", "HEAD"):
            return None
        return self.page.find(scope, host, self._is_route)

    def _is_route(self, path: str) -> bool:
        routes = cast(Iterable[Route | WebSocketRoute], self.router.routes)
        return any(each.path_regex.match(path) for each in routes)

    def _count(self, scope: Scope, status: int) -> None:
        method = scope.get("method", "WEBSOCKET")
        known = method if method in METHODS else "other"
        self.requests[known, context_of(scope).path or "other", str(status)] += 1

    async def _authenticate(
        self, scope: Scope, headers: Mapping[str, str], host: str
    ) -> Principal | None:
        unsafe = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if unsafe:
            check_origin(headers, host, required=False)
        if scope["type"] == "http" and scope["path"] in self.open_paths:
            return None
        given = credentials(headers)
        if unsafe:
            check_origin(headers, host, required=given.cookie)
        principal = await self.tokens.find(given)
        if CONNECTION in scope:
            scope[CONNECTION].admitted = True
        return principal


async def refuse(error: DetentError, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the problem document as the response, also to a WebSocket that is not open yet."""
    response = problems.answer(error, context_of(scope).request_id)
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()  # the connect message
    start = {"status": response.status_code, "headers": response.raw_headers}
    await send({"type": "websocket.http.response.start", **start})
    await send({"type": "websocket.http.response.body", "body": response.body})
