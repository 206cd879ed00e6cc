"""The one door: every HTTP request and WebSocket passes here before any route sees it.

It gives each a request id, checks Host and Origin, finds out who asks, and closes the answer's
headers against browsers. Only `/health` and `/ready` are open; a login brings its code instead.
"""

from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detent.errors import DetentError
from detent.gateway import problems
from detent.gateway.auth import SAFE_METHODS, Tokens, Visitor, check_host, check_origin, credentials
from detent.ids import new_id
from detent.operations.registry import Caller

#: The only paths that ask for no credentials at all.
OPEN = ("/health", "/ready")
#: The path whose credential is the code in its body.
LOGIN = "/api/login"
VISIT = "detent.visit"
HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(slots=True)
class Visit:
    """One request: its id, and who asks; nobody on an open path."""

    request_id: str
    visitor: Visitor | None = None

    @property
    def caller(self) -> Caller:
        assert self.visitor is not None, "an open path has no caller"
        return self.visitor.caller


def visit_of(scope: Scope) -> Visit:
    visit: Visit = scope[VISIT]
    return visit


class Door:
    """The routes behind their checks; `app` starts and ends what they need."""

    def __init__(
        self, app: ASGIApp, routes: ASGIApp, tokens: Tokens, hosts: Collection[str]
    ) -> None:
        self.app = app
        self.routes = routes
        self.tokens = tokens
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        visit = scope[VISIT] = Visit(new_id())

        async def closed(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = visit.request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            visit.visitor = await self._admit(scope)
        except Exception as error:
            await refuse(problems.explained(error, visit.request_id), scope, receive, closed)
            return
        await self.routes(scope, receive, closed)

    async def _admit(self, scope: Scope) -> Visitor | None:
        headers = Headers(scope=scope)
        host = check_host(headers, self.hosts)
        unsafe = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        if unsafe:
            check_origin(headers, host, required=False)
        if scope["type"] == "http" and scope["path"] in (*OPEN, LOGIN):
            return None
        given = credentials(headers)
        if unsafe:
            check_origin(headers, host, required=given.cookie)
        return await self.tokens.find(given.token)


async def refuse(error: DetentError, scope: Scope, receive: Receive, send: Send) -> None:
    """The problem as the answer, also to a WebSocket that is not open yet."""
    response = problems.answer(error, visit_of(scope).request_id)
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    await receive()  # the offer to connect
    start = {"status": response.status_code, "headers": response.raw_headers}
    await send({"type": "websocket.http.response.start", **start})
    await send({"type": "websocket.http.response.body", "body": response.body})
