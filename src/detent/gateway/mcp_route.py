"""`/mcp`: operations as MCP tools for agents, with the same authentication as every other path.

The server of the protocol is passed in by the caller and loaded at the first request.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from detent.errors import NotFound
from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import AnyTokenRoute
from detent.operations.registry import OPERATIONS, Caller, CallOperation, Scope
from detent.trace_propagation import current_traceparent, received_traceparent

PATH = "/mcp"


class McpServer(Protocol):
    """A server of the protocol. Each request has a caller's scopes and calls operations for it."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...

    async def serve(
        self,
        call: CallOperation,
        scopes: frozenset[Scope],
        scope: Connection,
        receive: Receive,
        send: Send,
    ) -> None: ...


LoadMcpServer = Callable[[int], McpServer]


class McpEndpoint:
    """The handler of the path: checks the JSON body and passes it to the server of the protocol."""

    def __init__(
        self,
        dispatcher: OperationDispatcher,
        limits: strict_json.Limits,
        load: LoadMcpServer | None,
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self._load = load
        self._loading = asyncio.Lock()
        self._server: McpServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def handle(self, request: Request, context: RequestContext) -> ASGIApp:
        body = await strict_json.read_body(request, self.limits.size)
        strict_json.must_be(request, strict_json.JSON)
        strict_json.decode(body, self.limits)
        server = await self._started()
        caller = context.caller

        async def serve(scope: Connection, receive: Receive, send: Send) -> None:
            again = _replay(body, receive)
            await server.serve(self._calls_for(caller), caller.scopes, scope, again, send)

        return serve

    def stop(self) -> None:
        """End the requests that wait. Called on the event loop."""
        if self._server is not None:
            self._server.stop()

    async def join(self) -> None:
        self.stop()
        if self._running is not None:
            await self._running

    def _calls_for(self, caller: Caller) -> CallOperation:
        header = current_traceparent()

        async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
            # The request may have its own in its metadata; the server runs in another task.
            with received_traceparent(current_traceparent() or header):
                return await self.dispatcher.call(OPERATIONS[operation], caller, arguments)

        return call

    async def _started(self) -> McpServer:
        async with self._loading:
            if self._server is None:
                self._server = await self.dispatcher.run_in_thread(self._loaded)
                self._running = asyncio.create_task(self._server.run())
            return self._server

    def _loaded(self) -> McpServer:
        if self._load is None:
            raise NotFound("This gateway has no MCP server.")
        return self._load(self.limits.size)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body once more: it was read to be checked."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


def mcp_route_for(endpoint: McpEndpoint) -> AnyTokenRoute:
    """The route. MCP describes itself, so the OpenAPI document omits it."""
    return AnyTokenRoute("POST", PATH, endpoint.handle)
