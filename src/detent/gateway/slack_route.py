"""`/slack/interactions`: receives clicks from Slack over HTTP.

Slack signs each request; what receives it checks the signature and its time. It is passed in by the
caller, because its library is optional, and loaded at the first request.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext, first_values
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute

PATH = "/slack/interactions"
#: The maximum size of a request: Slack's are smaller.
MAX_BYTES = 1_000_000


class SlackReceiver(Protocol):
    """Checks and handles a request of Slack; returns the status, the headers and the body."""

    def receive(self, headers: Mapping[str, str], body: str) -> tuple[int, dict[str, str], str]: ...

    def close(self) -> None: ...


LoadSlackReceiver = Callable[[], SlackReceiver]


class SlackEndpoint:
    """The handler of the path."""

    def __init__(self, dispatcher: OperationDispatcher, load: LoadSlackReceiver) -> None:
        self.dispatcher = dispatcher
        self._load = load
        self._loading = asyncio.Lock()
        self._receiver: SlackReceiver | None = None

    async def handle(self, request: Request, _: RequestContext) -> ASGIApp:
        receiver = await self._loaded()
        body = await strict_json.read_body(request, MAX_BYTES)
        headers, text = first_values(request.scope), body.decode("utf-8", "replace")
        status, more, content = await self.dispatcher.run_in_thread(
            lambda: receiver.receive(headers, text)
        )
        return Response(content, status, headers=more)

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.close()

    async def _loaded(self) -> SlackReceiver:
        async with self._loading:
            if self._receiver is None:
                self._receiver = await self.dispatcher.run_in_thread(self._load)
            return self._receiver


def slack_route_for(endpoint: SlackEndpoint) -> ScopedRoute:
    """The route. The signature of a request is its credential; the OpenAPI document omits it."""
    return ScopedRoute("POST", PATH, endpoint.handle, None)
