"""The one door: every HTTP request and WebSocket passes here before any route sees it.

It gives each a request id, checks Host and Origin, finds out who asks, and closes the answer's
headers against browsers. Only `/health`, `/ready` and the dashboard's files, which hold no data,
are open, and `/metrics` by setting; a login brings its code instead.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detent import program_log
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

#: The only paths that ask for no credentials at all.
OPEN = ("/health", "/ready")
#: The path whose credential is the code in its body.
LOGIN = "/api/login"
CONTEXT = "detent.request_context"
#: Methods that are counted by name: anybody may invent further ones.
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WEBSOCKET")
HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(slots=True)
class RequestContext:
    """One request: its id, and who asks; nobody on an open path."""

    request_id: str
    principal: Principal | None = None
    #: The route's path with its parameters' names; empty where there is no route.
    path: str = ""

    @property
    def caller(self) -> Caller:
        assert self.principal is not None, "an open path has no caller"
        return self.principal.caller


def context_of(scope: Scope) -> RequestContext:
    context: RequestContext = scope[CONTEXT]
    return context


class Routes(Protocol):
    """The routes, and whether a path leads to one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def knows(self, path: str) -> bool: ...


class AuthenticationMiddleware:
    """The routes behind their checks; `app` starts and ends what they need."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Routes,
        tokens: Tokens,
        hosts: Collection[str],
        open_paths: Collection[str] = OPEN,
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> None:
        self.app = app
        self.routes = routes
        self.tokens = tokens
        self.hosts = hosts
        self.open_paths = (*open_paths, LOGIN)
        self.body_timeout_s = body_timeout_s
        #: Answers by method, route and status; for whoever watches.
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.page = Page()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        context = scope[CONTEXT] = RequestContext(new_id())
        scope[BODY_TIMEOUT] = self.body_timeout_s

        async def closed(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                self._count(scope, message["status"])
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = context.request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        target: ASGIApp = self.routes
        try:
            headers = Headers(scope=scope)
            host = check_host(headers, self.hosts)
            visits = scope.get("method") in ("GET", "HEAD")
            shown = self.page.find(scope, host, self.routes.knows) if visits else None
            if shown is None:
                context.principal = await self._admit(scope, headers, host)
            else:
                target = shown
        except Exception as error:
            await refuse(problems.explained(error, context.request_id), scope, receive, closed)
            return
        with program_log.about(request_id=context.request_id):
            await target(scope, receive, closed)

    def _count(self, scope: Scope, status: int) -> None:
        method = scope.get("method", "WEBSOCKET")
        known = method if method in METHODS else "other"
        self.requests[known, context_of(scope).path or "other", str(status)] += 1

    async def _admit(self, scope: Scope, headers: Headers, host: str) -> Principal | None:
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
    """The problem as the answer, also to a WebSocket that is not open yet."""
    response = problems.answer(error, context_of(scope).request_id)
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()  # the offer to connect
    start = {"status": response.status_code, "headers": response.raw_headers}
    await send({"type": "websocket.http.response.start", **start})
    await send({"type": "websocket.http.response.body", "body": response.body})
