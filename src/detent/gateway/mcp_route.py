"""`/mcp`: operations as tools for agents, behind the same door as everything else.

What speaks the protocol is handed in from above and is loaded when somebody first asks for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from detent.errors import NotFound
from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import AnyTokenRoute
from detent.operations.registry import OPERATIONS, Caller, Scope

PATH = "/mcp"
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class Tools(Protocol):
    """A server of the protocol. Every request brings who asks, and how to ask in its name."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...

    async def serve(
        self,
        ask: Ask,
        scopes: frozenset[Scope],
        scope: Connection,
        receive: Receive,
        send: Send,
    ) -> None: ...


Load = Callable[[int], Tools]


class McpEndpoint:
    """The path's handler: strict JSON as everywhere, then the protocol's own server."""

    def __init__(
        self, dispatcher: OperationDispatcher, limits: strict_json.Limits, load: Load | None
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self._load = load
        self._loading = asyncio.Lock()
        self._tools: Tools | None = None
        self._running: asyncio.Task[None] | None = None

    async def handle(self, request: Request, context: RequestContext) -> ASGIApp:
        body = await strict_json.read_body(request, self.limits.size)
        strict_json.must_be(request, strict_json.JSON)
        strict_json.decode(body, self.limits)
        tools = await self._ready()
        caller = context.caller

        async def serve(scope: Connection, receive: Receive, send: Send) -> None:
            again = _replay(body, receive)
            await tools.serve(self._asking(caller), caller.scopes, scope, again, send)

        return serve

    def stop(self) -> None:
        """Let nobody wait any longer. Called on the event loop."""
        if self._tools is not None:
            self._tools.stop()

    async def join(self) -> None:
        self.stop()
        if self._running is not None:
            await self._running

    def _asking(self, caller: Caller) -> Ask:
        async def ask(operation: str, arguments: Mapping[str, Any]) -> Any:
            return await self.dispatcher.ask(OPERATIONS[operation], caller, arguments)

        return ask

    async def _ready(self) -> Tools:
        async with self._loading:
            if self._tools is None:
                self._tools = await self.dispatcher.work(self._loaded)
                self._running = asyncio.create_task(self._tools.run())
            return self._tools

    def _loaded(self) -> Tools:
        if self._load is None:
            raise NotFound("This gateway offers no tools.")
        return self._load(self.limits.size)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more, for whoever reads it after us."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def mcp_route_for(door: McpEndpoint) -> AnyTokenRoute:
    """The protocol describes itself, so that the OpenAPI document leaves it out."""
    return AnyTokenRoute("POST", PATH, door.handle, include_in_schema=False)
